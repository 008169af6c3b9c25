"""What happens around the daemon: the file system fills up, runs out of inodes, dies, or loses our directory; the index
is damaged at the start or while running.

All the while the daemon lives, gets are answered, nothing stale is served, and the tier comes back by itself.
"""

import glob
import os
import random
import shutil
import tempfile
import time

from crash import Checker
from crash_load import Keys
from drills import COUNT, expect_no, stop, store, tally
from io_faults import GET_BAR, back, bar
from loads import TolerantWorker, join, load
from mounts import Loop, Memory
from probe import Probe
from report import expect, expect_true
from scripted import adopt, disk_state, require, wait_drained

WORKERS = 3
JOURNAL = ["--disk-journal", "1MiB", "--disk-trim-interval", "100ms"]


def run(torture):
    cases = {
        f"full disk for {torture.pick(2, 60)} s under load": full_disk,
        "no inodes left": no_inodes,
        "the device dies and is replaced": dead_device,
        "the directory is removed": directory_removed,
        "the index is garbage at the start": corrupt_at_start,
        "the index is damaged while running": corrupt_while_running,
    }
    for name, check in cases.items():
        if torture.options.only and torture.options.only not in name:
            continue
        with torture.case(name) as texts:
            texts.append(check(torture))


class Loaded:
    """A daemon on `path` under load, its checker, and the measurements of its clients."""

    def __init__(self, torture, path, keys=None, **settings):
        settings = {"memory": "1MiB", "disk": "1GiB", "options": JOURNAL, **settings}
        self.server = torture.daemon(**settings)
        self.server.store = path
        self.server.environment["TORTURE_ROOT"] = path
        self.checker = Checker(self.server, torture.seed, may_vanish=True)
        adopt(self.checker, keys or Keys(WORKERS, small=20, large=8, counters=2, shared=0))
        self.torture = torture
        self.slowest = 0.0
        self.gets = 0
        self.refusals = 0
        # What a client in a process of its own has seen; None where there is none.
        self.measured = None

    def __enter__(self):
        self.server.start()
        return self

    def __exit__(self, *_):
        self.server.kill()
        self.server.discard()

    def turn(self, seconds, what):
        """Some load, then every key is judged."""
        workers = load(self.checker, self.server, seconds, WORKERS, TolerantWorker, random.choice((0, 0.001)))
        operations = join(self.checker, workers)
        expect_true(self.server.process.poll() is None, f"{what}: the daemon died: {self.server.log_tail(2000)}")
        self.slowest = max([self.slowest] + [worker.slowest_get for worker in workers])
        self.gets += sum(worker.answered_gets for worker in workers)
        self.refusals += sum(worker.refusals for worker in workers)
        self.checker.judge(operations, self.checker.read_back())
        require(self.checker, f"{what}: ")

    def finish(self, what):
        """The tier comes back, a kill shows nothing stale."""
        spent = back(self.torture, self.server, f"{what}: ")
        self.turn(0.2, "afterwards")
        self.server.kill()
        self.server.start()
        self.checker.judge([], self.checker.read_back())
        require(self.checker, f"{what}, after a kill: ")
        limit = bar(self.torture, GET_BAR)
        own = self.measured.own if self.measured else self.slowest
        expect_true(own < limit, f"{what}: a get took {own:.2f} s of {limit:.1f}")
        seen = f"{self.measured}, " if self.measured else ""
        return (
            f"back after {spent:.2f} s, {self.checker.counts['acknowledged']} operations, {self.refusals} refused, "
            f"{seen}slowest get {self.slowest * 1000:.0f} ms, 0 wrong"
        )


def full_disk(torture):
    with Memory(24) as disk, Loaded(torture, disk.path + "/store") as loaded:
        loaded.turn(0.3, "before")
        ballast = disk.fill()
        probe = Probe(loaded.server, loaded.checker.keys)
        seconds = torture.pick(2, 60)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            loaded.turn(0.5, "full disk")
            torture.progress("full disk", round(seconds - (end - time.monotonic())), seconds)
        loaded.measured = probe.finish()
        expect_true(loaded.measured.problem is None, f"full disk: a get failed: {loaded.measured.problem}")
        os.unlink(ballast)
        return loaded.finish("full disk")


def no_inodes(torture):
    with Memory(64, inodes=40) as disk, Loaded(torture, disk.path + "/store") as loaded:
        for _ in range(torture.pick(2, 20)):
            loaded.turn(0.4, "no inodes")
        # A file system that has some again.
        for path in glob.glob(os.path.join(disk.path, "store", "store", "v", "*", "*"))[:10]:
            os.unlink(path)
        return loaded.finish("no inodes")


def dead_device(torture):
    with Loop(64) as disk, Loaded(torture, disk.path + "/store") as loaded:
        loaded.turn(0.3, "before")
        disk.cut()
        for _ in range(torture.pick(2, 10)):
            loaded.turn(0.4, "dead device")
        expect_true(disk_state(loaded.server) != "ok", "a dead device was not noticed")
        # Another device in its place: the old one is let go of when the daemon does.
        os.rename(disk.image, disk.image + ".dead")
        with open(disk.image, "wb") as file:
            file.truncate(64 << 20)
        disk.make()
        disk.mount()
        return loaded.finish("dead device")


def directory_removed(torture):
    home = tempfile.mkdtemp(prefix="torture-gone-")
    path = os.path.join(home, "store")
    with Loaded(torture, path) as loaded:
        for _ in range(torture.pick(2, 20)):
            loaded.turn(0.1, "before")
            shutil.rmtree(path, ignore_errors=True)
            loaded.turn(0.3, "directory removed")
            back(torture, loaded.server, "directory removed: ")
        found = loaded.finish("directory removed")
    shutil.rmtree(home, ignore_errors=True)
    return found


def corrupt_at_start(torture):
    slowest = 0.0
    shapes = ("header", "pages", "nothing left", "text", "log")
    for shape in shapes:
        with torture.daemon() as server:
            store(server, 1)
            if shape == "log":
                wait_drained(server)
                server.kill()
            else:
                stop(server)
            spoil(os.path.join(server.store, "store", "index.db"), shape)
            begin = time.monotonic()
            server.start()
            found = tally(server, [1])
            slowest = max(slowest, time.monotonic() - begin)
            expect(found[1], 0, f"entries of a damaged store ({shape})")
            store(server, 2)
            expect(tally(server, [2])[2], COUNT, f"entries afterwards ({shape})")
            expect(disk_state(server), "ok", "state of the disk tier")
            expect_true(glob.glob(os.path.join(server.store, "quarantine-*")), f"no quarantine was made ({shape})")
            lines = [line for line in server.log_tail(4000).splitlines() if "quarantined" in line]
            expect(len(lines), 1, f"log lines about it ({shape})")
    expect_true(slowest < bar(torture, 1), f"ready after {slowest:.2f} s")
    return f"{len(shapes)} kinds of damage, ready after at most {slowest:.2f} s"


def spoil(path, shape):
    if shape == "log":
        path += "-wal"
    size = os.path.getsize(path)
    with open(path, "r+b") as file:
        if shape == "header":
            file.write(b"no database at all")
        elif shape in ("pages", "log"):
            file.seek(32 if shape == "log" else 8192)
            file.write(bytes(range(256)) * ((size - 8192) // 256))
        elif shape == "nothing left":
            file.truncate(0)
        else:
            file.write(b"SQLite format 3\0" + b"garbage" * 100)


def corrupt_while_running(torture):
    longest = 0.0
    unnoticed = 0
    turns = torture.pick(2, 20)
    for _ in range(turns):
        with torture.daemon(memory="1MiB", options=JOURNAL) as server:
            store(server, 1, count=COUNT)
            # Out of memory with them, so that reads meet the damage.
            store(server, 1, 60_000, 40, "churn")
            wait_drained(server)
            spoil(os.path.join(server.store, "store", "index.db"), "text")
            spoil(os.path.join(server.store, "store", "index.db"), "pages")
            spoil(os.path.join(server.store, "store", "index.db"), "log")
            begin = time.monotonic()
            while server_quarantines(server) == 0 and time.monotonic() - begin < bar(torture, 1):
                # Every value is right, or there is none.
                tally(server, [1, 2])
                store(server, 2)
            if server_quarantines(server) == 0:
                # SQLite has every page that is asked for in its own memory.
                unnoticed += 1
                continue
            longest = max(longest, back(torture, server, "damaged index: "), time.monotonic() - begin)
            expect_no(tally(server, [1, 2]), 1, "after the new store was made")
    return f"{turns} times, a new store at most {longest:.2f} s after the damage; {unnoticed} times no page was read"


def server_quarantines(server):
    with server.connect() as connection:
        return int(connection.stats()[b"disk_quarantines"])
