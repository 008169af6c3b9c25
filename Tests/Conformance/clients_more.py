"""More unmodified clients, each a small program under clients/ that calls every operation the client offers.

A program gets host and port, prints how many answers it checked, and ends with status 1 and a line at the first wrong
one. What a client needs comes from Debian, for the Python ones from PyPI into a virtual environment below .build, made
at the first run. A client that is not there is skipped with a line that says so.
"""

import os
import shutil
import subprocess
import tempfile

from report import Mismatch, Skipped, expect_true
from server import ROOT

PROGRAMS = os.path.join(ROOT, "Tests", "Conformance", "clients")
SPYMEMCACHED = "/usr/share/java/spymemcached.jar"
GOCODE = "/usr/share/gocode"
ENVIRONMENT = os.path.join(ROOT, ".build", "conformance-python")
PYPI = ("pymemcache==4.0.0", "aiomcache==0.8.2", "meta-memcache==4.3.0")
DALLI_MARK = os.path.join("lib", "dalli", "protocol", "meta.rb")


def run(context):
    report = context.report
    with context.target() as server:
        for name, check in (
            ("php-memcached, text mode", php),
            ("Perl's Cache::Memcached::Fast", perl),
            ("gomemcache", gomemcache),
            ("spymemcached, text mode", spymemcached),
            ("Dalli", dalli),
        ):
            with report.case(f"{name}: every operation"):
                report.note(f"{name}: {check(server)}")
        for requirement in PYPI:
            name = requirement.split("==")[0]
            with report.case(f"{requirement} of PyPI: every operation"):
                report.note(f"{name}: {pypi(server, name)}")


def played(server, *command, seconds=60, **settings):
    """Runs one client program against the server; returns what it says it checked."""
    host, port = server.address
    done = subprocess.run(
        [*command, host, str(port)],
        capture_output=True,
        text=True,
        timeout=seconds,
        stdin=subprocess.DEVNULL,
        check=False,
        **settings,
    )
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise Mismatch(" / ".join(said[-3:])[-600:] or f"exit status {done.returncode}")
    last = (done.stdout.splitlines() or [""])[-1]
    expect_true(last.endswith(" checks") and int(last.split()[0]) > 10, f"the program says what it checked: {last!r}")
    return last


def program(name):
    return os.path.join(PROGRAMS, name)


def needed(name, package):
    """The path of a command; skips the check without it."""
    path = shutil.which(name)
    if not path:
        raise Skipped(f"{name} is not installed ({package})")
    return path


def succeeds(*command):
    return subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, check=False).returncode == 0


def php(server):
    interpreter = needed("php", "php-cli")
    if not succeeds(interpreter, "-r", 'exit(extension_loaded("memcached") ? 0 : 1);'):
        raise Skipped("the memcached extension is not installed (php-memcached)")
    return played(server, interpreter, program("php_memcached.php"))


def perl(server):
    interpreter = needed("perl", "perl")
    if not succeeds(interpreter, "-MCache::Memcached::Fast", "-e", "1"):
        raise Skipped("Cache::Memcached::Fast is not installed (libcache-memcached-fast-perl)")
    return played(server, interpreter, program("cache_memcached_fast.pl"))


def gomemcache(server):
    compiler = needed("go", "golang-go")
    if not os.path.isdir(os.path.join(GOCODE, "src", "github.com", "bradfitz", "gomemcache")):
        raise Skipped("gomemcache is not installed (golang-github-bradfitz-gomemcache-dev)")
    with tempfile.TemporaryDirectory(prefix="conformance-go-") as folder:
        environment = dict(
            os.environ, GO111MODULE="off", GOPATH=GOCODE, GOFLAGS="", GOCACHE=os.path.join(folder, "cache")
        )
        built = os.path.join(folder, "gomemcache")
        done = subprocess.run(
            [compiler, "build", "-o", built, program("gomemcache.go")],
            capture_output=True,
            text=True,
            timeout=240,
            stdin=subprocess.DEVNULL,
            env=environment,
            check=False,
        )
        if done.returncode != 0:
            raise Mismatch(f"go build: {done.stderr.strip()[-400:]}")
        return played(server, built)


def spymemcached(server):
    java = needed("java", "default-jdk-headless")
    if not os.path.exists(SPYMEMCACHED):
        raise Skipped("spymemcached is not installed (libspymemcached-java)")
    if not succeeds(java, "--list-modules") or not shutil.which("javac"):
        raise Skipped("java here cannot run a source file (default-jdk-headless)")
    return played(server, java, "-Xmx128m", "-cp", SPYMEMCACHED, program("Spymemcached.java"))


def dalli(server):
    """Dalli speaks the meta commands from 3.2 on; Debian 12 has an older one."""
    listing = subprocess.run(["dpkg-query", "-L", "ruby-dalli"], capture_output=True, text=True, check=False)
    if listing.returncode != 0:
        raise Skipped("Dalli is not installed (ruby-dalli)")
    if not any(path.endswith(DALLI_MARK) for path in listing.stdout.splitlines()):
        version = subprocess.run(
            ["dpkg-query", "-W", "-f=${Version}", "ruby-dalli"], capture_output=True, text=True, check=False
        ).stdout
        raise Skipped(f"ruby-dalli {version} speaks only the binary protocol; the meta commands came with Dalli 3.2")
    raise Skipped("this Dalli speaks the meta commands, but there is no program for it yet")


def pypi(server, name):
    if server.dialect == "old" and name == "meta-memcache":
        raise Skipped("1.6.18 differs too much in the meta commands")
    return played(server, python_with_clients(), program("pypi_clients.py"), name)


def python_with_clients():
    """The interpreter of the virtual environment with the clients of PYPI."""
    return environment(PYPI, ENVIRONMENT)


def environment(packages, folder):
    """The interpreter of a virtual environment, which is made if it is not there or holds other versions."""
    if not os.path.isabs(folder):
        folder = os.path.join(os.path.dirname(ENVIRONMENT), folder)
    python = os.path.join(folder, "bin", "python3")
    mark = os.path.join(folder, "holds")
    wanted = " ".join(packages)
    if os.path.exists(mark):
        with open(mark, encoding="utf-8") as file:
            if file.read() == wanted:
                return python
    shutil.rmtree(folder, ignore_errors=True)
    for command in (
        [needed("python3", "python3"), "-m", "venv", folder],
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1", *packages],
    ):
        try:
            subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=180, check=True)
        except (OSError, subprocess.SubprocessError) as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise Skipped(f"cannot be installed from PyPI ({' '.join(command[1:4])}: {type(error).__name__})") from None
    with open(mark, "w", encoding="utf-8") as file:
        file.write(wanted)
    return python
