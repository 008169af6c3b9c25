"""Accounts (`-Y`, auth.file): real clients through the login, our tools, and that a wrong password gets nowhere.

Client libraries know nothing of it: the first `set` of a connection is the login. A client with several connections, or
one that reconnects, has to say it on each.
"""

import os
import re
import subprocess

from report import Skipped, expect, expect_true

PASSWORD = "open sesame"


def run(context):
    report = context.report
    for kind in ("plain", "hashed"):
        with report.case(f"{kind} password: pymemcache works after the login"):
            pymemcache_client(context, kind)
        with report.case(f"{kind} password: python-memcached works after the login"):
            python_memcached_client(context, kind)
        with report.case(f"{kind} password: pylibmc works after the login"):
            pylibmc_client(context, kind)
    with report.case("cache-stats and cache-bench log in with a file or the environment"):
        our_tools(context)
    with report.case("without the password nothing is told, done or stored"):
        strangers(context)
    with report.case("neither the log nor the process list shows a password"):
        nothing_leaks(context)


def accounts(context, kind="plain"):
    """A daemon with two accounts, not started."""
    daemon = context.daemon()
    secret = hashed(PASSWORD) if kind == "hashed" else PASSWORD
    path = os.path.join(daemon.home, "accounts")
    with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
        file.write(f"web:{secret}\nreader:{secret}\n@reader read\n")
    daemon.options += ["-Y", path, "-vv", "--no-disk"]
    return daemon


def hashed(password):
    """A yescrypt hash by libcrypt, as in /etc/shadow."""
    done = subprocess.run(
        ["perl", "-e", "print crypt($ARGV[0], '$y$j75$saltsaltsalt')", password],
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    expect_true(done.stdout.startswith("$y$"), "libcrypt knows yescrypt")
    return done.stdout


def pymemcache_client(context, kind):
    try:
        from pymemcache.client.base import Client
        from pymemcache.exceptions import MemcacheClientError
    except ImportError as error:
        raise Skipped("python3-pymemcache is not installed") from error
    with accounts(context, kind) as daemon:
        client = Client(daemon.address, timeout=15, default_noreply=False)
        expect(client.set("login", f"web {PASSWORD}"), True, "login")
        expect(client.set("k", b"v"), True, "set")
        expect(client.get("k"), b"v", "get")
        expect(client.get_many(["k", "login"]), {"k": b"v"}, "the login is no entry")
        expect(client.incr("n", 1), None, "incr of nothing")
        reader = Client(daemon.address, timeout=15, default_noreply=False)
        expect(reader.set("login", f"reader {PASSWORD}"), True, "login of the reader")
        expect(reader.get("k"), b"v", "get by the reader")
        try:
            reader.set("k", b"w")
            expect_true(False, "a reader cannot store")
        except MemcacheClientError as error:
            expect(str(error.args[0]), "b'permission denied'", "the refusal")
        expect(client.get("k"), b"v", "the value is unharmed")
        wrong = Client(daemon.address, timeout=15, default_noreply=False)
        try:
            wrong.set("login", "web wrong")
            expect_true(False, "a wrong password opens nothing")
        except MemcacheClientError as error:
            expect(str(error.args[0]), "b'authentication failure'", "the refusal of a wrong password")


def python_memcached_client(context, kind):
    try:
        import memcache
    except ImportError as error:
        raise Skipped("python3-memcache is not installed") from error
    with accounts(context, kind) as daemon:
        client = memcache.Client(["%s:%d" % daemon.address], socket_timeout=15)
        expect_true(client.set("login", f"web {PASSWORD}"), "login")
        expect_true(client.set("k", "v"), "set")
        expect(client.get_multi(["k", "login"]), {"k": "v"}, "get_multi")
        expect_true(client.delete("k"), "delete")


def pylibmc_client(context, kind):
    try:
        import pylibmc
    except ImportError as error:
        raise Skipped("python3-pylibmc is not installed") from error
    with accounts(context, kind) as daemon:
        client = pylibmc.Client(["%s:%d" % daemon.address])
        expect_true(client.set("login", f"web {PASSWORD}"), "login")
        expect_true(client.set("k", "v"), "set")
        expect(client.get("k"), "v", "get")


def our_tools(context):
    with accounts(context, "hashed") as daemon:
        folder = os.path.dirname(context.daemon_path)
        address = "%s:%d" % daemon.address
        path = os.path.join(daemon.home, "password")
        with open(path, "w", encoding="ascii") as file:
            file.write(PASSWORD + "\n")
        stats = [os.path.join(folder, "cache-stats"), address, "all"]
        bench = [os.path.join(folder, "cache-bench"), address, "-n", "2000", "-c", "8", "-q"]
        for program in (stats[0], bench[0]):
            if not os.access(program, os.X_OK):
                raise Skipped(f"{os.path.basename(program)} is not built")
        expect_true(b"auth_cmds" in tool([*stats, "--user", "web", "--password-file", path]), "cache-stats")
        expect_true(b"auth_cmds" in tool([*stats, "--user", "web"], PASSWORD), "cache-stats with the environment")
        total = re.search(rb"total +2,000 ", tool([*bench, "--user", "web"], PASSWORD))
        expect_true(total, "cache-bench did its operations")
        tool([*stats, "--user", "web"], "wrong", status=69)
        tool(stats, status=69)
        tool([*stats, "--user", "web"], status=64)


def tool(command, password=None, status=0):
    """Runs one of our programs, checks its exit status, returns its output."""
    environment = {name: value for name, value in os.environ.items() if name != "CACHE_DAEMON_PASSWORD"}
    if password is not None:
        environment["CACHE_DAEMON_PASSWORD"] = password
    done = subprocess.run(
        command, capture_output=True, timeout=60, stdin=subprocess.DEVNULL, check=False, env=environment
    )
    expect(done.returncode, status, f"exit status of {' '.join(command)} ({done.stderr.decode()[:200].strip()})")
    return done.stdout


def strangers(context):
    """Every command of a stranger is refused alike, and has no effect."""
    with accounts(context) as daemon:
        with daemon.connect() as user:
            expect(user.set(b"login", f"web {PASSWORD}".encode()), b"STORED", "login")
            expect(user.set(b"k", b"v"), b"STORED", "set")
            for line in (b"get k", b"version", b"stats", b"flush_all", b"shutdown", b"delete k", b"mg k v", b"watch"):
                with daemon.connect() as stranger:
                    expect(stranger.command(line), b"CLIENT_ERROR unauthenticated", line.decode())
            with daemon.connect() as stranger:
                # A token that is announced too long, and commands hidden in it.
                stranger.send(b"set k 0 0 2000000000\r\n" + b"flush_all\r\n" * 50 + b"quit\r\n")
                lines = stranger.rest().split(b"\r\n")
                refusals = [b"CLIENT_ERROR unauthenticated"] * 50
                expect(lines, [b"CLIENT_ERROR auth token too long", *refusals, b""], "answers to smuggled commands")
            expect(user.get(b"k").data, b"v", "the value is unharmed")


def nothing_leaks(context):
    with accounts(context) as daemon:
        with daemon.connect() as client:
            answer = client.set(b"login", b"web wrong-password")
            expect(answer, b"CLIENT_ERROR authentication failure", "wrong password")
            expect(client.set(b"login", f"web {PASSWORD}".encode()), b"STORED", "login")
            expect(client.command(b"mn"), b"MN", "after the login")
        with open(f"/proc/{daemon.process.pid}/cmdline", "rb") as file:
            arguments = file.read()
        with open(daemon.log_path, "rb") as file:
            log = file.read()
        expect_true(b"authentication failed" in log, "the failure is in the log")
        for place, text in (("command line", arguments), ("log", log)):
            for secret in (b"sesame", b"wrong-password"):
                expect_true(secret not in text, f"{place} without {secret.decode()}")
