"""Files and process: modes, links, closed descriptors, core files, what the log shows; see docs/SECURITY.md."""

import os
import re
import signal
import stat
import subprocess
import tempfile

from connection import Connection
from report import Skipped, expect, expect_true
from server import free_port, sanitizer

SECRET = b"s3cret-value-of-a-client"


def daemon(context, *options, **settings):
    if context.options.server or context.options.against != "ours":
        raise Skipped("needs our own daemon")
    return context.daemon(options=["-t", "2", *options], **settings)


def refused(context, *options):
    """Exit status and reason of a daemon that must not start."""
    path = daemon(context).path
    command = [path, "-l", f"127.0.0.1:{free_port()}", *options]
    run = subprocess.run(command, capture_output=True, timeout=20, check=False)
    return run.returncode, run.stderr.decode()


def modes(context):
    """Everything is for the owner only, whatever umask the parent had; the Unix socket has the bits asked for."""
    before = os.umask(0)
    try:
        server = daemon(context, "--unix-mode", "660")
        path = os.path.join(server.home, "socket")
        server.options += ["--unix", path]
        server.start()
    finally:
        os.umask(before)
    with server:
        with server.connect() as connection:
            for number in range(50):
                connection.set(b"key-%d" % number, b"v" * (number * 3000))
        expect(stat.S_IMODE(os.lstat(path).st_mode), 0o660, "mode of the Unix socket")
        with Connection(path) as connection:
            expect(connection.get(b"key-1").data, b"v" * 3000, "get over it")
        expect(server.terminate(), 0, "exit status")
        for folder, _, files in os.walk(server.store):
            expect(stat.S_IMODE(os.lstat(folder).st_mode), 0o700, f"mode of {folder}")
            for name in files:
                expect(stat.S_IMODE(os.lstat(os.path.join(folder, name)).st_mode), 0o600, f"mode of {name}")


def foreign_directories(context):
    with tempfile.TemporaryDirectory() as home:
        real, link = os.path.join(home, "real"), os.path.join(home, "link")
        os.mkdir(real, 0o700)
        os.symlink(real, link)
        for path, mode, word in ((link, 0o700, "symbolic link"), (real, 0o777, "writable"), (real, 0o770, "writable")):
            os.chmod(real, mode)
            status, reason = refused(context, "--dir", path)
            expect(status, 78, f"exit status for {path} with mode {mode:o}")
            expect_true(word in reason, f"{word!r} in {reason!r}")
        expect(os.listdir(real), [], "what was left in a directory that was refused")


def closed_descriptors(context):
    """With descriptors 0 to 2 closed by the parent, no file of ours gets their numbers."""
    server = daemon(context)
    server.launcher = ["bash", "-c", 'exec 0<&- 1>&- 2>&-; exec "$@"', "bash"]
    with server:
        for number in range(3):
            target = os.readlink(f"/proc/{server.process.pid}/fd/{number}")
            expect(target, "/dev/null", f"descriptor {number}")
        with server.connect() as connection:
            expect(connection.set(b"a", b"v" * 100_000), b"STORED", "set")


def core_files(context):
    def soft_limit(server):
        with open(f"/proc/{server.process.pid}/limits", encoding="ascii") as file:
            return next(line.split()[4] for line in file if line.startswith("Max core file size"))

    with daemon(context) as server:
        expect(soft_limit(server), "0", "core limit")
    with daemon(context, "-r") as server:
        expect_true(soft_limit(server) != "0" or os.popen("ulimit -H -c").read().strip() == "0", "core limit with -r")


def blocked_signals(context):
    """A parent that blocks SIGTERM cannot make the daemon deaf."""
    server = daemon(context, "--no-disk")
    code = "import os,signal,sys; signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\n"
    code += "os.execv(sys.argv[1], sys.argv[1:])"
    server.launcher = ["/usr/bin/python3", "-c", code]
    with server:
        expect(server.terminate(), 0, "exit status after SIGTERM")


def few_addresses(context):
    """Under `ulimit -v` the memory tier takes fewer addresses, and keeps to its limit."""
    server = daemon(context, "--no-disk", "-t", "2", "-m", "64")
    if name := sanitizer(server.path):
        raise Skipped(f"{name} reserves more addresses than the limit")
    server.launcher = ["prlimit", f"--as={1 << 30}", "--"]
    with server, server.connect() as connection:
        for number in range(300):
            expect(connection.set(b"key-%d" % number, b"v" * 500_000), b"STORED", "a large value")
        small = [b"set small-%d 0 0 500 noreply\r\n%s\r\n" % (number, b"v" * 500) for number in range(20_000)]
        connection.send(b"".join(small))
        expect(connection.command(b"mn"), b"MN", "still there")
        expect_true(int(connection.stats()[b"evictions"]) > 100, "entries were evicted for room")


def user_signal(context):
    """SIGUSR1 stops in order, as it does memcached."""
    with daemon(context) as server:
        with server.connect() as connection:
            expect(connection.set(b"kept", b"value"), b"STORED", "set")
        server.process.send_signal(signal.SIGUSR1)
        expect(server.process.wait(20), 0, "exit status after SIGUSR1")
        expect_true("stopped" in server.log_tail(2000), f"an orderly stop: {server.log_tail(500)}")


def logs(context):
    """At the chattiest level: no values, no forged lines, no raw bytes of clients."""
    forged = b"x\x1b[31m\x07\xff\xfe\x00y"
    with daemon(context, "-vv", "--no-disk") as server:
        with server.connect() as connection:
            connection.set(b"key", SECRET)
            connection.send(b"get key\r\nget " + forged + b"\r\nms key %d\r\n%s\r\n" % (len(SECRET), SECRET))
            connection.send(b"nonsense \"quoted\" back\\slash cache-daemon: error: forged\rcache-daemon: x\r\n")
            connection.send(b"get " + b"k" * 249 + b"\xc2\x80" * 0 + b"\r\nmn\r\n")
            while connection.line() != b"MN":
                pass
        with open(server.log_path, "rb") as log:
            lines = log.read().split(b"\n")
    for line in lines:
        expect_true(SECRET not in line, f"a value in the log: {line!r}")
        expect_true(re.fullmatch(rb"[\x20-\x7e]*", line), f"raw bytes in the log: {line!r}")
        expect_true(not line or line.startswith(b"cache-daemon: "), f"a line that is none of ours: {line!r}")
        expect_true(not line.startswith(b"cache-daemon: error"), f"a forged line: {line!r}")
    expect_true(any(b"\\x1b" in line for line in lines), "control characters are shown escaped")
    expect_true(any(b"request" in line for line in lines), "requests are logged at this level")


def connection_numbers(context):
    """Each connection has a number of its own in the log, whichever worker serves it."""
    with daemon(context, "-v", "--no-disk") as server:
        held = [server.connect() for _ in range(12)]
        for connection in held:
            expect(connection.command(b"mn"), b"MN", "mn")
        with open(server.log_path, encoding="utf-8") as log:
            numbers = re.findall(r"info: connected connection=(\d+)", log.read())
        expect_true(len(numbers) >= 12 and len(set(numbers)) == len(numbers), f"numbers of connections: {numbers}")
        for connection in held:
            connection.close()


def second_daemon(context):
    with daemon(context) as server:
        status, reason = refused(context, "--dir", server.store)
        expect(status, 75, "exit status of a second daemon")
        expect_true(str(server.process.pid) in reason, f"the first one's pid in {reason!r}")


def traversal(context):
    """No key becomes a file name."""
    with daemon(context) as server:
        names = (b"../../escape", b"/etc/escape", b"..", b".", b"a/b", b"%2e%2e%2f", b"con\xff")
        with server.connect() as connection:
            for name in names:
                expect(connection.set(name, b"v" * 100_000), b"STORED", f"set {name!r}")
        expect(server.terminate(), 0, "exit status")
        for folder, folders, files in os.walk(server.store):
            for name in (*folders, *files):
                ours = re.fullmatch(r"[0-9a-f]{2}|[0-9a-f]{16}|store|v|lock|FORMAT|anchor|journal|index\.db.*", name)
                expect_true(ours, f"{name} in {folder}")


def quarantine_is_a_warning(context):
    server = daemon(context)
    with server:
        with server.connect() as connection:
            connection.set(b"a", b"b")
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(20)
        with open(os.path.join(server.store, "store", "index.db"), "r+b") as file:
            file.write(b"\xff" * 4096)
        open(server.log_path, "wb").close()
        server.start()
        expect_true("warning: disk tier" in server.log_tail(2000), f"a warning: {server.log_tail(2000)}")


CHECKS = (
    ("F1: no key becomes a file name", traversal),
    ("F2: links and directories that others may write are refused, and left alone", foreign_directories),
    ("F3: files are for the owner only, the Unix socket has its bits", modes),
    ("F4: a second daemon on the directory is told who has it", second_daemon),
    ("F5: descriptors 0 to 2 closed by the parent", closed_descriptors),
    ("F9: no core files unless asked for", core_files),
    ("F9, F10: the log shows no values and cannot be forged", logs),
    ("signals blocked by the parent", blocked_signals),
    ("SIGUSR1 stops in order", user_signal),
    ("few addresses (ulimit -v)", few_addresses),
    ("numbers of connections are unique", connection_numbers),
    ("a quarantined store is a warning", quarantine_is_a_warning),
)


def run(context):
    for name, check in CHECKS:
        with context.report.case(name):
            check(context)
