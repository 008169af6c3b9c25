"""Starts, stops and kills the servers under test, each in a temporary directory and on a free loopback port.

Three kinds: our daemon (`Daemon`), Debian's or another memcached (`Memcached`), and a server somebody else runs
(`Foreign`). A suite asks `capable` what it may rely on. Only processes started here are signalled, by pid. Everything
left over at exit is stopped and its directory removed. The registry is used from the main thread only.
"""

import atexit
import mmap
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from connection import PATIENCE, Closed, Connection

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
START_SECONDS = 60.0
running = []


class StartFailed(Exception):
    """The server did not come up; the text holds the end of its log."""


@atexit.register
def stop_all():
    for server in list(running):
        server.kill()
        server.discard()


def free_port():
    """A loopback port nobody uses, below the kernel's ephemeral range so that no client connection takes it."""
    while True:
        port = random.SystemRandom().randrange(20000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def find_daemon(path=None):
    """The cache-daemon to test: the argument, $CACHE_DAEMON, the release build, the debug build; None without one."""
    wanted = path or os.environ.get("CACHE_DAEMON")
    if wanted:
        return os.path.abspath(wanted)
    for build in ("release", "debug"):
        candidate = os.path.join(ROOT, ".build", build, "cache-daemon")
        if os.access(candidate, os.X_OK):
            return candidate
    return None


def sanitizer(path):
    """The sanitizer that a program was built with, whose run time it holds; None without one.

    Such a process reserves terabytes of addresses. Under AddressSanitizer, freed memory stays resident for a while,
    with zones around each allocation.
    """
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as program:
        for name, symbol in (("AddressSanitizer", b"__asan_init"), ("ThreadSanitizer", b"__tsan_init")):
            if program.find(symbol) >= 0:
                return name
    return None


def find_memcached():
    """The memcached to compare with: $MEMCACHED, else the one on the path; None without one."""
    return os.environ.get("MEMCACHED") or shutil.which("memcached")


def listening(port):
    """The inodes of the sockets that listen on a TCP port of this machine, as /proc/net/tcp has them."""
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table, encoding="ascii") as file:
                rows = [line.split() for line in file.readlines()[1:]]
        except OSError:
            continue
        inodes |= {row[9] for row in rows if row[3] == "0A" and int(row[1].rpartition(":")[2], 16) == port}
    return inodes


def holds(pid, inodes):
    """Whether a process has one of these sockets open."""
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return False
    for name in names:
        try:
            if os.readlink(os.path.join(folder, name)).removeprefix("socket:[").removesuffix("]") in inodes:
                return True
        except OSError:
            continue
    return False


class Server:
    """A server process. `dialect` is `ours`, `new` or `old`: which replies are expected where versions differ."""

    dialect = "ours"
    capable = frozenset()  # of: disk (an entry can outlive memory), restart (we may stop and start it)
    name = "server"

    def __init__(self):
        self.process = None
        self.address = None
        self.home = tempfile.mkdtemp(prefix="conformance-")
        self.log_path = os.path.join(self.home, "log")
        self.environment = dict(os.environ)
        self.fixed_port = None  # a port to come back to
        self.launcher = []  # what goes before the command line, such as prlimit

    def arguments(self, port):
        raise NotImplementedError

    def __enter__(self):
        return self.start() if self.process is None else self

    def __exit__(self, *_):
        self.kill()
        self.discard()

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def launch(self):
        """Starts the process without waiting for it; `address` is set."""
        if self.is_running():
            raise StartFailed(f"{self.name} is running already")
        port = self.fixed_port or free_port()
        self.address = ("127.0.0.1", port)
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                self.launcher + self.arguments(port),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment,
                cwd=self.home,
                close_fds=True,
            )
        if self not in running:
            running.append(self)
        return self

    def start(self):
        """Starts the process and waits until it answers `version`."""
        for attempt in range(3):
            self.launch()
            try:
                self.wait_ready()
                return self
            except StartFailed as failure:
                self.kill()
                if attempt == 2 or "in use" not in str(failure):
                    raise
        return self

    def wait_ready(self, seconds=START_SECONDS):
        deadline = time.monotonic() + seconds
        while True:
            try:
                with Connection(self.address) as probe:
                    line = probe.command(b"version")
                    self.require_own_port()
                    if line.startswith(b"VERSION ") or line == b"CLIENT_ERROR unauthenticated":
                        return
                    raise StartFailed(f"{self.name} answered version with {line!r}")
            except (OSError, Closed):
                if self.process.poll() is not None:
                    raise StartFailed(f"{self.name} exited with {self.process.returncode}: {self.log_tail()}") from None
                if time.monotonic() > deadline:
                    raise StartFailed(f"{self.name} did not answer in {seconds} s: {self.log_tail()}") from None
                time.sleep(0.001)

    def require_own_port(self):
        """Somebody else may have taken the port between our choice and our server's bind: that one answers then."""
        if isinstance(self.address, str):
            return
        port = self.address[1]
        if not holds(self.process.pid, listening(port)):
            raise StartFailed(f"port {port} is in use by another process: {self.log_tail()}")

    def connect(self, timeout=PATIENCE):
        return Connection(self.address, timeout)

    def log_tail(self, size=600):
        with open(self.log_path, "rb") as log:
            return log.read()[-size:].decode("utf-8", "replace").strip()

    def terminate(self, seconds=PATIENCE):
        """SIGTERM, then waits; returns the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def kill(self):
        """SIGKILL, then waits. Does nothing when the process is gone."""
        if self.is_running():
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def discard(self):
        """Forgets the process and removes its directory."""
        if self in running:
            running.remove(self)
        shutil.rmtree(self.home, ignore_errors=True)


class Daemon(Server):
    """Our daemon. The store is `<home>/store`, kept between starts."""

    dialect = "ours"
    capable = frozenset({"disk", "restart"})
    name = "cache-daemon"
    warms_up = False  # most suites want to know which tier has what

    def __init__(self, path, memory="64MiB", disk="1GiB", options=()):
        super().__init__()
        self.path = path
        self.memory = memory
        self.disk = disk
        self.options = list(options)
        self.store = os.path.join(self.home, "store")

    def arguments(self, port):
        return [
            self.path,
            "--listen",
            f"127.0.0.1:{port}",
            "--dir",
            self.store,
            "--memory",
            self.memory,
            "--disk",
            self.disk,
            *([] if self.warms_up else ["--no-warm-up"]),
            *self.options,
        ]


class Memcached(Server):
    """A memcached: no disk tier and nothing survives a restart."""

    capable = frozenset()
    name = "memcached"

    def __init__(self, path, memory=256, options=()):
        super().__init__()
        self.path = path
        self.memory = memory
        self.options = list(options)
        version = subprocess.run([path, "-V"], capture_output=True, text=True, check=True).stdout.split()[-1]
        self.version = tuple(int(digits) for digits in version.split("-")[0].split(".")[:3])
        # The text parser was rewritten in between; 1.6.18 (Debian 12) and 1.6.45 are the two versions compared here.
        self.dialect = "new" if self.version >= (1, 6, 40) else "old"

    def arguments(self, port):
        user = ["-u", "root"] if os.geteuid() == 0 else []
        return [self.path, "-l", "127.0.0.1", "-p", str(port), "-U", "0", "-m", str(self.memory), *user, *self.options]


class Foreign(Server):
    """A server started by somebody else, given as host:port. It is never stopped."""

    capable = frozenset()
    name = "foreign server"

    def __init__(self, text, dialect):
        super().__init__()
        host, _, port = text.rpartition(":")
        self.address = (host or "127.0.0.1", int(port))
        self.dialect = dialect

    def start(self):
        return self

    def kill(self):
        pass
