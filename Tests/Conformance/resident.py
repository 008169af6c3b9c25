"""Resident memory stays within its promise while values of all sizes come, go, and come back from disk.

The promise of docs/OPERATIONS.md: `memory.limit` * 1.1 + 32 MiB, and what is in flight for clients (`client_bytes`,
`body_bytes`), which has limits of its own. Held to it here is a stricter bound on memory that is no file's, which is
what malloc, SQLite and our buffers can let grow: `memory.limit` * 1.1 + 20 MiB. The rest of the 32 MiB is for pages of
the program, its libraries and the journal. Values change their sizes in phases, so that what one phase frees is of
little use to the next; several threads allocate, and others free.
"""

import os
import random
import threading
import time

from connection import Closed, Connection, store_request
from report import expect, expect_true

MIB = 1 << 20
KEYS = 2000
# Lengths of each phase: within slabs, in malloc's pieces, between them, and all together.
PHASES = (
    (30_000,),
    (400_000,),
    (17_000,),
    (120_000,),
    (2_000,),
    (100_000, 20_000),
    (700_000, 17_000),
    (60_000,),
    (20, 200, 2_000, 30_000, 120_000, 400_000),
)
BODY = bytes(range(256)) * (1 * MIB // 256)
OWN_SLACK = 20 * MIB
ALL_SLACK = 32 * MIB


class Mixer(threading.Thread):
    """One client: stores and looks up keys of everybody, by the lengths of the phase."""

    def __init__(self, load, number):
        super().__init__(daemon=True)
        self.load = load
        self.random = random.Random(load.seed * 100 + number)
        self.operations = 0
        self.trouble = []

    def run(self):
        try:
            with Connection(self.load.server.address) as connection:
                while not self.load.over.is_set():
                    self.step(connection)
        except (OSError, Closed) as failure:
            self.trouble.append(repr(failure))

    def step(self, connection):
        rng = self.random
        key = b"r%d" % rng.randrange(KEYS)
        if rng.random() < 0.6:
            length = int(rng.choice(self.load.lengths) * rng.uniform(0.8, 1.2))
            stored = connection.set(key, BODY[:length])
            if not stored.startswith((b"STORED", b"SERVER_ERROR")):
                self.trouble.append(f"set: {stored!r}")
        else:
            connection.many([b"r%d" % rng.randrange(KEYS) for _ in range(8)])
        self.operations += 1


class Meter(threading.Thread):
    """Reads what the daemon holds, all the time; keeps the most."""

    def __init__(self, load):
        super().__init__(daemon=True)
        self.load = load
        self.own = self.all = self.count = 0
        self.at = ""

    def run(self):
        with Connection(self.load.server.address) as connection:
            while not self.load.over.is_set():
                self.sample(connection)
                time.sleep(0.02)

    def sample(self, connection):
        found = resident(self.load.server)
        stats = connection.stats()
        flight = int(stats[b"client_bytes"]) + int(stats[b"body_bytes"])
        own, everything = found["RssAnon"] - flight, sum(found.values()) - flight
        if own > self.own:
            self.own = own
            self.at = (
                f"memory_bytes {int(stats[b'memory_bytes']) / MIB:.1f} MiB, in flight {flight / MIB:.1f} MiB, "
                f"lengths {self.load.lengths}"
            )
        self.all = max(self.all, everything)
        self.count += 1


def resident(server):
    """Bytes in RAM by kind: RssAnon, RssFile, RssShmem; see proc(5)."""
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as file:
        fields = (line.split() for line in file if line.startswith("Rss"))
        return {name.rstrip(":"): int(count) * 1024 for name, count, _ in fields}


def extra_program(context):
    """Bytes of pages that a debug build, several times as large, may have beside those of a release build."""
    return 16 * MIB if f"{os.sep}debug{os.sep}" in os.path.realpath(context.daemon_path) else 0


class Load:
    """Mixers and a meter around one daemon."""

    def __init__(self, server, seed, clients):
        self.server = server
        self.seed = seed
        self.over = threading.Event()
        self.lengths = PHASES[0]
        self.mixers = [Mixer(self, number) for number in range(clients)]
        self.meter = Meter(self)

    def run(self, seconds):
        for thread in (*self.mixers, self.meter):
            thread.start()
        for lengths in PHASES:
            self.lengths = lengths
            time.sleep(seconds / len(PHASES))
        self.over.set()
        for thread in (*self.mixers, self.meter):
            thread.join(60)
        expect([text for mixer in self.mixers for text in mixer.trouble][:3], [], "failed operations")


def bounded(context, memory_mib, seconds, clients, options):
    with context.daemon(memory=f"{memory_mib}MiB", disk="256MiB", options=options) as server:
        load = Load(server, context.seed, clients)
        load.run(seconds)
        meter = load.meter
        operations = sum(mixer.operations for mixer in load.mixers)
        context.report.note(
            f"{operations} operations, {meter.count} samples: of its own at most {meter.own / MIB:.1f} MiB "
            f"({meter.at}), in all {meter.all / MIB:.1f} MiB"
        )
        expect_true(meter.count > 10 and operations > 100, "load and meter were at work")
        limit = memory_mib * MIB * 11 // 10
        expect_true(meter.own <= limit + OWN_SLACK, f"{meter.own / MIB:.1f} MiB beside files")
        expect_true(meter.all <= limit + ALL_SLACK + extra_program(context), f"{meter.all / MIB:.1f} MiB in all")


def run(context):
    seconds = 120 if context.options.long else 18
    with context.report.case(f"resident memory keeps its promise for {seconds} s of values that change their sizes"):
        bounded(context, 32, seconds, 6, ["-t", "4", "--disk-readers", "4"])
