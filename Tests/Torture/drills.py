"""Single drills, each for one promise that random load seldom puts to the test: what a start may believe.

A drill prepares a store, harms it or its surroundings in one precise way, and reads back. Each is also what catches one
of the seeded bugs (see mutants.py). Values name their key and version, so a wrong one cannot look right.
"""

import ctypes
import errno
import glob
import os
import shutil
import sqlite3
import time

from crash_values import piece_of_length
from faults import FAIL
from report import Mismatch, expect, expect_true
from scripted import disk_state, wait_drained

SMALL, LARGE = 300, 40_000
COUNT = 40
LONG_TTL = 1000
JOURNAL = ["--disk-journal", "1MiB"]
RING_START = 4096


def run(torture):
    for name, drill in DRILLS.items():
        if torture.options.only and torture.options.only not in name:
            continue
        with torture.case(name) as texts:
            texts.append(drill(torture) or "kept")


def value(key, version, length):
    return piece_of_length(key, version, length)


def store(server, version, length=SMALL, count=COUNT, prefix="key"):
    """Gives each key this version; returns how many were stored."""
    stored = 0
    with server.connect() as connection:
        for number in range(count):
            key = b"%s-%d" % (prefix.encode(), number)
            stored += connection.set(key, value(key, version, length)) == b"STORED"
    return stored


def tally(server, versions, length=SMALL, count=COUNT, prefix="key"):
    """How many keys hold which of `versions`; anything else is a mismatch."""
    found = {version: 0 for version in versions}
    found[None] = 0
    with server.connect(timeout=20) as connection:
        for number in range(count):
            key = b"%s-%d" % (prefix.encode(), number)
            seen = connection.get(key)
            match = [version for version in versions if seen and seen.data == value(key, version, length)]
            if seen and not match:
                raise Mismatch(f"{key!r} holds bytes that nobody stored: {seen.data[:60]!r}")
            found[match[0] if match else None] += 1
    return found


def expect_no(found, version, what):
    expect(found[version], 0, f"{what}: keys with version {version} ({found})")


def stop(server):
    wait_drained(server)
    expect(server.terminate(), 0, "exit status after SIGTERM")


def changed_rows(torture):
    """Values changed in the index behind the daemon's back: SQLite finds nothing wrong with them."""
    with torture.daemon() as server:
        store(server, 1)
        stop(server)
        index = sqlite3.connect(os.path.join(server.store, "store", "index.db"))
        index.execute("UPDATE entry SET value = CAST(replace(CAST(value AS TEXT), '<', '(') AS BLOB) WHERE id % 2")
        index.execute("UPDATE entry SET flags = flags + 1 WHERE id % 2 = 0")
        index.commit()
        index.close()
        server.start()
        expect(tally(server, [1])[None], COUNT, "changed rows that are misses")
        with server.connect() as connection:
            errors = int(connection.stats()[b"disk_read_errors"])
        expect_true(errors >= COUNT, f"{errors} read errors counted for {COUNT} rows")


def changed_files(torture):
    """One byte of each value file changed."""
    with torture.daemon() as server:
        store(server, 1, LARGE)
        stop(server)
        for path in glob.glob(os.path.join(server.store, "store", "v", "*", "*")):
            with open(path, "r+b") as file:
                file.seek(os.path.getsize(path) - 7)
                byte = file.read(1)
                file.seek(-1, 1)
                file.write(bytes([byte[0] ^ 4]))
        server.start()
        expect(tally(server, [1], LARGE)[None], COUNT, "changed files that are misses")


def changed_journal(torture):
    """A bit of an acknowledged record in the journal: neither the changed value nor the one before it is served."""
    with torture.daemon(options=JOURNAL) as server:
        store(server, 1)
        wait_drained(server)
        server.faults.arm(FAIL, ["write"], forever=True, code=errno.ENOSPC)
        store(server, 2)
        server.kill()
        server.faults.disarm()
        journal = os.path.join(server.store, "journal")
        with open(journal, "rb") as file:
            content = bytearray(file.read())
        for number in (3, COUNT - 1):
            key = b"key-%d" % number
            place = content.find(value(key, 2, SMALL), RING_START)
            expect_true(place > 0, f"{key!r} is not in the journal")
            content[place + 100] ^= 1
        with open(journal, "r+b") as file:
            file.write(content)
        server.start()
        expect_no(tally(server, [1, 2]), 1, "older than what was acknowledged")


def changed_last_record(torture):
    """As before, but in the newest record of all, where a torn write would look the same."""
    with torture.daemon(options=JOURNAL) as server:
        store(server, 1)
        wait_drained(server)
        server.faults.arm(FAIL, ["write"], forever=True, code=errno.ENOSPC)
        store(server, 2, count=1)
        server.kill()
        server.faults.disarm()
        journal = os.path.join(server.store, "journal")
        with open(journal, "r+b") as file:
            content = file.read()
            place = content.find(value(b"key-0", 2, SMALL), RING_START)
            expect_true(place > 0, "the record is not in the journal")
            file.seek(place + 50)
            file.write(bytes([content[place + 50] ^ 16]))
        server.start()
        expect_no(tally(server, [1, 2], count=1), 1, "older than what was acknowledged")


def old_index(torture):
    """The index of an earlier clean stop put in place of the present one."""
    with torture.daemon() as server:
        store(server, 1)
        stop(server)
        index = os.path.join(server.store, "store", "index.db")
        shutil.copy(index, server.home)
        server.start()
        store(server, 2)
        stop(server)
        shutil.copy(os.path.join(server.home, "index.db"), index)
        server.start()
        expect_no(tally(server, [1, 2]), 1, "a rolled back index")
        expect_true(glob.glob(os.path.join(server.store, "quarantine-*")), "no quarantine was made")


def overflow(server, version):
    """Fills the journal on a full disk until writes go on without it, then stores `version`."""
    server.faults.arm(FAIL, ["write", "allocate"], forever=True, code=errno.ENOSPC)
    with server.connect(timeout=20) as connection:
        for number in range(1000):
            begin = time.monotonic()
            connection.set(b"filler-%d" % number, b"x" * 15_000)
            # The journal is closed to writes once somebody has waited for room in vain.
            if time.monotonic() - begin > 1.8:
                break
        else:
            raise Mismatch(f"the journal never filled; {disk_state(server)}: {server.log_tail()}")
        expect(disk_state(server), "full", "state of the disk tier")
    store(server, version)


def barred_then_killed(torture):
    """Killed while writes go on without the journal: the next start believes nothing of the store."""
    with torture.daemon(memory="2MiB", options=JOURNAL) as server:
        store(server, 1)
        wait_drained(server)
        overflow(server, 2)
        server.kill()
        server.faults.disarm()
        server.start()
        expect_no(tally(server, [1, 2]), 1, "stale after a kill")


def barred_then_recovered(torture):
    """Room comes back: rows of keys that were written without the journal are gone before they are believed."""
    with torture.daemon(memory="2MiB", options=JOURNAL) as server:
        store(server, 1)
        wait_drained(server)
        overflow(server, 2)
        server.faults.disarm()
        begin = time.monotonic()
        while disk_state(server) != "ok" or not wait_drained(server, 0.1):
            expect_true(time.monotonic() - begin < 20, f"the disk tier is {disk_state(server)} after 20 s")
            time.sleep(0.01)
        back = time.monotonic() - begin
        # Out of memory with them: what is read next comes from the disk.
        for turn in range(2):
            store(server, 9, 60_000, 60, f"churn{turn}")
        expect_no(tally(server, [1, 2]), 1, "stale after recovery")
        wait_drained(server)
        server.kill()
        server.start()
        expect_no(tally(server, [1, 2]), 1, "stale after recovery and a kill")
        return f"back after {back:.2f} s"


def touched_without_file(torture):
    """Values whose files cannot be made stay in memory; touching them must not bring their older files back."""
    with torture.daemon(memory="4MiB", options=JOURNAL) as server:
        store(server, 1, LARGE)
        wait_drained(server)
        server.faults.arm(FAIL, ["open"], forever=True, code=errno.ENOSPC)
        with server.connect() as connection:
            for number in range(COUNT):
                key = b"key-%d" % number
                expect(connection.set(key, value(key, 2, LARGE)), b"STORED", "a set without a file")
                expect(connection.command(b"touch %s 1000" % key), b"TOUCHED", "touch")
        wait_drained(server)
        server.faults.disarm()
        expect(tally(server, [1, 2], LARGE)[2], COUNT, "entries in memory")
        store(server, 9, 60_000, 120, "churn")
        expect_no(tally(server, [1, 2], LARGE), 1, "older than a touched entry")
        server.kill()
        server.start()
        expect_no(tally(server, [1, 2], LARGE), 1, "older than a touched entry, after a kill")


def rebooted(torture):
    """An unclean reboot: at `process` the disk tier starts empty, with `keep` it does not; a clean stop keeps it."""
    for options, is_clean, wanted in (
        ([], False, 0),
        (["--disk-after-power-loss", "keep"], False, COUNT),
        ([], True, COUNT),
        (["--durability", "none"], False, 0),
    ):
        with torture.daemon(options=options) as server:
            store(server, 1)
            wait_drained(server)
            if is_clean:
                stop(server)
            else:
                server.kill()
            server.faults.reboot()
            server.start()
            expect(tally(server, [1])[1], wanted, f"entries after a reboot with {options or 'process'}")


def rebooted_always(torture):
    """An unclean reboot at `always`: the journal is not believed, and nothing acknowledged may need it."""
    with torture.daemon(options=["--durability", "always"]) as server:
        for version in range(1, 6):
            store(server, version)
            server.kill()
            server.faults.reboot()
            server.start()
            expect(tally(server, [version - 1, version])[version], COUNT, "entries of the acknowledged version")


def clock_set_back(torture):
    """The clock is set back between two runs: no entry gets more time than it was given, however often it is read."""
    year = 86400 * 365
    for jump, end in ((-3600, stop), (-3600, lambda server: server.kill()), (-3600, reboot), (-10 * year, stop)):
        with torture.daemon(memory="2MiB") as server:
            begin = time.monotonic()
            with server.connect() as connection:
                for name, length in ((b"small", SMALL), (b"large", LARGE)):
                    expect(connection.set(name, value(name, 1, length), 0, LONG_TTL), b"STORED", "set")
            stored = time.monotonic()
            wait_drained(server)
            end(server)
            server.faults.shift_clock(jump)
            server.start()
            check_time_left(server, begin, stored, jump)
            leave_memory(server)
            check_time_left(server, begin, stored, jump)


def check_time_left(server, begin, stored, jump):
    """Both entries, stored between two times of our own clock, have what is left of theirs; a second for rounding."""
    with server.connect() as connection:
        for name in (b"small", b"large"):
            most = LONG_TTL - (time.monotonic() - stored) + 1
            left = ttl_of(connection, name)
            expect_true(left is not None and left <= most, f"{name!r} lives {left} s, not {most}, after {jump} s")
            least = LONG_TTL - (time.monotonic() - begin) - 1
            expect_true(left >= least, f"{name!r} lives only {left} s, not {least}, after {jump} s")


def leave_memory(server):
    """Fills memory with other things, so that the next read is one from disk; more time passes than is rounded."""
    time.sleep(2.1)
    with server.connect() as connection:
        for number in range(60):
            connection.set(b"churn-%d" % number, b"x" * 60_000)


def reboot(server):
    """An orderly stop, and then another boot."""
    stop(server)
    server.faults.reboot()


def ttl_of(connection, key):
    """Seconds that an entry has left, None for a miss."""
    words = connection.command(b"mg %s t" % key).split()
    return int(words[1][1:]) if words[0] == b"HD" else None


def second_daemon(torture):
    """A second daemon on the directory: exit 75 naming the first one's pid; the first is not disturbed."""
    with torture.daemon() as server:
        store(server, 1)
        other = torture.daemon()
        try:
            other.store = server.store
            other.launch()
            other.is_ended = True
            expect(other.process.wait(10), 75, "exit status of the second daemon")
            pid = str(server.process.pid)
            expect_true(pid in other.log_tail(), f"pid {pid} is not named: {other.log_tail()}")
        finally:
            other.kill()
            other.discard()
        expect(tally(server, [1])[1], COUNT, "entries of the first daemon")


def newer_format(torture):
    """A store of a newer major version: said so, exit 78, and not a byte of it changed."""
    with torture.daemon() as server:
        store(server, 1)
        stop(server)
        path = os.path.join(server.store, "FORMAT")
        with open(path, "rb") as file:
            text = file.read().replace(b"format 1.0", b"format 2.0").rpartition(b"sum ")[0]
        with open(path, "wb") as file:
            file.write(b"%ssum %016x\n" % (text, xxh3(text)))
        before = picture(server.store)
        server.launch()
        server.is_ended = True
        expect(server.process.wait(10), 78, "exit status on a newer format")
        expect_true("2.0" in server.log_tail(), f"the version is not named: {server.log_tail()}")
        expect_true(picture(server.store) == before, "something in the directory was changed")


def xxh3(data):
    """XXH3-64 with seed 0, from the library that the daemon uses."""
    function = ctypes.CDLL("libxxhash.so.0").XXH3_64bits
    function.restype = ctypes.c_uint64
    function.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    return function(data, len(data))


def picture(folder):
    """Names, sizes and contents of everything below `folder`."""
    found = {}
    for path, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(path, name), "rb") as file:
                found[os.path.join(path, name)] = file.read()
    return found


def journal_is_allocated(torture):
    """The mapped journal has a block behind every page: a store into it never meets a full disk."""
    with torture.daemon(options=JOURNAL) as server:
        status = os.stat(os.path.join(server.store, "journal"))
        expect_true(status.st_blocks * 512 >= status.st_size, f"{status.st_blocks * 512} of {status.st_size} allocated")


DRILLS = {
    "changed rows": changed_rows,
    "changed value files": changed_files,
    "changed journal records": changed_journal,
    "changed newest record": changed_last_record,
    "an older index": old_index,
    "killed while barred": barred_then_killed,
    "recovered from barred": barred_then_recovered,
    "touched without a file": touched_without_file,
    "unclean reboot": rebooted,
    "unclean reboot at always": rebooted_always,
    "clock set back": clock_set_back,
    "a second daemon": second_daemon,
    "a newer format": newer_format,
    "journal allocated": journal_is_allocated,
}
