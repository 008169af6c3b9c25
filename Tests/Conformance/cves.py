"""What broke memcached, Redis and libraries like ours once, tried on us: one check for each cause of docs/SECURITY.md.

Each check sends what the report was about and its neighbours, then asks whether the server is alive, has kept its
framing and its values, and is still the same process.
"""

import os
import struct
import subprocess

from connection import PATIENCE, Closed, Connection, store_request
from report import Skipped, expect, expect_true
from server import free_port

EDGES = [0, 1, 250, 251, 1 << 15, 1 << 16]
EDGES += [(1 << bits) + step for bits in (31, 32, 63, 64) for step in (-3, -2, -1, 0, 1)] + [10**19, 10**40]
NAMES = (
    *"get gets gat gats set add replace append prepend cas delete incr decr touch flush_all version".split(),
    *"verbosity stats cache_memlimit watch lru_crawler slabs help mn mg ms md ma me lru refresh_certs".split(),
)


class Victim:
    """A server that is watched while it is attacked."""

    def __init__(self, context, *options):
        if context.options.server or context.options.against != "ours":
            raise Skipped("needs our own daemon")
        self.server = context.daemon(options=["--no-disk", "-I", "1m", "-t", "2", *options])

    def __enter__(self):
        self.server.start()
        self.set_witness()
        return self

    def set_witness(self):
        with self.server.connect() as connection:
            expect(connection.set(b"witness", b"untouched"), b"STORED", "set")

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                self.is_well()
        finally:
            self.server.kill()
            self.server.discard()

    def is_well(self):
        expect_true(self.server.is_running(), f"the server runs: {self.server.log_tail()}")
        with self.server.connect() as connection:
            expect(connection.get(b"witness").data, b"untouched", "an entry that nobody touched")

    def send(self, data):
        """Sends bytes on a connection of their own, half-closes, returns everything that comes back."""
        with self.server.connect() as connection:
            try:
                connection.send(data)
                connection.finish_sending()
                return connection.rest()
            except (OSError, Closed):
                return bytes(connection.buffer)


def binary(opcode, key_bytes, extra_bytes, body_bytes, body=b""):
    return struct.pack(">BBHBBHIIQ", 0x80, opcode, key_bytes, extra_bytes, 0, 0, body_bytes, 0, 0) + body


def signed_lengths(context):
    with Victim(context) as victim:
        for verb in ("set", "add", "append", "cas"):
            for size in ("-1", "-2147483648", "-0", "+1", "0x10", "1e3"):
                answer = victim.send(f"{verb} k 0 0 {size} 1\r\nx\r\n".encode())
                stored = b"STORED" in answer.replace(b"NOT_STORED", b"")
                expect_true(not stored, f"{verb} of {size!r}: {answer[:80]!r}")
        for size in ("-1", "-2147483648", "4294967295"):
            expect_true(b"HD" not in victim.send(f"ms k {size}\r\nx\r\n".encode()), f"ms of {size}")
        for opcode in (0x00, 0x01, 0x0E, 0x19, 0x21):
            for body in (0xFFFFFFFF, 0x80000000, 0x7FFFFFFF, 0):
                answer = victim.send(binary(opcode, 0xFFFF, 0xFF, body, b"x" * 100))
                expect(answer, b"", "answer to the binary protocol")


def length_arithmetic(context):
    with Victim(context) as victim:
        for size in EDGES:
            for verb in ("set", "append", "prepend", "ms"):
                line = f"ms k {size}" if verb == "ms" else f"{verb} k 0 0 {size}"
                victim.send(line.encode() + b"\r\n" + b"x" * min(size, 3000) + b"\r\nversion\r\n")
        with victim.server.connect() as connection:
            connection.set(b"grows", b"x" * ((1 << 20) - 10))
            expect_true(connection.store(b"append", b"grows", b"y" * 11) != b"STORED", "append beyond the limit")
            expect(len(connection.get(b"grows").data), (1 << 20) - 10, "bytes after it")


def numbers(context):
    with Victim(context) as victim:
        for number in [*EDGES, -1, -(1 << 63), -(1 << 64)]:
            for line in (
                f"set n {number} 0 1\r\nx", f"set n 0 {number} 1\r\nx", f"cas n 0 0 1 {number}\r\nx",
                f"incr n {number}", f"decr n {number}", f"touch n {number}", f"gat {number} n",
                f"flush_all {number + 10**9}", f"verbosity {number}", f"cache_memlimit {number}",
                f"lru_crawler sleep {number}",
                f"mg n T{number} R{number} N{number} E{number} C{number}", f"ma n D{number} J{number}",
                f"ms n 1 F{number} T{number} E{number}\r\nx", f"stats cachedump {number} {number}", f"md n C{number}",
                f"lru_crawler tocrawl {number}",
            ):
                victim.send(line.encode() + b"\r\n")
        # Some of these were flushes that a client may ask for.
        victim.set_witness()
        victim.send(b"cache_memlimit 64\r\nset n 0 0 20\r\n18446744073709551615\r\nincr n 18446744073709551615\r\n")


def missing_words(context):
    with Victim(context) as victim:
        for name in NAMES:
            for count in range(0, 30):
                for word in ("a", "1", "noreply"):
                    if name not in ("watch", "flush_all"):
                        victim.send((name + f" {word}" * count + "\r\n").encode())
        for line in (b"lru\r\n", b"lru mode\r\n", b"lru temp_ttl\r\n", b"me\r\n", b"mg\r\n", b"ms\r\n", b"ms k\r\n"):
            expect_true(b"ERROR" in victim.send(line), f"answer to {line!r}")


def spaces_and_line_ends(context):
    with Victim(context) as victim:
        for spaces in (1, 2, 100, 1999, 2047, 2048, 2049, 5000, 70_000):
            victim.send(b"get" + b" " * spaces + b"witness\r\n")
            victim.send(b"set" + b" " * spaces + b"k 0 0 1\r\nx\r\n")
        for end in (b"\n", b"\r\n", b"\r\r\n", b"\n\r", b"\r"):
            for size in range(2030, 2060):
                victim.send(b"delete " + b"k" * size + end)
            victim.send(b"set e 0 0 1" + end + b"x" + end + b"get witness" + end)
        expect(victim.send(b"get witness\nget witness\r\n").count(b"untouched"), 2, "LF and CR LF both end a line")


def references(context):
    """One large entry, asked for a hundred thousand times by clients that do not read, replaced meanwhile."""
    with Victim(context, "-c", "300") as victim:
        with victim.server.connect() as connection:
            value = os.urandom(50_000)
            connection.set(b"big", value)
            silent = [victim.server.connect() for _ in range(100)]
            for one in silent:
                one.socket.setblocking(False)
                try:
                    one.socket.send(b"get " + b"big " * 1000 + b"\r\n")
                except BlockingIOError:
                    pass
            for number in range(50):
                expect(connection.set(b"big", value[number:]), b"STORED", "a set over it")
                connection.command(b"delete big")
            silent[0].socket.settimeout(PATIENCE)
            silent[0].buffer.clear()
            expect_true(silent[0].values()[0].data == value, "who reads at last gets the value of then")
            for one in silent:
                one.close()


def long_paths(context):
    victim = Victim(context)
    path = os.path.join(victim.server.home, "s")
    path += "x" * (107 - len(path))
    victim.server.options += ["--unix", path]
    with victim:
        with Connection(path) as connection:
            expect_true(b"unix" in b"".join(connection.stats(b"conns").values()), "stats conns over a Unix socket")
        with victim.server.connect() as connection:
            expect_true(connection.stats(b"conns"), "stats conns")


def no_datagrams(context):
    with Victim(context) as victim:
        inodes = set()
        folder = f"/proc/{victim.server.process.pid}/fd"
        for name in os.listdir(folder):
            link = os.readlink(os.path.join(folder, name))
            if link.startswith("socket:["):
                inodes.add(link[8:-1])
        for table in ("udp", "udp6"):
            with open(f"/proc/{victim.server.process.pid}/net/{table}", encoding="ascii") as file:
                ours = [line for line in file if line.split()[9] in inodes]
            expect(ours, [], f"{table} sockets")
        run = subprocess.run([victim.server.path, "-U", "11211"], capture_output=True, timeout=PATIENCE, check=False)
        expect(run.returncode, 78, "exit status of -U 11211")


def claims(context):
    """What is claimed is not allocated; what is not read is not piled up."""
    with Victim(context, "-c", "600") as victim:
        held = []
        for number in range(500):
            one = victim.server.connect()
            one.send(b"set claim-%d 0 0 1048570\r\nx" % number)
            held.append(one)
        with open(f"/proc/{victim.server.process.pid}/status", encoding="ascii") as file:
            resident = next(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))
        expect_true(resident < 120 << 10, f"500 claims of 1 MiB: {resident} KiB resident")
        for one in held:
            one.close()


def configured_limits(context):
    victim = Victim(context)
    for option, value in (("-I", "2g"), ("-I", "9" * 20), ("-m", "99999999999"), ("-c", "99999999"), ("-t", "5000")):
        options = [option, value]
        run = subprocess.run([victim.server.path, *options], capture_output=True, timeout=PATIENCE, check=False)
        expect(run.returncode, 78, f"exit status of {options}")
    victim.server.discard()


def smuggled_http(context):
    with Victim(context) as victim:
        for verb in ("GET", "POST", "PUT", "DELETE", "OPTIONS", "CONNECT"):
            request = f"{verb} / HTTP/1.1\r\nHost: x\r\n\r\nset witness 0 0 5\r\nother\r\n"
            expect(victim.send(request.encode()), b"", f"answer to {verb}")


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def aimed_hashes(context):
    """Keys that share a bucket of memcached's unkeyed hashes cost no more than others."""
    def murmur_tail(number):
        return b"%08x" % number * 8

    with Victim(context, "-m", "256") as victim, victim.server.connect() as connection:
        def took(names):
            """Seconds of the server's CPU: those of the clock depend on who else is there."""
            begin = cpu_seconds(victim.server.process.pid)
            connection.send(b"".join(store_request(b"set", name, b"v") for name in names))
            for _ in names:
                expect(connection.line(), b"STORED", "set")
            return cpu_seconds(victim.server.process.pid) - begin

        plain = took([b"key-%d" % number for number in range(20_000)])
        aimed = took([murmur_tail(number << 20) for number in range(20_000)])
        expect_true(aimed < 20 * plain + 1, f"aimed keys take {aimed:.2f} s, others {plain:.2f} s")


def http_bytes():
    """Requests that no browser sends."""
    yield b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 200_000 + b"\r\n\r\n"
    yield b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: y\r\n" % number for number in range(20_000)) + b"\r\n"
    yield b"GET " + b"/" * 200_000 + b" HTTP/1.1\r\n\r\n"
    yield b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\nx"
    yield b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\nx"
    yield b"PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nx"
    for host in (b"[", b"[:::::", b"[::1", b"::1]", b"%00", b"a" * 60_000, b"1.2.3.4.5.6:99999999999"):
        yield b"GET /healthz HTTP/1.1\r\nHost: " + host + b"\r\n\r\n"
    for path in (b"/../../../etc/passwd", b"//etc/passwd", b"/%2e%2e/%2e%2e/etc/passwd", b"/\0", b"*", b"http://[::1"):
        yield b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n\r\n"
    yield b"GET /stats.json?since=" + b"9" * 60 + b" HTTP/1.1\r\nHost: x\r\n\r\n"
    yield b"GET /stats.json?since=-9223372036854775808 HTTP/1.1\r\nHost: x\r\n\r\n"
    yield bytes(range(256)) * 100
    yield b"GET / HTTP/9.9\r\n\r\nGET / HTTP/0.0\r\n\r\nGET /\r\n\r\n"
    yield b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 200


def libevent_input(context):
    """libevent parses HTTP on the admin port and nothing else that strangers write; addresses are parsed by us."""
    port = free_port()
    with Victim(context, "--admin", f"127.0.0.1:{port}") as victim:
        for request in http_bytes():
            with Connection(("127.0.0.1", port)) as connection:
                try:
                    connection.send(request)
                    connection.finish_sending()
                    answer = connection.rest()
                except (OSError, Closed):
                    answer = bytes(connection.buffer)
                expect_true(b"root:" not in answer, f"a file in the answer to {request[:60]!r}")
                expect_true(b" 200 " not in answer[:20] or b"GET" in request, f"an answer to {request[:60]!r}")
        with Connection(("127.0.0.1", port)) as connection:
            connection.send(b"GET /healthz HTTP/1.0\r\n\r\n")
            expect_true(connection.rest().endswith(b"ok\n"), "the admin port answers afterwards")
        for address in ("[", "[]", "[:", "[::1", "::1]:5", "[::1]x", "1.2.3.4:99999", "1.2.3.4:-1", ":", "a" * 5000):
            command = [victim.server.path, "--no-disk", "--check-config", "-l", address]
            run = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False)
            expect_true(run.returncode in (71, 78), f"exit status {run.returncode} with -l {address[:20]!r}")


CHECKS = (
    ("CVE-2011-4971, 2020-10931: signed lengths, binary headers", signed_lengths),
    ("CVE-2016-8704, 8705, 8706, 2017-9951: lengths near every power of two", length_arithmetic),
    ("CVE-2026-28980 (swift-nio), Swift's trap on overflow: every number of the protocol at every edge", numbers),
    ("CVE-2019-11596, 2020-22570: every command with every count of words", missing_words),
    ("CVE-2023-46852, 46853: runs of spaces, every line end at every buffer's end", spaces_and_line_ends),
    ("CVE-2018-1000127: a hundred thousand references to one entry", references),
    ("CVE-2019-15026: socket paths of full length in stats conns", long_paths),
    ("CVE-2018-1000115, 2022-48571: no datagrams", no_datagrams),
    ("CVE-2021-32675 (Redis): claimed sizes allocate nothing", claims),
    ("CVE-2021-41099 (Redis): limits have limits", configured_limits),
    ("CVE-2014-6272, 2016-10195 to 10197 (libevent): HTTP on the admin port, addresses", libevent_input),
    ("cross-protocol: HTTP requests do nothing", smuggled_http),
    ("hash flooding: keys aimed at an unkeyed hash", aimed_hashes),
)


def run(context):
    for name, check in CHECKS:
        with context.report.case(name):
            check(context)
