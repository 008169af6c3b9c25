"""The daemon as a service: a service manager played by this program, and the unit files judged by systemd's own tools.

The manager's side is a datagram socket that collects what the daemon says, and listening sockets that are handed over
as descriptors from 3 on. systemd need not be running.
"""

import ctypes
import fcntl
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import server
from connection import Connection
from report import Skipped, expect, expect_true

EXPOSURE_MAX = 1.0
UNITS = os.path.join(server.ROOT, "systemd")


def run(context):
    report = context.report
    report.suite = "service"
    if not context.daemon_path:
        report.line("skip service: no daemon")
        return
    with report.case("it says READY when it listens, RELOADING with the time, STOPPING, and its status"):
        check_notifications(context, False)
    with report.case("a socket in the abstract namespace does too"):
        check_notifications(context, True)
    with report.case("it says that it lives, as long as its workers answer"):
        check_watchdog(context)
    with report.case("one worker that hangs silences it; workers that are merely busy do not"):
        check_hung_worker(context)
    with report.case("sockets that are handed over are served, and restarts lose no connection attempt"):
        check_activation(context)
    with report.case("a descriptor that does not listen is refused, one for another process is not taken"):
        check_bad_descriptors(context)
    with report.case(f"the unit's exposure is at most {EXPOSURE_MAX}"):
        check_exposure()
    with report.case("systemd finds nothing wrong with the units"):
        check_units(context)


class Manager:
    """A service manager: it listens, and remembers."""

    def __init__(self, is_abstract):
        self.home = tempfile.mkdtemp(prefix="manager-")
        self.address = f"@cache-daemon-test-{os.getpid()}-{id(self)}" if is_abstract else os.path.join(self.home, "ear")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + self.address[1:] if is_abstract else self.address)
        self.messages = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()
        shutil.rmtree(self.home, ignore_errors=True)

    def wait_for(self, line, seconds=10.0):
        """The first message from now on that has `line`, as a dictionary."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.socket.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                text = self.socket.recv(4096).decode()
            except OSError:
                break
            message = dict(part.split("=", 1) for part in text.splitlines())
            self.messages.append(message)
            if line in text.splitlines():
                return message
        expect_true(False, f"no {line} in {seconds} s; heard {self.messages[-5:]}")
        return {}

    def wait_for_status(self, text):
        """The first message from now on with `text`."""
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            self.socket.settimeout(max(0.01, deadline - time.monotonic()))
            heard = self.socket.recv(4096).decode()
            if text in heard:
                return heard
        return ""

    def count(self, line, seconds):
        """How many messages with `line` come in so much time."""
        deadline = time.monotonic() + seconds
        heard = 0
        while time.monotonic() < deadline:
            self.socket.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                heard += line in self.socket.recv(4096).decode().splitlines()
            except OSError:
                break
        return heard


def check_notifications(context, is_abstract):
    with Manager(is_abstract) as manager, server.Daemon(context.daemon_path) as daemon:
        daemon.kill()
        daemon.environment["NOTIFY_SOCKET"] = manager.address
        daemon.start()
        ready = manager.wait_for("READY=1")
        expect_true(re.match(r"serving \d+ clients; memory .*; disk ok, ", ready["STATUS"]), f"status {ready}")
        with daemon.connect() as client:
            client.set(b"a", b"b")
            expect_true("serving 1 clients" in manager.wait_for_status("serving 1 clients"), "one client")
        before = time.monotonic_ns() // 1000
        daemon.process.send_signal(signal.SIGHUP)
        reloading = manager.wait_for("RELOADING=1")
        expect_true(before <= int(reloading["MONOTONIC_USEC"]) <= time.monotonic_ns() // 1000, f"{reloading}")
        manager.wait_for("READY=1")
        daemon.process.send_signal(signal.SIGTERM)
        manager.wait_for("STOPPING=1")
        expect(daemon.process.wait(20), 0, "the exit status")


def check_watchdog(context):
    with Manager(False) as manager, server.Daemon(context.daemon_path, options=["-t", "2"]) as daemon:
        daemon.kill()
        daemon.environment.update(NOTIFY_SOCKET=manager.address, WATCHDOG_USEC="150000")
        daemon.start()
        manager.wait_for("READY=1")
        expect_true(manager.count("WATCHDOG=1", 1.0) >= 8, "about twenty beats in a second")
        worker = next(
            task for task in os.listdir(f"/proc/{daemon.process.pid}/task")
            if read(f"/proc/{daemon.process.pid}/task/{task}/comm").strip() == "worker-1")
        expect_true(int(worker) > 0, "a worker")
        daemon.kill()
        daemon.environment["WATCHDOG_PID"] = "1"
        daemon.start()
        manager.wait_for("READY=1")
        expect(manager.count("WATCHDOG=1", 0.6), 0, "beats for another process")


class Stopped:
    """One thread of another process, stopped by ptrace(2): to everybody else it hangs."""

    SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17

    def __init__(self, thread):
        self.thread = thread
        self.library = ctypes.CDLL(None, use_errno=True)

    def call(self, request):
        self.library.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        if self.library.ptrace(request, self.thread, None, None) != 0:
            raise Skipped(f"ptrace: {os.strerror(ctypes.get_errno())}")

    def __enter__(self):
        self.call(self.SEIZE)
        self.call(self.INTERRUPT)
        os.waitpid(self.thread, 0x40000000)  # __WALL: a thread that is not the first of its process
        return self

    def __exit__(self, *_):
        self.call(self.DETACH)


def thread_named(pid, name):
    tasks = f"/proc/{pid}/task"
    return next(int(task) for task in os.listdir(tasks) if read(f"{tasks}/{task}/comm").strip() == name)


def check_hung_worker(context):
    with Manager(False) as manager, server.Daemon(context.daemon_path, options=["-t", "2"]) as daemon:
        daemon.kill()
        daemon.environment.update(NOTIFY_SOCKET=manager.address, WATCHDOG_USEC="300000")
        daemon.start()
        manager.wait_for("READY=1")
        with Stopped(thread_named(daemon.process.pid, "worker-1")):
            manager.count("WATCHDOG=1", 0.4)  # what was sent, or answered, before
            expect(manager.count("WATCHDOG=1", 1.0), 0, "beats while a worker hangs")
        expect_true(manager.count("WATCHDOG=1", 1.0) > 0, "beats when it goes on")
        busy = [daemon.connect() for _ in range(4)]
        for client in busy:
            client.socket.setblocking(False)
        heard, end = 0, time.monotonic() + 1.5
        while time.monotonic() < end:
            for client in busy:
                keep_busy(client.socket)
            heard += manager.count("WATCHDOG=1", 0.005)
        expect_true(heard >= 3, f"{heard} beats of a busy daemon")
        for client in busy:
            client.close()


def keep_busy(sock):
    """Sends as many requests as the socket takes, and throws the replies away."""
    for action in (lambda: sock.send(b"get absent\r\n" * 4000), lambda: sock.recv(1 << 20)):
        try:
            action()
        except BlockingIOError:
            pass


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class Activated(server.Daemon):
    """A daemon that is started with listening sockets."""

    def __init__(self, path, sockets, names):
        super().__init__(path)
        self.sockets = sockets
        self.names = names
        self.pid_word = "$$"

    def launch(self):
        """Starts it through a shell, which knows the pid that the daemon will have."""
        fds = [sock.fileno() for sock in self.sockets]
        moves = " ".join(f"{3 + index}<&{fd}" for index, fd in enumerate(fds))
        # The low numbers may be ours: what is handed over is first moved out of the way.
        script = (f"export LISTEN_PID={self.pid_word} LISTEN_FDS={len(fds)} LISTEN_FDNAMES={':'.join(self.names)}; "
                  f"exec \"$@\" {moves}")
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                ["bash", "-c", script, "sh", *self.arguments(0)], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                pass_fds=fds, cwd=self.home, env=self.environment)
        if self not in server.running:
            server.running.append(self)
        return self


def listening(family=socket.AF_INET, address=("127.0.0.1", 0)):
    """A listening socket with a high number, so that it does not stand where it is to be handed over."""
    made = socket.socket(family)
    made.bind(address)
    made.listen(64)
    return moved(made)


def moved(sock):
    """The same socket with a high number."""
    high = fcntl.fcntl(sock.fileno(), fcntl.F_DUPFD_CLOEXEC, 100)
    sock.close()
    return socket.socket(fileno=high)


def check_activation(context):
    home = tempfile.mkdtemp(prefix="activation-")
    sockets = [listening(), listening(socket.AF_UNIX, os.path.join(home, "socket")), listening()]
    try:
        with Activated(context.daemon_path, sockets, ["tcp", "unix", "admin"]).launch() as daemon:
            daemon.address = sockets[0].getsockname()
            daemon.wait_ready()
            with daemon.connect() as client:
                client.set(b"kept", b"x")
            with Connection(os.path.join(home, "socket")) as client:
                expect(client.get(b"kept").data, b"x", "over the Unix socket")
            with socket.create_connection(sockets[2].getsockname(), 5) as probe:
                probe.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
                expect_true(b" 200 " in probe.recv(1000), "the admin port")
            expect(daemon.terminate(), 0, "the exit status")
            waiting = Connection(daemon.address)
            waiting.send(b"get kept\r\n")
            daemon.launch()
            expect(waiting.line(), b"VALUE kept 0 1", "asked while nobody was there")
            waiting.close()
            expect_true(os.path.exists(os.path.join(home, "socket")), "the socket's file is the manager's")
    finally:
        for sock in sockets:
            sock.close()
        shutil.rmtree(home, ignore_errors=True)


def check_bad_descriptors(context):
    high = moved(socket.socket())
    with Activated(context.daemon_path, [high], ["tcp"]).launch() as daemon:
        expect(daemon.process.wait(20), 71, "the exit status")
        expect_true("no listening socket" in daemon.log_tail(), daemon.log_tail())
    foreign = Activated(context.daemon_path, [high], ["tcp"])
    foreign.pid_word = "1"
    with foreign.launch() as daemon:
        expect_true(daemon.terminate() in (0, -signal.SIGTERM), "it serves addresses of its own")
        expect_true("no listening socket" not in daemon.log_tail(), daemon.log_tail())
    high.close()


def check_exposure():
    tool = analyzer()
    done = subprocess.run(
        [tool, "security", "--offline=true", "--no-pager", os.path.join(UNITS, "cache-daemon.service")],
        capture_output=True, text=True, timeout=60, env={**os.environ, "LANG": "C"})
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", done.stdout)
    expect_true(found, f"no verdict: {done.stdout[-300:]}{done.stderr[-300:]}")
    expect_true(float(found.group(1)) <= EXPOSURE_MAX, found.group(0))


def check_units(context):
    """Copies of the units that name the tested daemon are verified."""
    tool = analyzer()
    folder = tempfile.mkdtemp(prefix="units-")
    try:
        for name in ("cache-daemon.service", "cache-daemon.socket"):
            text = read(os.path.join(UNITS, name)).replace("/usr/bin/cache-daemon", context.daemon_path)
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        done = subprocess.run(
            [tool, "verify", "--man=no", os.path.join(folder, "cache-daemon.service"),
             os.path.join(folder, "cache-daemon.socket")], capture_output=True, text=True, timeout=60)
        ours = [line for line in (done.stdout + done.stderr).splitlines() if "cache-daemon" in line]
        expect((done.returncode, ours), (0, []), "systemd-analyze verify")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def analyzer():
    path = shutil.which("systemd-analyze")
    if path is None:
        raise Skipped("systemd-analyze is not installed (Debian package systemd)")
    return path
