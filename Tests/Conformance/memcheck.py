"""A short run of the daemon under valgrind's memcheck: every command, both tiers, TLS, a restart, hostile bytes."""

import os
import shutil
import subprocess
import tempfile
import time

import certificates
import cves
from connection import Connection, store_request
from encrypted import EncryptedConnection
from report import Skipped, expect, expect_true

STARTS = 300.0


def run(context):
    with context.report.case("memcheck finds nothing"):
        if not shutil.which("valgrind"):
            raise Skipped("valgrind is not installed")
        if context.options.server or context.options.against != "ours":
            raise Skipped("needs our own daemon")
        with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
            files = certificates.Certificates(folder)
            server = context.daemon(memory="8MiB", disk="64MiB", options=[
                *["-t", "2", "--unix", os.path.join(folder, "socket")],
                *["--tls-certificate", files.path("server.pem"), "--tls-key", files.path("server.key")]])
            # Debian's valgrind gives up on Swift's debug information.
            stripped = os.path.join(folder, "cache-daemon")
            subprocess.run(["strip", "-g", "-o", stripped, server.path], check=True)
            server.path = stripped
            report = os.path.join(server.home, "memcheck")
            server.launcher = ["valgrind", "--error-exitcode=9", f"--log-file={report}", "--leak-check=no", "-q"]
            server.wait_ready = lambda: wait(server, files)
            with server:
                for _ in range(2):
                    work(server, files, os.path.join(folder, "socket"))
                    stop(server, report)
                    server.start()
                stop(server, report)


def stop(server, report):
    """Ends the daemon, which may not have been reported; the report first, since the status tells no more."""
    status = server.terminate(120)
    with open(report, encoding="utf-8") as file:
        text = file.read()
    expect_true("==" not in text, text[:3000])
    expect(status, 0, "exit status under memcheck")


def wait(server, files):
    """The first answer takes valgrind a while."""
    deadline = time.monotonic() + STARTS
    while True:
        try:
            with EncryptedConnection(server.address, files.context(), 30) as probe:
                return expect(probe.command(b"mn"), b"MN", "the first answer")
        except OSError:
            expect_true(server.is_running() and time.monotonic() < deadline, f"it starts: {server.log_tail()}")
            time.sleep(0.2)


def work(server, files, path):
    for connection in (EncryptedConnection(server.address, files.context(), 60), Connection(path, 60)):
        with connection:
            for number in range(300):
                size = (0, 10, 1000, 30_000, 200_000)[number % 5]
                connection.send(store_request(b"set", b"key-%d" % number, bytes(size)))
                expect(connection.line(), b"STORED", "set")
            found = connection.many([b"key-%d" % number for number in range(300)])
            # So slow a disk may let entries go, never change them.
            expect_true(found and all(not value.data.strip(b"\0") for value in found.values()), "values that come back")
            for line in (b"incr key-1 5", b"touch key-2 100", b"delete key-3", b"mg key-4 v t f s k", b"ma n N0 J5",
                         b"md key-5 I T30", b"stats", b"lru_crawler metadump all", b"flush_all 100", b"version"):
                connection.send(line + b"\r\nmn\r\n")
                while connection.line() != b"MN":
                    pass
    for name in cves.NAMES:
        with Connection(path, 60) as connection:
            connection.send(name.encode() + b" 99999999999999999999 -1 x\r\nmn\r\n" + os.urandom(200) + b"\r\n")
            connection.finish_sending()
            connection.rest()
