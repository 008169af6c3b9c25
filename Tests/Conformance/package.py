"""The Debian package that `make deb` has built: what is in it, and its life in a clean Debian: installed, run, removed,
purged.

Skipped without a package. The clean Debian is made by debootstrap (as root, with a mirror in reach) and kept in
.build/package-root; each run uses a copy.
"""

import glob
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import server
from connection import Connection
from report import Skipped, expect, expect_true

WANTED = """etc/cache-daemon.conf etc/default/cache-daemon lib/systemd/system/cache-daemon.service
lib/systemd/system/cache-daemon.socket usr/bin/cache-bench usr/bin/cache-daemon usr/bin/cache-stats
usr/lib/sysusers.d/cache-daemon.conf usr/share/man/man8/cache-daemon.8.gz usr/share/man/man5/cache-daemon.conf.5.gz
usr/share/man/man1/cache-stats.1.gz usr/share/man/man1/cache-bench.1.gz
usr/share/bash-completion/completions/cache-daemon usr/share/zsh/vendor-completions/_cache-stats
usr/share/fish/vendor_completions.d/cache-bench.fish usr/share/doc/cache-daemon/copyright
usr/share/doc/cache-daemon/OPERATIONS.md""".split()
BYTES_MAX = 20 << 20
ROOT = os.path.join(server.ROOT, ".build", "package-root")


def run(context):
    report = context.report
    report.suite = "package"
    with report.case("make install PREFIX= puts programs and units in place, and the unit names the programs there"):
        check_install()
    found = sorted(glob.glob(os.path.join(server.ROOT, ".build", "cache-daemon_*.deb")))
    if not found:
        report.line("skip package: none is built; make deb")
        return
    with report.case("it holds the programs, units, configuration, manuals and completions, and is small"):
        check_contents(found[-1])
    with report.case("the unpacked programs run with nothing but the libraries that it depends on"):
        check_libraries(found[-1])
    with report.case("lintian finds no error"):
        check_lintian(found[-1])
    with report.case("a clean Debian installs, runs, removes and purges it"):
        check_life(found[-1])
    with report.case("the container's image: each step of the Dockerfile that needs no Swift, in a clean Debian"):
        check_container(found[-1])


def output(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300, **options)
    expect_true(done.returncode == 0, f"{' '.join(command[:4])}: {done.stdout[-300:]}{done.stderr[-500:]}")
    return done.stdout


def check_install():
    """`make install` of what is built; -o keeps it from building again."""
    if not os.access(os.path.join(server.ROOT, ".build", "release", "cache-bench"), os.X_OK):
        raise Skipped("there is no release build")
    home = tempfile.mkdtemp(prefix="installed-")
    try:
        output("make", "-o", "build", "install", "PREFIX=/opt/cache", f"DESTDIR={home}", cwd=server.ROOT)
        for program in ("cache-daemon", "cache-stats", "cache-bench"):
            expect_true(program in output(f"{home}/opt/cache/bin/{program}", "--version"), program)
        with open(f"{home}/opt/cache/lib/systemd/system/cache-daemon.service", encoding="utf-8") as file:
            unit = file.read()
        expect(re.findall(r"^ExecStart=(\S+)", unit, re.MULTILINE), ["/opt/cache/bin/cache-daemon"], "ExecStart")
        for name in ("lib/systemd/system/cache-daemon.socket", "share/doc/cache-daemon/cache-daemon.conf"):
            expect_true(os.path.exists(f"{home}/opt/cache/{name}"), name)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def check_contents(package):
    listed = {line.split()[5][2:] for line in output("dpkg-deb", "-c", package).splitlines()}
    expect_true(set(WANTED) <= listed, f"missing: {set(WANTED) - listed}")
    expect_true(os.path.getsize(package) < BYTES_MAX, f"{os.path.getsize(package)} bytes")
    conffiles = output("dpkg-deb", "-I", package, "conffiles").split()
    expect(conffiles, ["/etc/cache-daemon.conf", "/etc/default/cache-daemon"], "conffiles")


def check_libraries(package):
    home = tempfile.mkdtemp(prefix="unpacked-")
    try:
        output("dpkg-deb", "-x", package, home)
        depends = output("dpkg-deb", "-f", package, "Depends")
        names = {part.split()[0] for part in depends.split(",")}
        needed = set()
        for program in ("cache-daemon", "cache-stats", "cache-bench"):
            path = os.path.join(home, "usr/bin", program)
            expect_true(program in output(path, "--version"), f"{program} --version")
            for line in output("ldd", path).splitlines():
                expect_true("not found" not in line, line)
                if "=>" in line:
                    needed.add(os.path.basename(os.path.realpath(line.split()[2])))
        check_owners(needed, names)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def check_owners(libraries, names):
    """Each library belongs to a package that is named, or to one that those bring along."""
    expect_true(not any("swift" in library for library in libraries), f"Swift's runtime is not linked in: {libraries}")
    brought = output("apt-cache", "depends", "--recurse", "--no-recommends", "--no-suggests", "--no-conflicts",
                     "--no-breaks", "--no-replaces", "--no-enhances", *names).split()
    for line in output("dpkg-query", "-S", *(f"*/{library}" for library in sorted(libraries))).splitlines():
        owner = line.split(":")[0]
        expect_true(owner in names or owner in brought, f"{line}: nothing depends on it")


def check_lintian(package):
    if shutil.which("lintian") is None:
        raise Skipped("lintian is not installed")
    done = subprocess.run(["lintian", "--fail-on", "error", package], capture_output=True, text=True, timeout=120)
    errors = [line for line in done.stdout.splitlines() if line.startswith("E:")]
    expect(errors, [], "errors")


def check_life(package):
    home = clean_root()
    try:
        shutil.copy(package, os.path.join(home, "package.deb"))
        inside(home, "apt-get", "install", "-y", "-q", "--no-install-recommends", "/package.deb")
        expect_true("install ok installed" in inside(home, "dpkg", "-s", "cache-daemon"), "the state")
        check_service(home)
        inside(home, "dpkg", "-r", "cache-daemon")
        expect(os.path.exists(os.path.join(home, "usr/bin/cache-daemon")), False, "the program is gone")
        expect(os.path.exists(os.path.join(home, "etc/cache-daemon.conf")), True, "the configuration is kept")
        inside(home, "dpkg", "-P", "cache-daemon")
        for path in ("etc/cache-daemon.conf", "etc/default/cache-daemon", "var/cache/cache-daemon"):
            expect(os.path.exists(os.path.join(home, path)), False, f"/{path} is purged")
    finally:
        shutil.rmtree(home, ignore_errors=True)


def stages(text):
    """The Dockerfile as stages of (instruction, arguments), comments and line ends undone."""
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)
    found = []
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        if not line.strip():
            continue
        word, _, rest = line.partition(" ")
        if word == "FROM":
            found.append([])
        found[-1].append((word, rest.strip()))
    return found


def check_container(package):
    """The stage that runs, by hand: its commands, its user, what it starts and how it is probed.

    Of the stage that builds, the files that it names and the version of Swift are looked at.
    """
    with open(os.path.join(server.ROOT, "Dockerfile"), encoding="utf-8") as file:
        build, final = stages(file.read())
    expect_true(build[0][1].startswith("swift:6.3-bookworm"), f"the build stage: {build[0]}")
    for path in re.findall(r"Scripts/[a-z-]+", " ".join(rest for _, rest in build)):
        expect_true(os.access(os.path.join(server.ROOT, path), os.X_OK), f"{path} is no program")
    steps = {word: rest for word, rest in final}
    expect_true(steps["FROM"].startswith("debian:bookworm"), f"the final stage: {final[0]}")
    home = clean_root()
    try:
        shutil.copy(package, os.path.join(home, "tmp"))
        inside(home, "sh", "-ec", steps["RUN"])
        user = inside(home, "id", "-u", steps["USER"]).strip()
        group = inside(home, "id", "-g", steps["USER"]).strip()
        environment = dict(part.split("=", 1) for part in steps["ENV"].split())
        command = json.loads(steps["ENTRYPOINT"])
        probe = json.loads(steps["HEALTHCHECK"].partition("CMD ")[2])
        # Here the network is the machine's: other ports, and this machine only.
        ports = {"11211": str(server.free_port()), "11212": str(server.free_port())}
        command = [re.sub(r"0\.0\.0\.0:(\d+)", lambda m: "127.0.0.1:" + ports[m.group(1)], word) for word in command]
        variables = [f"{name}={value}" for name, value in environment.items()]
        run_container(home, f"{user}:{group}", ["env", *variables, *command], probe, ports)
        expect_true(os.path.exists(home + environment["CACHE_DIRECTORY"] + "/FORMAT"), "the volume is used")
    finally:
        shutil.rmtree(home, ignore_errors=True)


def run_container(home, user, command, probe, ports):
    script = f"mount -t proc proc {home}/proc && exec chroot --userspec={user} {home} "
    process = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", script + shlex.join(command)], stdin=subprocess.DEVNULL)
    try:
        wait_for(int(ports["11211"]), process)
        words = [*probe[:1], f"127.0.0.1:{ports['11211']}", *probe[1:]]
        answer = output("unshare", "--mount", "sh", "-c", script + shlex.join(words))
        expect_true(answer.startswith("CACHE OK"), f"the probe: {answer}")
        with socket.create_connection(("127.0.0.1", int(ports["11212"])), 5) as client:
            client.sendall(b"GET /readyz HTTP/1.0\r\n\r\n")
            expect_true(b" 200 " in client.recv(1000), "the admin port")
    finally:
        process.send_signal(signal.SIGTERM)
        expect(process.wait(20), 0, "the exit status")


def clean_root():
    """A copy of a minimal Debian."""
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        raise Skipped("needs root and debootstrap")
    if not os.path.exists(os.path.join(ROOT, "made")):
        shutil.rmtree(ROOT, ignore_errors=True)
        done = subprocess.run(
            ["debootstrap", "--variant=minbase", "bookworm", ROOT], capture_output=True, text=True, timeout=600)
        if done.returncode != 0:
            raise Skipped(f"debootstrap: {done.stdout[-200:]}")
        open(os.path.join(ROOT, "made"), "w", encoding="utf-8").close()
    home = tempfile.mkdtemp(prefix="package-root-")
    output("cp", "-a", "--reflink=auto", ROOT + "/.", home)
    shutil.copy("/etc/resolv.conf", os.path.join(home, "etc/resolv.conf"))
    for folder in ("sources.list.d", "apt.conf.d", "keyrings", "trusted.gpg.d"):
        source = os.path.join("/etc/apt", folder)
        if os.path.isdir(source) and folder == "apt.conf.d":
            shutil.copytree(source, os.path.join(home, "etc/apt", folder), dirs_exist_ok=True)
    done = subprocess.run(["chroot", home, "apt-get", "update", "-q"], capture_output=True, text=True, timeout=200)
    if done.returncode != 0:
        raise Skipped(f"no mirror in reach: {done.stderr[-200:]}")
    return home


def inside(home, *command):
    return output("chroot", home, *command, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LANG": "C"})


def check_service(home):
    """The daemon runs as a user of its own with the packaged configuration."""
    user = "65534:65534"
    store = os.path.join(home, "var/cache/cache-daemon")
    os.makedirs(store, exist_ok=True)
    os.chown(store, 65534, 65534)
    os.chmod(store, 0o700)
    port = server.free_port()
    # /proc has the boot id, and the arguments of Swift programs; it is mounted for each process alone.
    def isolated(command):
        script = f"mount -t proc proc {home}/proc && exec chroot --userspec={user} {home} {command}"
        return ["unshare", "--mount", "sh", "-c", script]

    process = subprocess.Popen(
        isolated(f"cache-daemon --config /etc/cache-daemon.conf --dir /var/cache/cache-daemon -p {port}"),
        stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        wait_for(port, process)
        with Connection(("127.0.0.1", port)) as client:
            client.set(b"a", b"b")
        text = output(*isolated(f"cache-stats 127.0.0.1:{port} check"))
        expect_true(text.startswith("CACHE OK"), text)
    finally:
        process.terminate()
        expect(process.wait(20), 0, "the exit status")


def wait_for(port, process):
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        try:
            with Connection(("127.0.0.1", port)):
                return
        except OSError:
            expect_true(process.poll() is None, "the daemon has ended")
            time.sleep(0.05)
