"""The directory stays within `disk.limit` while values of every size come and go, and gives space back.

Allocated bytes are counted as du(1) does, all the time. What the limit may be exceeded by is one batch: 8 MiB of
changes and what they take in the write-ahead log. Short form: 12 s of churn; `--long`: 20 minutes.
"""

import os
import random
import signal
import threading
import time

from clients import wait_until
from connection import Closed
from report import expect_true

MIB = 1 << 20
LIMIT = 32 * MIB
BATCH = 2 * 8 * MIB


def run(context):
    seconds = 1200 if context.options.long else 12
    with context.report.case(f"allocated bytes stay within disk.limit and a batch for {seconds} s of churn"):
        with context.daemon(memory="8MiB", disk="32MiB", options=["--disk-trim-interval", "1s"]) as server:
            churn(context, server, seconds)
    with context.report.case("space comes back after flush_all, and when the limit is lowered by a reload"):
        gives_back(context)
    with context.report.case("idle entries and those beyond min_free go"):
        idle_and_free(context)


def allocated(directory):
    """Allocated bytes of everything below a directory; files may vanish meanwhile."""
    total = 0
    for folder, _, files in os.walk(directory):
        for name in [*files, "."]:
            try:
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512
            except FileNotFoundError:
                continue
    return total


class Sampler(threading.Thread):
    """Watches the allocated bytes of a directory from a thread of its own."""

    def __init__(self, directory):
        super().__init__(daemon=True)
        self.directory, self.most, self.count = directory, 0, 0
        self.over = threading.Event()

    def run(self):
        while not self.over.is_set():
            self.most = max(self.most, allocated(self.directory))
            self.count += 1
            time.sleep(0.01)

    def stop(self):
        self.over.set()
        self.join()


def length_of(rng):
    """A length of any magnitude from nothing to 256 KiB, small ones more often."""
    return int(2 ** rng.uniform(0, 18)) if rng.random() < 0.5 else rng.randrange(2000)


def write(connection, rng, count, keys):
    """Stores and deletes in pipelines; returns the bytes of values sent."""
    sent = 0
    parts, replies = [], 0
    for _ in range(count):
        key = b"key%d" % rng.randrange(keys)
        if rng.random() < 0.1:
            parts.append(b"delete %s\r\n" % key)
        else:
            length = length_of(rng)
            sent += length
            parts.append(b"set %s 0 0 %d\r\n%s\r\n" % (key, length, b"c" * length))
        replies += 1
    connection.send(b"".join(parts))
    for _ in range(replies):
        line = connection.line()
        if line not in (b"STORED", b"DELETED", b"NOT_FOUND"):
            raise Closed(f"unexpected {line!r}")
    return sent


def churn(context, server, seconds):
    rng = random.Random(context.seed)
    sampler = Sampler(server.store)
    sampler.start()
    sent = 0
    with server.connect(timeout=60) as connection:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            sent += write(connection, rng, 40, 20_000)
        stats = connection.stats()
    sampler.stop()
    over = sampler.most - LIMIT
    context.report.note(
        f"{sent / MIB:.0f} MiB written, {sampler.count} looks, most {sampler.most / MIB:.1f} MiB of {LIMIT // MIB}"
    )
    expect_true(sent > LIMIT * 5 // 4, f"only {sent} bytes were written: the limit was not put to the test")
    expect_true(over <= BATCH, f"{over} bytes over the limit")
    expect_true(int(stats[b"disk_evictions"]) > 0, "nothing was evicted")
    expect_true(int(stats[b"disk_write_errors"]) == 0, "write errors")


def gives_back(context):
    server = context.daemon(memory="8MiB")
    config = os.path.join(server.home, "conf")
    set_limit(config, 256)
    server.options = ["--config", config]
    server.arguments = without_disk_flag(server.arguments)
    rng = random.Random(context.seed)
    with server, server.connect(timeout=60) as connection:
        while allocated(server.store) < 56 * MIB:
            write(connection, rng, 40, 20_000)
        wait_until(lambda: connection.stats()[b"journal_used_bytes"] == b"0", 30, "the journal is drained")
        full = allocated(server.store)
        # Not below the journal, whose size stays until a restart.
        set_limit(config, 32)
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: allocated(server.store) <= LIMIT, 60, "space comes back after a reload")
        lowered = allocated(server.store)
        connection.command(b"flush_all")
        wait_until(lambda: connection.stats()[b"disk_entries"] == b"0", 60, "rows go after flush_all")
        wait_until(lambda: allocated(server.store) <= lowered * 9 // 10, 60, "space comes back after flush_all")
        context.report.note(
            f"{full / MIB:.0f} MiB, {lowered / MIB:.0f} after the limit was lowered, "
            f"{allocated(server.store) / MIB:.0f} after flush_all, of which the journal takes 4"
        )


def set_limit(config, mebibytes):
    with open(config, "w", encoding="ascii") as file:
        file.write(f"[disk]\nlimit = {mebibytes}MiB\njournal = 4MiB\ntrim_interval = 1s\n")


def without_disk_flag(arguments):
    """The flags beat the file: takes --disk out of the command line."""

    def changed(port):
        line = arguments(port)
        place = line.index("--disk")
        return line[:place] + line[place + 2 :]

    return changed


def idle_and_free(context):
    with context.daemon(memory="8MiB", options=["--disk-idle-max", "2s", "--disk-trim-interval", "200ms"]) as server:
        with server.connect() as connection:
            for number in range(200):
                connection.set(b"idle%d" % number, b"v" * 2000)
            wait_until(lambda: connection.stats()[b"disk_entries"] == b"200", 10, "entries reach the disk")
            wait_until(lambda: connection.stats()[b"disk_entries"] == b"0", 20, "idle entries go")
    free = os.statvfs("/tmp").f_bavail * os.statvfs("/tmp").f_frsize
    wanted = min(free + 64 * MIB, (1 << 50) - 1)
    with context.daemon(memory="8MiB", options=["--disk-min-free", f"{wanted}B",
                                                "--disk-trim-interval", "200ms"]) as server:
        with server.connect() as connection:
            for number in range(500):
                connection.set(b"free%d" % number, b"v" * 10_000)
            # There is never so much free: whatever comes has to go again.
            wait_until(lambda: int(connection.stats()[b"disk_evictions"]) >= 400, 20, "entries go for min_free")
