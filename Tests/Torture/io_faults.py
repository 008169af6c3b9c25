"""I/O errors at the N-th call, once and for ever, while clients read and write; and what the tier is like afterwards.

During a fault every get is answered, and soon; nothing stale, torn or resurrected is ever served; the daemon lives on.
When the fault is over the tier is back within five seconds by itself. After that a kill -9 shows what a start makes of
what the fault left. Entries may vanish meanwhile: a cache may always answer a miss.
"""

import errno
import random
import threading
import time

from connection import Closed, Connection
from faults import FAIL, SHORT
from report import expect_true
from scripted import Script, Template, disk_state, play, require, wait_drained

CODES = {
    "EIO": errno.EIO,
    "ENOSPC": errno.ENOSPC,
    "EDQUOT": errno.EDQUOT,
    "EROFS": errno.EROFS,
    "EMFILE": errno.EMFILE,
}
# Which errors each kind of call can have.
CALLS = {
    "read": ("EIO",),
    "write": ("EIO", "ENOSPC", "EDQUOT", "EROFS", "short"),
    "sync": ("EIO", "ENOSPC", "EDQUOT"),
    "open": ("EIO", "EMFILE", "EROFS"),
    "unlink": ("EIO", "EROFS"),
    "truncate": ("EIO", "EROFS"),
    "rename": ("EIO", "EROFS", "ENOSPC"),
    "make": ("EIO", "ENOSPC", "EROFS"),
    "allocate": ("EIO", "ENOSPC", "EDQUOT"),
}
SETTINGS = {"memory": "1MiB", "disk": "64MiB", "options": ["--disk-journal", "1MiB", "--disk-trim-interval", "100ms"]}
GET_BAR = 0.100
BACK_BAR = 5.0
# The bars are for a machine that does nothing else; the short form runs beside other tests, and only sees hangs.
SHORT_SLACK = 10


def run(torture):
    for level in ("process", "always"):
        cases = {f"the N-th call fails once, {level}": once, f"every call from the N-th on fails, {level}": for_ever}
        for name, check in cases.items():
            if torture.options.only and torture.options.only not in name:
                continue
            with torture.case(name) as texts:
                check(torture, level, texts)


def template(torture, level):
    return Template(torture, dict(SETTINGS, options=SETTINGS["options"] + ["--durability", level]))


def arm(server, call, error, number, forever):
    if error == "short":
        server.faults.arm(SHORT, [call], number, forever)
    else:
        server.faults.arm(FAIL, [call], number, forever, CODES[error])


def once(torture, level, texts):
    """N rises until the work ends without reaching it."""
    points = hits = 0
    worst = Worst()
    with template(torture, level) as prepared:
        for call, errors in CALLS.items():
            for error in errors[: 1 if torture.short else None]:
                number = 1
                while number < 500:
                    torture.progress(f"{call} {number} fails once with {error}, {level}")
                    was_hit = trial(torture, prepared, call, error, number, False, worst)
                    points += 1
                    hits += was_hit
                    if not was_hit:
                        break
                    number += number * 7 if torture.short else stride(torture, number)
    expect_true(hits > 0, "no call was reached")
    texts.append(f"{hits} faults at {points} points, 0 wrong, {worst}")


def for_ever(torture, level, texts):
    points = hits = 0
    worst = Worst()
    numbers = (1,) if torture.short else (1, 2, 3, 5, 8, 13, 21, 34, 55)
    with template(torture, level) as prepared:
        for call, errors in CALLS.items():
            for error in errors[-1 if torture.short else None :]:
                for number in numbers:
                    torture.progress(f"{call} fails from {number} on with {error}, {level}")
                    hits += trial(torture, prepared, call, error, number, True, worst)
                    points += 1
    texts.append(f"{hits} faults at {points} points, 0 wrong, {worst}")


def stride(torture, number):
    return max(1, round(number * (1 - torture.options.share)))


class Worst:
    """The longest times seen."""

    def __init__(self):
        self.get = 0.0
        self.back = 0.0

    def __str__(self):
        return f"slowest get {self.get * 1000:.0f} ms, longest until back {self.back:.2f} s"


class Reader(threading.Thread):
    """Gets small keys all the while, one at a time, and measures how long each takes."""

    def __init__(self, address, keys):
        super().__init__(daemon=True)
        self.address = address
        self.keys = keys
        self.slowest = 0.0
        self.answered = 0
        self.problem = None
        self.is_over = False

    def run(self):
        draw = random.Random(1)
        try:
            with Connection(self.address, timeout=10) as connection:
                while not self.is_over:
                    begin = time.monotonic()
                    connection.get(draw.choice(self.keys))
                    self.slowest = max(self.slowest, time.monotonic() - begin)
                    self.answered += 1
                    time.sleep(0.001)
        except (Closed, OSError) as error:
            self.problem = error


def work(script):
    """A little of everything; more than memory holds."""
    for turn in range(4):
        for key in script.small:
            yield script.set_small(key)
        for key in script.large:
            yield script.set_large(key)
        yield script.delete(script.small[turn])
        yield script.delete(script.large[turn])
        yield script.get(script.small[5])
        yield script.touch(script.small[6], 1 + turn)
        yield script.touch(script.large[3], 100 + turn)
        yield script.append(script.large[4])
        if turn == 2:
            yield script.flush()


def trial(torture, prepared, call, error, number, forever, worst):
    """Whether the fault was met."""
    where = f"{call} {number} fails {'for ever' if forever else 'once'} with {error}: "
    server, checker = prepared.trial(may_vanish=True)
    try:
        server.start()
        reader = Reader(server.address, Script(checker.keys).small)
        arm(server, call, error, number, forever)
        reader.start()
        operations = play(checker, server, work(Script(checker.keys)), may_refuse=True)
        time.sleep(0.05 if forever else 0.005)
        expect_true(server.process.poll() is None, f"{where}the daemon died: {server.log_tail(2000)}")
        reader.is_over = True
        reader.join(10)
        was_hit = server.faults.hits > 0
        server.faults.disarm()
        expect_true(reader.problem is None, f"{where}a get failed: {reader.problem}")
        expect_true(reader.slowest < bar(torture, GET_BAR), f"{where}a get took {reader.slowest:.3f} s")
        worst.get = max(worst.get, reader.slowest)
        worst.back = max(worst.back, back(torture, server, where))
        checker.judge(operations, checker.read_back())
        require(checker, where)
        server.kill()
        server.start()
        checker.judge([], checker.read_back())
        require(checker, where + "after a kill: ")
        return was_hit
    finally:
        server.kill()
        server.discard()


def bar(torture, seconds):
    """What may not be exceeded: `seconds` in the long form."""
    return seconds * (SHORT_SLACK if torture.short else torture.options.slack)


def back(torture, server, where):
    """Seconds until the tier is as it should be."""
    begin = time.monotonic()
    limit = bar(torture, BACK_BAR)
    while disk_state(server) != "ok" or not wait_drained(server, 0.05):
        expect_true(
            time.monotonic() - begin < limit,
            f"{where}the disk tier is {disk_state(server)} {limit:.0f} s after the fault: {server.log_tail()}",
        )
        time.sleep(0.005)
    return time.monotonic() - begin
