"""TLS: handshakes, versions, certificates of both sides, reload, deadlines, and the clients and tools that speak it.

Certificates are made with openssl(1) for each run. The daemon under test has two listeners: an encrypted one, and a
plain one (`notls:`) that the harness waits on and asks for statistics.
"""

import os
import signal
import socket
import ssl
import subprocess
import tempfile
import time

import certificates
from connection import Closed, Connection, store_request
from report import Skipped, expect, expect_true
from server import Daemon, free_port, sanitizer

MIB = 1 << 20


class EncryptedDaemon(Daemon):
    """Our daemon with a plain listener at `address` and an encrypted one at `encrypted`."""

    def __init__(self, path, files, options=()):
        super().__init__(path, options=["--no-disk", *options])
        self.files = files
        self.encrypted = None

    def arguments(self, port):
        self.encrypted = ("127.0.0.1", free_port())
        listen = ["--listen", f"notls:127.0.0.1:{port}", "--listen", f"127.0.0.1:{self.encrypted[1]}"]
        identity = ["--tls-certificate", self.files.path("server.pem"), "--tls-key", self.files.path("server.key")]
        return [self.path, *listen, *identity, "-t", "2", *self.options]

    def connect_encrypted(self, context=None, timeout=10.0):
        """A connection that speaks the protocol through TLS."""
        return EncryptedConnection(self.encrypted, context or self.files.context(), timeout)

    def counted(self, name):
        with self.connect() as probe:
            return int(probe.stats()[name.encode()])

    def wait_counted(self, name, least, seconds=10.0):
        """Waits until a statistic has reached a number."""
        deadline = time.monotonic() + seconds
        while self.counted(name) < least:
            expect_true(time.monotonic() < deadline, f"{name} stays at {self.counted(name)}, not {least}")
            time.sleep(0.02)


class EncryptedConnection(Connection):
    """A connection whose socket is wrapped; waiting for both directions at once is left out."""

    def __init__(self, address, context, timeout=10.0):
        super().__init__(address, timeout)
        try:
            self.socket = context.wrap_socket(self.socket, server_hostname="localhost")
        except BaseException:
            self.socket.close()
            raise

    def send(self, data):
        self.socket.sendall(data)

    def fill(self):
        """Reads once; a connection that ends without a good-bye is an end too."""
        try:
            data = self.socket.recv(1 << 18)
        except (ConnectionResetError, ssl.SSLEOFError):
            return False
        self.buffer += data
        return bool(data)


class Encryption:
    """The checks, with what they share."""

    def __init__(self, context, files):
        if context.options.server or context.options.against != "ours" or not context.daemon_path:
            raise Skipped("needs our own daemon")
        self.path = context.daemon_path
        self.files = files

    def daemon(self, *options):
        return EncryptedDaemon(self.path, self.files, options)

    def refused(self, daemon, context):
        """Whether a handshake, or the first request after it, fails."""
        try:
            with daemon.connect_encrypted(context) as connection:
                # With TLS 1.3 the client is done before the server has seen its certificate.
                connection.command(b"version")
        except (ssl.SSLError, Closed, OSError):
            return True
        return False

    def versions(self):
        with self.daemon() as daemon:
            for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
                with daemon.connect_encrypted(self.files.context(only=version)) as connection:
                    expect(connection.set(b"a", b"value"), b"STORED", f"set over {version.name}")
                    expect(connection.get(b"a").data, b"value", f"get over {version.name}")
            before = daemon.counted("ssl_handshake_errors")
            expect_true(self.refused(daemon, self.files.context(only=ssl.TLSVersion.TLSv1_1)), "TLS 1.1 is refused")
            daemon.wait_counted("ssl_handshake_errors", before + 1)
            expect_true(daemon.counted("ssl_new_sessions") >= 2, "handshakes are counted")
            expect_true(daemon.counted("ssl_cert_seconds_left") > 86400, "the time left to the certificate is told")
        with self.daemon("--tls-min-version", "1.3") as daemon:
            old = self.files.context(only=ssl.TLSVersion.TLSv1_2)
            expect_true(self.refused(daemon, old), "1.2 under a minimum of 1.3")
            expect_true(not self.refused(daemon, self.files.context()), "1.3 is served")

    def large_values(self):
        """Values over many records both ways, and a pipeline of small ones in one record."""
        value = os.urandom(5 * MIB)
        roomy = self.daemon("--memory", "256MiB", "--memory-value-max", "8MiB")
        with roomy as daemon, daemon.connect_encrypted() as connection:
            expect(connection.set(b"large", value), b"STORED", "a set of 5 MiB")
            for _ in range(3):
                expect_true(connection.get(b"large").data == value, "5 MiB come back whole")
            keys = [b"key-%d" % number for number in range(1000)]
            connection.send(b"".join(store_request(b"set", key, key * 20) for key in keys))
            expect([connection.line() for _ in keys], [b"STORED"] * len(keys), "a pipeline of sets")
            found = connection.many(keys)
            expect_true(all(found[key].data == key * 20 for key in keys), "a get of 1000 keys")
            connection.send(b"get large\r\n" * 20)
            for _ in range(20):
                expect_true(connection.values()[0].data == value, "100 MiB of replies in a row")

    def pieces(self):
        """Requests cut into records of one byte, and records cut into packets of one byte."""
        with self.daemon() as daemon:
            with daemon.connect_encrypted() as connection:
                for byte in store_request(b"set", b"a", b"12345") + b"get a\r\n":
                    connection.send(bytes([byte]))
                expect(connection.line(), b"STORED", "set by bytes")
                expect(connection.values()[0].data, b"12345", "get by bytes")
            session = BufferedSession(daemon.encrypted, self.files.context())
            expect(session.ask_slowly(b"get a\r\n"), b"VALUE a 0 5\r\n12345\r\nEND\r\n", "a record in single bytes")

    def plain_text(self):
        """Plain text at the encrypted port is closed and counted; others go on."""
        with self.daemon() as daemon, daemon.connect_encrypted() as other:
            for junk in (b"version\r\n", b"GET / HTTP/1.1\r\n\r\n", b"\x80" * 24, b"\x16\x03\x01\xff\xff" + b"\0" * 70):
                before = daemon.counted("ssl_handshake_errors")
                with Connection(daemon.encrypted) as connection:
                    connection.send(junk)
                    connection.socket.shutdown(socket.SHUT_WR)
                    rest = connection.rest()
                    expect_true(b"VERSION" not in rest and b"ERROR" not in rest, f"an answer to {junk[:10]!r}")
                daemon.wait_counted("ssl_handshake_errors", before + 1)
                expect(other.set(b"a", b"b"), b"STORED", "a client beside it")

    def deadlines(self):
        """A handshake that stops, and a request that stops, are cut off; the one who did neither stays."""
        with self.daemon("--tls-handshake-timeout", "1s", "--request-timeout", "1s") as daemon:
            with daemon.connect_encrypted() as patient:
                silent = [Connection(daemon.encrypted) for _ in range(20)]
                for connection in silent[::2]:
                    connection.send(b"\x16\x03\x01\x02")
                half = daemon.connect_encrypted()
                half.send(b"set a 0 0 100\r\nhalf of it")
                daemon.wait_counted("ssl_handshake_timeouts", len(silent))
                daemon.wait_counted("request_timeouts", 1)
                for connection in (*silent, half):
                    expect(connection.rest(), b"", "what a client hears that was cut off")
                    connection.close()
                expect(patient.command(b"mn"), b"MN", "the patient client")

    def handshake_flood(self):
        """More handshakes than may begin in a second wait in line; nobody is turned away, and requests go on."""
        rate, count = 20, 50
        with self.daemon("-t", "1", "--tls-handshake-rate", str(rate)) as daemon, daemon.connect_encrypted() as other:
            begin = time.monotonic()
            crowd = [BufferedSession.hello(daemon.encrypted, self.files.context()) for _ in range(count)]
            asked = 0
            while daemon.counted("ssl_new_sessions") < 1 + count:
                expect(other.command(b"mn"), b"MN", "a client that is in already")
                asked += 1
                done = sum(one.go_on() for one in crowd)
                allowed = 2 + rate * (time.monotonic() - begin) + 1
                expect_true(done <= allowed, f"{done} handshakes are over, {allowed:.0f} may be")
                expect_true(time.monotonic() < begin + 20, f"{done} of {count} are in")
            expect_true(asked > 10, "requests were served meanwhile")
            delayed = daemon.counted("ssl_handshakes_delayed")
            expect_true(count - 10 <= delayed <= count, f"ssl_handshakes_delayed is {delayed}")
            expect(daemon.counted("ssl_handshake_timeouts"), 0, "handshakes cut off")
            for one in crowd:
                one.plain.close()

    def client_certificates(self):
        authority = ("--tls-client-ca", self.files.path("authority.pem"))
        with self.daemon(*authority) as daemon:
            expect_true(self.refused(daemon, self.files.context()), "no certificate")
            expect_true(self.refused(daemon, self.files.context(client="stranger")), "a stranger's certificate")
            for _ in range(3):
                expect_true(not self.refused(daemon, self.files.context(client="client")), "the right certificate")
        with self.daemon(*authority, "--tls-client-certificates", "optional") as daemon:
            expect_true(not self.refused(daemon, self.files.context()), "no certificate where it is optional")
            stranger = self.files.context(client="stranger")
            expect_true(self.refused(daemon, stranger), "a stranger's where it is optional")

    def reload(self):
        """SIGHUP takes a new certificate over, for new connections; a broken file changes nothing."""
        with self.daemon() as daemon, daemon.connect_encrypted() as old:
            first = old.socket.getpeercert(True)
            self.files.make_server()
            daemon.process.send_signal(signal.SIGHUP)
            second = wait_until(lambda: peer(daemon) != first and peer(daemon), "the new certificate is shown")
            expect(old.set(b"a", b"b"), b"STORED", "the connection from before")
            self.files.spoil_server()
            daemon.process.send_signal(signal.SIGHUP)
            wait_until(lambda: "reload failed" in daemon.log_tail(4000), "the refusal is logged")
            expect(peer(daemon), second, "the certificate after a failed reload")
            self.files.make_server()

    def refusals(self):
        """What must not start: exit 78, the file named, before anything is opened."""
        shared = self.files.copy("server.key", "shared.key", 0o644)
        chain = self.files.path("server.pem")
        for options, word in (
            (["--tls-certificate", self.files.path("nothing.pem")], "nothing.pem"),
            (["--tls-certificate", chain, "--tls-key", shared], "others may read it"),
            (["--tls-certificate", chain, "--tls-key", self.files.path("client.key")], "mismatch"),
            (["--tls-key", chain], "needs tls.certificate"),
            (["-Z"], "needs a certificate"),
            (["-l", "0.0.0.0"], "allow_insecure"),
            (["-l", "[::]:0"], "allow_insecure"),
            (["-l", "notls:192.0.2.1", "--tls-certificate", chain], "allow_insecure"),
            (["-o", "ssl_ciphers=ALL"], "no counterpart"),
        ):
            command = [self.path, "--no-disk", "-p", str(free_port()), *options]
            run = subprocess.run(command, capture_output=True, timeout=20)
            expect(run.returncode, 78, f"exit status with {options}")
            expect_true(word.encode() in run.stderr, f"{word!r} in the reason for {options}: {run.stderr!r}")

    def memcached_flags(self):
        names = f"ssl_chain_cert={self.files.path('server.pem')},ssl_key={self.files.path('server.key')}"
        names += ",ssl_verify_mode=0,ssl_min_version=2,ssl_session_cache"
        daemon = EncryptedDaemon(self.path, self.files, ["-Z", "-o", names])
        with daemon:
            expect_true(not self.refused(daemon, self.files.context()), "a daemon started with memcached's flags")

    def open_to_others(self):
        """Addresses of other machines: with TLS, or when asked for."""
        daemon = EncryptedDaemon(self.path, self.files, ["--listen", f"0.0.0.0:{free_port()}"])
        with daemon:
            expect_true(not self.refused(daemon, self.files.context()), "with TLS")
        with Daemon(self.path, options=["--no-disk", "-l", f"0.0.0.0:{free_port()}", "--allow-insecure"]) as plain:
            with plain.connect() as connection:
                expect(connection.command(b"mn"), b"MN", "with allow_insecure")

    def never_reads(self):
        """Replies through TLS are bounded like plain ones."""
        with self.daemon("--send-timeout", "2s") as daemon, daemon.connect_encrypted() as connection:
            connection.set(b"big", os.urandom(MIB - 1024))
            before = resident(daemon)
            connection.send(b"get big\r\n" * 400)
            daemon.wait_counted("send_timeouts", 1, 20)
            grown = resident(daemon) - before
            if sanitizer(self.path) == "AddressSanitizer":
                raise Skipped(f"closed in time; AddressSanitizer keeps freed memory: {grown >> 20} MiB resident")
            expect_true(grown < 4 * MIB, f"400 unread gets of 1 MiB through TLS cost {grown} bytes")

    def client_library(self):
        from pymemcache.client.base import Client
        from pymemcache.client.base import PooledClient

        with self.daemon() as daemon:
            address = ("localhost", daemon.encrypted[1])
            for kind in (Client, PooledClient):
                client = kind(address, tls_context=self.files.context())
                expect(client.set("key", b"v" * 100_000), True, f"{kind.__name__}: set")
                expect(client.get("key"), b"v" * 100_000, f"{kind.__name__}: get")
                expect(client.get_many(["key", "other"]), {"key": b"v" * 100_000}, f"{kind.__name__}: get_many")
                client.set("n", b"5")
                expect(client.incr("n", 3), 8, f"{kind.__name__}: incr")
                expect(client.delete("key"), True, f"{kind.__name__}: delete")
                client.close()

    def tools(self):
        """cache-stats and cache-bench through TLS; both refuse a server that nobody vouches for."""
        folder = os.path.dirname(self.path)
        with self.daemon() as daemon:
            address = f"localhost:{daemon.encrypted[1]}"
            trust = ["--tls", "--ca", self.files.path("authority.pem")]
            runs = {"cache-stats": [address, "all"], "cache-bench": [address, "-s", "0.5", "-c", "5", "-P", "8", "-q"]}
            for tool, arguments in runs.items():
                program = os.path.join(folder, tool)
                if not os.access(program, os.X_OK):
                    raise Skipped(f"{tool} is not built")
                run = subprocess.run([program, *trust, *arguments], capture_output=True, timeout=60)
                expect(run.returncode, 0, f"{tool} over TLS: {run.stderr!r}")
                run = subprocess.run([program, "--tls", *arguments], capture_output=True, timeout=60)
                expect(run.returncode, 69, f"{tool} and a stranger's certificate: {run.stderr!r}")
                wrong = [address.replace("localhost", "127.0.0.2"), *arguments[1:]]
                run = subprocess.run([program, *trust, *wrong], capture_output=True, timeout=60)
                expect(run.returncode, 69, f"{tool} and another host's certificate: {run.stderr!r}")


class BufferedSession:
    """TLS in memory, so that a record can be sent byte by byte."""

    def __init__(self, address, context, shakes_hands=True):
        self.plain = socket.create_connection(address, 10)
        self.plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.session = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")
        if shakes_hands:
            self.until_done(self.session.do_handshake)

    @classmethod
    def hello(cls, address, context):
        """A session that has said hello and waits for nothing."""
        session = cls(address, context, shakes_hands=False)
        session.plain.setblocking(False)
        session.go_on()
        return session

    def go_on(self):
        """Does what can be done now for the handshake; whether it is over."""
        try:
            self.incoming.write(self.plain.recv(1 << 16))
        except BlockingIOError:
            pass
        try:
            self.session.do_handshake()
        except ssl.SSLWantReadError:
            return False
        finally:
            self.flush(1 << 16)
        return True

    def until_done(self, step, size=1 << 16):
        """Repeats a step until it needs nothing from the other side, sending `size` bytes at a time."""
        while True:
            try:
                return step()
            except ssl.SSLWantReadError:
                self.flush(size)
                self.incoming.write(self.plain.recv(1 << 16))
            finally:
                self.flush(size)

    def flush(self, size):
        data = self.outgoing.read()
        for start in range(0, len(data), size):
            self.plain.sendall(data[start : start + size])

    def ask_slowly(self, request):
        self.until_done(lambda: self.session.write(request), 1)
        reply = self.until_done(lambda: self.session.read(1 << 16))
        self.plain.close()
        return reply


def peer(daemon):
    """The certificate that a new connection is shown."""
    with daemon.connect_encrypted() as connection:
        return connection.socket.getpeercert(True)


def resident(daemon):
    with open(f"/proc/{daemon.process.pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmRSS:"))


def wait_until(condition, what, seconds=10.0):
    """Waits until the condition holds; returns what it gave."""
    deadline = time.monotonic() + seconds
    while True:
        if found := condition():
            return found
        expect_true(time.monotonic() < deadline, what)
        time.sleep(0.02)


CHECKS = (
    ("TLS 1.2 and 1.3 are spoken, older versions are not", "versions"),
    ("large values and long pipelines pass through unharmed", "large_values"),
    ("requests and records come in pieces", "pieces"),
    ("plain text and junk at the encrypted port are closed and counted", "plain_text"),
    ("handshakes and requests that stop are cut off", "deadlines"),
    ("a flood of handshakes waits in line", "handshake_flood"),
    ("clients' certificates: required, optional, a stranger's", "client_certificates"),
    ("a reload takes a new certificate and refuses a broken one", "reload"),
    ("wrong files and exposed addresses are refused at the start", "refusals"),
    ("memcached's flags for TLS work", "memcached_flags"),
    ("other machines' addresses with TLS, or when asked for", "open_to_others"),
    ("a client that never reads takes no memory through TLS either", "never_reads"),
    ("pymemcache over TLS", "client_library"),
    ("cache-stats and cache-bench over TLS", "tools"),
)


def run(context):
    with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
        checks = None
        for name, method in CHECKS:
            with context.report.case(name):
                checks = checks or Encryption(context, certificates.Certificates(folder))
                getattr(checks, method)()
