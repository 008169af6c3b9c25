"""Clients that make the daemon hold memory for them: replies that nobody reads, requests that never end.

Each is bounded, and all of them together by `client_memory`; see docs/SECURITY.md, N2. Used by hostile.py.
"""

import os
import socket
import subprocess
import time

from connection import store_request
from report import expect, expect_true

MIB = 1 << 20
KIB = 1 << 10
# What a daemon may take beside its limits: buffers of its own, and what malloc keeps.
SLACK = 48 * MIB


def silent_client(server, request):
    """A client that sends a request, takes little into its socket, and reads nothing."""
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * KIB)
    one.settimeout(10)
    one.connect(server.address)
    one.sendall(request)
    return one


def resident(server):
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * KIB for line in file if line.startswith("VmRSS:"))


def crowd(server, count, request, most):
    """`count` silent clients, one after another; returns them, and the most memory that the daemon took meanwhile."""
    held = []
    for number in range(count):
        held.append(silent_client(server, request(number)))
        if number % 10 == 9:
            time.sleep(0.1)
            most = max(most, resident(server))
    time.sleep(1)
    return held, max(most, resident(server))


def statistics(server):
    with server.connect() as asker:
        return {name.decode(): value for name, value in asker.stats().items()}


def unread_disk_values(hostile, probe_type):
    """Pipelines of 64 values from disk, to many clients that read none of them."""
    count = 300 if hostile.long else 40
    with hostile.daemon("-m", "64", "-c", "2000", disk=True) as server:
        with server.connect() as writer:
            for number in range(200):
                expect(writer.set(b"large-%d" % number, os.urandom(1_000_000)), b"STORED", "set")
        with probe_type(server) as probe:
            time.sleep(0.2)
            before = resident(server)

            def request(number):
                return b"".join(b"get large-%d\r\n" % ((number * 64 + key) % 200) for key in range(64))

            held, most = crowd(server, count, request, before)
            counts = statistics(server)
            hostile.note(
                f"{count} clients, 64 unread values of 1 MB from disk each: +{(most - before) // MIB} MiB, "
                f"client_bytes {int(counts['client_bytes']) // MIB} MiB, p99 beside {probe.quantile(0.99):.2f} ms"
            )
            expect_true(most - before <= 64 * MIB + SLACK, f"unread values from disk cost {most - before} bytes")
            for one in held:
                one.close()


def unread_overwritten_values(hostile, probe_type):
    """Values that are overwritten while clients that read nothing hold them: the longest wait ends first."""
    count = 300 if hostile.long else 60
    options = ["-m", "256", "--client-memory", "16MiB", "-c", "2000"]
    with hostile.daemon(*options) as server, probe_type(server) as probe:
        with server.connect() as writer:
            # The tier is filled, so that what comes now is beyond it.
            for number in range(280):
                expect(writer.set(b"filler-%d" % number, os.urandom(1_000_000)), b"STORED", "set")
            before = most = resident(server)
            held = []
            for number in range(count):
                expect(writer.set(b"big", os.urandom(1_000_000)), b"STORED", "set")
                held.append(silent_client(server, b"get big\r\n" * 20))
                time.sleep(0.02)
                most = max(most, resident(server))
        counts = statistics(server)
        hostile.note(
            f"{count} clients that hold overwritten values: +{(most - before) // MIB} MiB, "
            f"{int(counts['client_memory_kicks'])} closed, p99 beside {probe.quantile(0.99):.2f} ms"
        )
        expect_true(int(counts["client_memory_kicks"]) > 0, "who waits longest is closed")
        expect_true(int(counts["client_bytes"]) <= 18 * MIB, f"client_bytes is {counts['client_bytes']}")
        expect_true(most - before <= 16 * MIB + SLACK, f"overwritten values cost {most - before} bytes")
        for one in held:
            one.close()


def endless_requests(hostile, probe_type):
    """Lists of keys of a megabyte that never end."""
    count = 1000 if hostile.long else 120
    with hostile.daemon("-c", "2000") as server, probe_type(server) as probe:
        time.sleep(0.2)
        before = resident(server)
        held, most = crowd(server, count, lambda number: b"get " + b"k " * 500_000, before)
        hostile.note(
            f"{count} lines of 1 MB without an end: +{(most - before) // MIB} MiB, "
            f"p99 beside {probe.quantile(0.99):.2f} ms"
        )
        expect_true(most - before <= 64 * MIB + SLACK, f"lines without an end cost {most - before} bytes")
        for one in held:
            one.close()


def unreadable_files(hostile, _):
    """While there are no descriptors, values in files are missed; afterwards they are there again."""
    with hostile.daemon(disk=True) as server, server.connect() as client:
        values = {b"file-%d" % number: os.urandom(2_000_000) for number in range(8)}
        for key, value in values.items():
            expect(client.set(key, value), b"STORED", "set")
        for key, value in values.items():
            expect(client.get(key).data, value, "a value from its file")
        pid = server.process.pid
        taken = len(os.listdir(f"/proc/{pid}/fd"))
        subprocess.run(["prlimit", f"--pid={pid}", f"--nofile={taken}:4096"], check=True)
        expect([client.get(key) for key in values], [None] * len(values), "gets without descriptors")
        expect([client.command(b"mg %s v" % key) for key in values], [b"EN"] * len(values), "the same by mg")
        subprocess.run(["prlimit", f"--pid={pid}", "--nofile=4096:4096"], check=True)
        for key, value in values.items():
            expect_true(client.get(key) is not None, "the entry is there again")
            expect(client.get(key).data, value, "its value")
