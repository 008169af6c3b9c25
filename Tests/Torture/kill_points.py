"""SIGKILL at every system call: each scenario is repeated, and dies at its 1st, 2nd, 3rd ... call of a kind.

For each scenario and kind of call the daemon starts on a copy of a prepared store and is killed at the N-th such call,
N rising until the scenario ends without reaching it. Then it starts again, whole, every key is read back from disk and
from memory, and the history decides. Writes are also torn: half of the N-th is written, and nothing after it.
"""

import time
from dataclasses import dataclass, field

from connection import Closed
from faults import KILL, TEAR
from report import expect_true
from scripted import Script, Template, play, require, wait_drained

CALLS = ("write", "sync", "rename", "unlink", "truncate", "allocate", "make", "open")
# The smallest disk tier there is, so that trimming and checkpoints come soon.
TIGHT = {"memory": "1MiB", "disk": "16MiB", "options": ["--disk-journal", "1MiB", "--disk-trim-interval", "100ms"]}
ROOMY = {"memory": "4MiB", "disk": "64MiB", "options": ["--disk-journal", "1MiB"]}
POINTS_MAX = 2000
SHORT_CALLS = ("write", "sync", "unlink")
SHORT_ALWAYS = ("set large", "start-up after a boot", "stop")


def set_small(script):
    for _ in range(3):
        for key in script.small:
            yield script.set_small(key, ttl=script.turn % 2)


def set_large(script):
    for key in script.large:
        yield script.set_large(key)


def overwrite(script):
    for small, large in zip(script.small, script.large):
        yield script.store(small, 25_000)
        yield script.store(large, 200)
        yield script.append(large)
        yield script.store(small, 100)


def delete(script):
    for key in script.small[::2] + script.large:
        yield script.delete(key)
        yield script.get(key)
    yield script.set_large(script.large[0])
    yield script.touch(script.small[1], 5)
    yield script.touch(script.small[3], -1)


def flush(script):
    yield script.set_small(script.small[0])
    yield script.flush()
    yield script.set_small(script.small[1])
    yield script.set_large(script.large[1])


def trim(script):
    """More than fits: entries are evicted while others come."""
    for turn in range(90):
        yield script.store(script.large[turn % 5] if turn % 3 else script.small[turn % 8], 200_000)


def checkpoint(script):
    """Inline values of more than a sixteenth of the limit: the log is checkpointed and cut."""
    for turn in range(120):
        yield script.store(script.small[turn % 8], 18_000)


def nothing(_):
    return iter(())


@dataclass(frozen=True)
class Scenario:
    """What the daemon does while it dies."""

    steps: object
    settings: dict = field(default_factory=lambda: ROOMY)
    may_vanish: bool = False
    """Whether entries may be evicted."""
    dies_in: str = "run"
    """"run", "start" or "stop"."""
    before: str = ""
    """How the run before a start ended: in order, by a "kill", or by a "boot" of the machine."""


SCENARIOS = {
    "set small": Scenario(set_small),
    "set large": Scenario(set_large),
    "overwrite": Scenario(overwrite),
    "delete": Scenario(delete),
    "flush": Scenario(flush),
    "trim": Scenario(trim, TIGHT, may_vanish=True),
    "checkpoint": Scenario(checkpoint, TIGHT, may_vanish=True),
    "start-up": Scenario(nothing, dies_in="start"),
    "start-up after a kill": Scenario(nothing, dies_in="start", before="kill"),
    "start-up after a boot": Scenario(nothing, dies_in="start", before="boot"),
    "stop": Scenario(set_small, dies_in="stop"),
}


def run(torture):
    for level in ("process", "always"):
        for name in SCENARIOS:
            if torture.options.only and torture.options.only not in f"{name}, {level}":
                continue
            if torture.short and level == "always" and name not in SHORT_ALWAYS:
                continue
            with torture.case(f"{name}, {level}") as texts:
                sweep(torture, name, level, texts)


def sweep(torture, name, level, texts):
    scenario = SCENARIOS[name]
    settings = dict(scenario.settings, options=scenario.settings["options"] + ["--durability", level])
    # A boot takes all along at `process`; what comes back by itself must not be old.
    may_vanish = scenario.may_vanish or scenario.before == "boot" and level == "process"
    points = kills = 0
    with Template(torture, settings) as template:
        for call in (*(SHORT_CALLS if torture.short else CALLS), "torn write"):
            number = 1
            while number < POINTS_MAX:
                torture.progress(f"{name}, {level}: {call} {number}, {kills} kills")
                point = Point(template, call, number, may_vanish)
                was_killed = point.run(scenario)
                points += 1
                kills += was_killed
                if not was_killed:
                    break
                number += number * 3 if torture.short else stride(torture, number)
    expect_true(kills > 0, "no call was reached")
    texts.append(f"{kills} kills at {points} points, 0 wrong")


def stride(torture, number):
    """Every call; with a --share below 1, fewer as they get more."""
    return max(1, round(number * (1 - torture.options.share) / 2))


class Point:
    """One run that dies at one call."""

    def __init__(self, template, call, number, may_vanish):
        self.where = f"killed at {call} {number}: "
        self.kinds = ("write",) if call == "torn write" else (call,)
        self.action = TEAR if call == "torn write" else KILL
        self.number = number
        self.server, self.checker = template.trial(may_vanish)

    def run(self, scenario):
        """Whether the daemon died on the way."""
        server, checker = self.server, self.checker
        try:
            operations = []
            if scenario.before:
                # What is not in the index yet has to be replayed by the start that dies.
                server.start()
                operations = play(checker, server, overwrite(Script(checker.keys)))
                server.kill()
            if scenario.before == "boot":
                server.faults.reboot()
            was_killed = self.die(scenario, operations)
            server.faults.disarm()
            server.start()
            found = checker.read_back()
            checker.judge(operations, found)
            require(checker, self.where)
            return was_killed
        finally:
            server.kill()
            server.discard()

    def die(self, scenario, operations):
        at_start, at_stop = scenario.dies_in == "start", scenario.dies_in == "stop"
        server, faults = self.server, self.server.faults
        if at_start:
            faults.arm(self.action, self.kinds, self.number)
            server.launch()
            if not self.wait_started():
                return True
        else:
            server.start()
            if not at_stop:
                faults.arm(self.action, self.kinds, self.number)
        operations += play(self.checker, server, scenario.steps(Script(self.checker.keys)))
        if not at_stop:
            wait_drained(server)
            time.sleep(0.02 if at_start else 0.005)
            was_killed = server.process.poll() is not None
            server.kill()
            return was_killed
        faults.arm(self.action, self.kinds, self.number)
        return server.terminate() != 0

    def wait_started(self):
        """False if the daemon died before it answered."""
        while self.server.process.poll() is None:
            try:
                with self.server.connect() as connection:
                    connection.command(b"version")
                    return True
            except (OSError, Closed):
                time.sleep(0.001)
        return False
