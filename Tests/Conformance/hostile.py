"""Hostile clients: slow ones, silent ones, too many of them. All are bounded, and nobody else notices.

The short form lasts about half a minute and shortens the deadlines; --long takes the figures of docs/RELIABILITY.md
with the default deadlines. Latencies are those of a client that asks on while the others do their worst.
"""

import os
import select
import socket
import subprocess
import threading
import time

import hostile_memory
from connection import Closed, Connection, store_request
from report import Skipped, expect, expect_true

MIB = 1 << 20
KIB = 1 << 10


class Probe:
    """An honest client that asks without a pause on a thread of its own; tells how long answers took."""

    def __init__(self, server):
        self.connection = server.connect()
        self.connection.set(b"probe", b"p" * 100)
        self.times = []
        self.failure = None
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.ask, daemon=True)

    def ask(self):
        try:
            while not self.stopping.wait(0.002):
                begin = time.monotonic()
                value = self.connection.get(b"probe")
                self.times.append(time.monotonic() - begin)
                if value is None or value.data != b"p" * 100:
                    raise Closed("the probe's value is gone")
        except (OSError, Closed) as error:
            self.failure = error

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.thread.join()
        self.connection.close()

    def quantile(self, share):
        """A latency in milliseconds; fails if the probe was harmed."""
        if self.failure:
            raise self.failure
        ordered = sorted(self.times)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000


def resident(server):
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * KIB for line in file if line.startswith("VmRSS:"))


def cpu_seconds(server):
    with open(f"/proc/{server.process.pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def counted(server, name):
    with server.connect() as probe:
        return int(probe.stats()[name.encode()])


def wait_until(condition, what, seconds):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        expect_true(time.monotonic() < deadline, f"{what} within {seconds} s")
        time.sleep(0.02)
    return found


def raw_connections(server, count):
    """Plain sockets, connected one after another."""
    return [socket.create_connection(server.address, 10) for _ in range(count)]


def closed_count(sockets):
    """How many of the sockets the server has closed."""
    poll = select.poll()
    for one in sockets:
        poll.register(one, select.POLLIN)
    closed = 0
    for descriptor, _ in poll.poll(0):
        one = next(item for item in sockets if item.fileno() == descriptor)
        try:
            closed += one.recv(4096, socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            pass
        except OSError:
            closed += 1
    return closed


class Hostile:
    """The checks. `long` takes default deadlines and full numbers."""

    def __init__(self, context):
        if context.options.server or context.options.against != "ours":
            raise Skipped("needs our own daemon")
        self.context = context
        self.long = context.options.long
        self.note = context.report.note

    def daemon(self, *options, disk=False):
        return self.context.daemon(options=[*([] if disk else ["--no-disk"]), "-t", "2", *options])

    def slowloris(self):
        """Requests that come byte by byte are cut off in time, whatever they are."""
        count = 1000 if self.long else 300
        options = [] if self.long else ["--request-timeout", "2s"]
        limit = 15 if self.long else 7
        with self.daemon("-c", "2000", *options) as server, Probe(server) as probe:
            begin = time.monotonic()
            slow = raw_connections(server, count)
            starts = (b"get ", b"set k 0 0 1000\r\n", b"mg k ", b"set k 0 0 99999999\r\n", b"gat 0 ")
            for number, one in enumerate(slow):
                one.sendall(starts[number % len(starts)])
            while slow and time.monotonic() < begin + limit + 10:
                slow = [one for one in slow if not drip(one)]
                time.sleep(0.5)
            took = time.monotonic() - begin
            expect(len(slow), 0, "slow connections that are still open")
            expect_true(took <= limit, f"the last of {count} slow connections was closed after {took:.1f} s")
            expect(counted(server, "request_timeouts"), count, "request_timeouts")
            self.note(f"slowloris: {count} closed within {took:.1f} s, p99 beside them {probe.quantile(0.99):.2f} ms")

    def never_reads(self):
        """400 gets of 1 MiB whose replies nobody takes."""
        options = [] if self.long else ["--send-timeout", "3s"]
        with self.daemon("--memory", "256MiB", "--memory-value-max", "2MiB", *options) as server:
            with server.connect() as connection:
                connection.set(b"big", os.urandom(MIB))
            with Probe(server) as probe, server.connect() as silent:
                time.sleep(0.2)
                before, begin, most = resident(server), time.monotonic(), 0
                silent.socket.sendall(b"get big\r\n" * 400)
                while counted(server, "send_timeouts") == 0:
                    most = max(most, resident(server) - before)
                    expect_true(time.monotonic() < begin + 70, "the silent client is cut off")
                    time.sleep(0.1)
                took = time.monotonic() - begin
                beside = probe.quantile(0.99)
                self.note(f"never reads: +{most // KIB} KiB, closed after {took:.1f} s, p99 {beside:.2f} ms")
                expect_true(most <= 2 * MIB, f"400 unread gets of 1 MiB cost {most} bytes")
                expect_true(took <= (63 if self.long else 6), f"closed after {took:.1f} s")

    def unread_disk_values(self):
        hostile_memory.unread_disk_values(self, Probe)

    def unread_overwritten_values(self):
        hostile_memory.unread_overwritten_values(self, Probe)

    def endless_requests(self):
        hostile_memory.endless_requests(self, Probe)

    def unreadable_files(self):
        hostile_memory.unreadable_files(self, Probe)

    def flood(self):
        """Five times as many connections as there may be: each one more is told so; the others are served on."""
        limit = 200
        with self.daemon("-c", str(limit)) as server, Probe(server) as probe:
            refused = served = 0
            held = []
            for _ in range(5 * limit):
                one = socket.create_connection(server.address, 10)
                one.settimeout(10)
                held.append(one)
            for one in held:
                try:
                    one.sendall(b"version\r\n")
                    answer = one.recv(100)
                except ConnectionResetError:
                    answer = b"ERROR Too many open connections\r\n"
                refused += answer.startswith(b"ERROR Too many")
                served += answer.startswith(b"VERSION")
            expect(served, limit - 1, "connections served beside the probe")
            expect(refused, 5 * limit - served, "connections refused with a line")
            for one in held:
                one.close()
            wait_until(lambda: can_ask(server), "a new connection is served", 2)
            self.note(f"flood: {refused} refused, p99 of a served client {probe.quantile(0.99):.2f} ms")

    def few_descriptors(self):
        """With 64 descriptors fewer connections are served, and the daemon says so."""
        server = self.daemon(disk=True)
        server.launcher = ["prlimit", "--nofile=64:64", "--"]
        with server:
            allowed = counted(server, "max_connections")
            expect_true(2 <= allowed < 64, f"max_connections with 64 descriptors is {allowed}")
            expect_true("max_connections lowered" in server.log_tail(4000), "the log says so")
            wait_until(lambda: counted(server, "curr_connections") == 1, "earlier clients are gone", 10)
            held = [server.connect() for _ in range(allowed - 1)]
            for number, connection in enumerate(held):
                expect(connection.set(b"key-%d" % number, b"v" * 100_000), b"STORED", "a set on each")
            for connection in held:
                connection.close()

    def descriptors_run_out(self):
        """When the process has no descriptor left, accepting pauses without a spin and goes on by itself."""
        with self.daemon() as server, Probe(server) as probe:
            pid = server.process.pid
            open_now = len(os.listdir(f"/proc/{pid}/fd"))
            subprocess.run(["prlimit", f"--pid={pid}", f"--nofile={open_now + 5}:4096"], check=True)
            held = raw_connections(server, 50)
            time.sleep(0.5)
            begin = cpu_seconds(server), time.monotonic()
            probed = len(probe.times)
            time.sleep(2 if not self.long else 10)
            spent = cpu_seconds(server) - begin[0]
            share = spent / (time.monotonic() - begin[1])
            answers = len(probe.times) - probed
            subprocess.run(["prlimit", f"--pid={pid}", "--nofile=4096:4096"], check=True)
            resumed = time.monotonic()
            for one in held:
                one.settimeout(10)
                one.sendall(b"mn\r\n")
                expect(one.recv(100), b"MN\r\n", "a connection that had to wait")
            took = time.monotonic() - resumed
            expect_true(counted(server, "listen_disabled_num") > 0, "the pauses are counted")
            # The probe's own requests cost about 30 us each.
            self.note(f"descriptors run out: {share:.1%} of a core for {answers} answers, accepting again {took:.2f} s")
            expect_true(share < 0.25, f"{share:.1%} of a core while nothing can be accepted")
            expect_true(took < 2.5, f"accepted again after {took:.2f} s")
            for one in held:
                one.close()

    def idle_connections(self):
        """What an idle connection costs, and what it does to the others."""
        count = 10_000 if self.long else 2000
        with self.daemon("-c", "12000") as server, Probe(server) as probe:
            time.sleep(0.3)
            alone = probe.quantile(0.99)
            before = resident(server)
            held = raw_connections(server, count)
            for one in held:
                one.sendall(b"mn\r\n")
            for one in held:
                expect(one.recv(10), b"MN\r\n", "an idle connection's only request")
            each = (resident(server) - before) / count
            probe.times.clear()
            time.sleep(2)
            beside = probe.quantile(0.99)
            self.note(f"{count} idle: {each:.0f} B each; p99 {alone:.2f} ms alone, {beside:.2f} ms beside")
            expect_true(each <= 4096, f"an idle connection costs {each:.0f} bytes")
            for one in held:
                one.close()

    def greedy(self):
        """One client with a pipeline without end does not keep the others waiting."""
        with self.daemon("-t", "1") as server:
            with server.connect() as other, Probe(server) as probe:
                stop = time.monotonic() + (2 if not self.long else 10)
                other.send(store_request(b"set", b"k", b"v" * 1000))
                expect(other.line(), b"STORED", "set")
                block = b"get k\r\n" * 5000
                asked = 0
                while time.monotonic() < stop:
                    other.send(block)
                    for _ in range(5000):
                        other.values()
                    asked += 5000
                beside = probe.quantile(0.99)
                self.note(f"greedy: {asked} gets by one, p99 of another on the same worker {beside:.2f} ms")
                expect_true(beside < 1000, "the other client waits")

    def closing(self):
        """Resets, half-closed and vanished clients leave nothing behind."""
        rounds = 2000 if self.long else 300
        with self.daemon() as server:
            with server.connect() as warm:
                warm.command(b"mn")
            descriptors = len(os.listdir(f"/proc/{server.process.pid}/fd"))
            for number in range(rounds):
                one = socket.create_connection(server.address, 10)
                one.sendall((b"get k\r\n" * 50, b"set k 0 0 1000\r\nabc", b"ge", b"set a 0 0 1\r\nx\r\n")[number % 4])
                if number % 3 == 0:
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                one.close()
            wait_until(
                lambda: len(os.listdir(f"/proc/{server.process.pid}/fd")) <= descriptors, "descriptors come back", 10
            )
            wait_until(lambda: counted(server, "curr_connections") == 1, "only the asking client is left", 10)

    def idle_timeout(self):
        """With idle_timeout, silent clients go and busy ones stay."""
        with self.daemon("--idle-timeout", "1s") as server, Probe(server) as probe:
            held = raw_connections(server, 50)
            wait_until(lambda: counted(server, "idle_kicks") >= 50, "silent clients are closed", 10)
            expect(closed_count(held), 50, "closed connections")
            probe.quantile(0.5)

    def control_group(self):
        """In a control group that allows less than memory.limit, the memory tier fits, and gives way to others."""
        with MemoryGroup(96 * MIB) as group:
            server = self.daemon("-m", "256")
            server.launcher = group.launcher
            with server:
                expect_true("memory.limit lowered" in server.log_tail(2000), f"the log says so: {server.log_tail()}")
                with server.connect() as connection:
                    for start in range(0, 30_000, 500):
                        keys = [b"key-%d" % number for number in range(start, start + 500)]
                        connection.send(b"".join(store_request(b"set", key, b"v" * 5000) for key in keys))
                        expect([connection.line() for _ in keys], [b"STORED"] * len(keys), "sets beyond the limit")
                before = counted(server, "memory_limit_bytes")
                expect_true(before <= 58 * MIB, f"memory_limit_bytes is {before}")
                most = resident(server)
                expect_true(most <= 96 * MIB, f"{most} bytes resident in a group of 96 MiB")
                hog = subprocess.Popen([*group.launcher, "python3", "-c", HOG], stdin=subprocess.PIPE)
                try:
                    wait_until(lambda: counted(server, "memory_shortages") > 0, "the shortage is seen", 30)
                    least = wait_until(lambda: held_below(server, before - 8 * MIB), "the memory tier gives way", 30)
                    expect_true(0 < least < before, f"{least} bytes held under pressure")
                finally:
                    hog.kill()
                    hog.wait()
                    hog.stdin.close()
                wait_until(lambda: counted(server, "memory_limit_bytes") == before, "the limit comes back", 30)
                self.note(f"control group of 96 MiB: {most / MIB:.0f} MiB resident, {least / MIB:.0f} MiB held beside")
            killed = self.daemon("-m", "256", "--ignore-cgroup")
            killed.launcher = group.launcher
            with killed:
                expect_true("may be too high" in killed.log_tail(2000), "the warning where the limit stays")
                expect(counted(killed, "memory_limit_bytes"), 256 * MIB, "the limit with --ignore-cgroup")

    def appends_collide(self):
        """Many clients append to one large value at once: each joining that another one outruns is let go of."""
        with self.daemon(disk=True) as server:
            held = [server.connect(60) for _ in range(20)]
            before, most = resident(server), 0
            request = store_request(b"append", b"log", b"y" * 50_000)
            for connection in held:
                expect(connection.set(b"log", b"a"), b"STORED", "set")
                connection.socket.setblocking(False)
            left = {connection: request * 30 for connection in held}
            deadline = time.monotonic() + (4 if not self.long else 20)
            while time.monotonic() < deadline:
                for connection in held:
                    try:
                        sent = connection.socket.send(left[connection]) if left[connection] else 0
                        left[connection] = left[connection][sent:]
                    except BlockingIOError:
                        pass
                most = max(most, resident(server) - before)
                time.sleep(0.05)
            self.note(f"colliding appends: +{most // KIB} KiB for values of at most 30 MiB")
            # What is in memory may be two values of 1.5 MiB for each client, and the tier itself.
            expect_true(most <= 128 * MIB, f"20 clients that append to one key cost {most} bytes")
            for connection in held:
                connection.close()
            expect_true(can_ask(server), "others are served")

    def workers_cannot_start(self):
        """A daemon whose workers get no descriptors says so and ends with a status that is not success."""
        server = self.daemon("-t", "40")
        run = subprocess.run(
            ["prlimit", "--nofile=24:24", "--", *server.arguments(0)], capture_output=True, timeout=30, check=False
        )
        server.discard()
        expect_true(run.returncode == 71, f"exit status {run.returncode}: {run.stderr[-300:]!r}")


def drip(one):
    """Sends one byte; whether the server has closed."""
    try:
        one.send(b"x", socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        return one.recv(100, socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def held_below(server, border):
    """Bytes of the memory tier once they are fewer than `border`."""
    held = counted(server, "memory_bytes")
    return held if held < border else None


def can_ask(server):
    """Whether a new connection is served."""
    try:
        with Connection(server.address, 5) as connection:
            return connection.command(b"mn") == b"MN"
    except (OSError, Closed):
        return False


# A process that takes 34 MiB of memory, most of it by and by, and waits for its input to end.
HOG = """
import sys, time
held = [bytes(range(1, 256)) * 4112 for _ in range(10)]
while len(held) < 34:
    held.append(bytes(range(1, 256)) * 4112)
    time.sleep(0.4)
sys.stdin.read()
"""


class MemoryGroup:
    """A memory control group of our own, version 1 or 2, below the one that this process is in."""

    def __init__(self, limit):
        self.limit = limit
        self.folder = None

    def __enter__(self):
        for line in open("/proc/self/cgroup", encoding="ascii").read().split():
            _, controllers, path = line.split(":", 2)
            if "memory" in controllers.split(","):
                root, self.limit_file, self.taken_name = "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "total_rss"
            elif not controllers:
                root, self.limit_file, self.taken_name = "/sys/fs/cgroup", "memory.max", "anon"
            else:
                continue
            folder = f"{root}{path.rstrip('/')}/conformance-{os.getpid()}"
            try:
                os.mkdir(folder)
                self.folder = folder
                with open(f"{folder}/{self.limit_file}", "w", encoding="ascii") as file:
                    file.write(str(self.limit))
                self.launcher = ["sh", "-c", f'echo $$ > {folder}/cgroup.procs && exec "$@"', "sh"]
                return self
            except OSError:
                self.__exit__()
        raise Skipped("needs the right to make a memory control group")

    def __exit__(self, *_):
        if self.folder:
            os.rmdir(self.folder)
            self.folder = None

    def taken(self):
        """Bytes of the group's processes that are in no file."""
        with open(f"{self.folder}/memory.stat", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith(self.taken_name + " "))


CHECKS = (
    ("slowloris: requests byte by byte are cut off", "slowloris"),
    ("a client that never reads costs at most 2 MiB and is cut off", "never_reads"),
    ("many clients that read no values from disk are bounded together", "unread_disk_values"),
    ("many clients that hold overwritten values are bounded together", "unread_overwritten_values"),
    ("many requests that never end are bounded together", "endless_requests"),
    ("five times max_connections: a line for each one more", "flood"),
    ("64 descriptors: fewer connections, not one", "few_descriptors"),
    ("descriptors run out: no spin, and accepting goes on by itself", "descriptors_run_out"),
    ("descriptors run out: values in files are missed, not lost", "unreadable_files"),
    ("idle connections are cheap", "idle_connections"),
    ("a control group that allows less than memory.limit", "control_group"),
    ("many clients append to one large value", "appends_collide"),
    ("one greedy client does not keep the others waiting", "greedy"),
    ("resets and half-closed connections leave nothing behind", "closing"),
    ("silent clients go after idle_timeout", "idle_timeout"),
    ("workers that cannot start end the daemon with status 71", "workers_cannot_start"),
)


def run(context):
    for name, method in CHECKS:
        with context.report.case(name):
            getattr(Hostile(context), method)()
