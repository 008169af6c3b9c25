"""The kill -9 checker: load, kill at a random moment, start again, read everything back, decide.

Promise checked, per key: what was acknowledged before the kill is exactly there; what was in flight is there or is
not; nothing is torn, older, foreign, lost or back from the dead; flags, TTLs and cas uniques belong to the value.
After a start memory is empty, so the first read of every key comes from disk and the second from memory; both are
checked. The run directs one server through many cycles; the histories are judged by `crash_history`.
"""

import math
import random
import sys
import time

from crash_history import Entry, TooMany, outcomes, verdict
from crash_load import Keys, Uniques, Worker, entry_of, unanswered
from crash_values import TTL_STEP, Damaged
from report import Mismatch, expect_true

WORKERS = 4
READ_BATCH = 40
CLEAN_STOP_ODDS = 0.08
START_KILL_ODDS = 0.08
HISTORY_SHOWN = 30
LEAST_OPERATIONS, LOAD_PATIENCE = 60, 5.0
# Less than the keys of `ROOMY` hold, so that trimming never stops.
SMALL_DISK = "16MiB"
ROOMY = {"small": 24, "large": 60, "counters": 2, "shared": 6}


def run(context):
    kills = context.options.kills
    with context.report.case(f"{kills} kills under load: nothing torn, stale, resurrected or lost"):
        check(context, kills, {"memory": "1MiB", "disk": "2GiB"})
    kills = max(5, kills // 3)
    with context.report.case(f"{kills} kills while the disk tier makes room: nothing torn, stale or resurrected"):
        check(context, kills, {"memory": "1MiB", "disk": SMALL_DISK}, may_vanish=True)


def check(context, kills, settings, may_vanish=False):
    with context.daemon(**settings) as server:
        checker = Checker(server, context.seed, context.report, may_vanish=may_vanish)
        try:
            checker.cycles(kills)
        finally:
            context.report.note(checker.summary())
        checker.require_clean()


class Checker:
    """State of one run: what each key is known to hold, and what was found wrong."""

    def __init__(self, server, seed, report=None, load_seconds=(0.01, 0.12), may_vanish=False):
        self.server = server
        self.random = random.Random(seed)
        self.seed = seed
        self.report = report
        self.load_seconds = load_seconds
        self.may_vanish = may_vanish
        self.keys = Keys(WORKERS, **ROOMY) if may_vanish else Keys(WORKERS)
        self.uniques = Uniques()
        self.known = {key: None for key in self.keys}
        self.wrong = []
        self.counts = dict.fromkeys(
            (
                "kills",
                "clean stops",
                "kills during start",
                "acknowledged",
                "in flight",
                "in flight and applied",
                "first reads",
                "second reads",
                "reads under load",
            ),
            0,
        )
        self.longest_start = 0.0
        self.has_meta = None

    def cycles(self, kills):
        """Runs until the server was killed `kills` times under load."""
        begin = time.monotonic()
        if not self.server.is_running():
            self.start()
        while self.counts["kills"] < kills:
            operations = self.load_and_stop()
            self.start()
            self.judge(operations, self.read_back())
            if self.report and self.counts["kills"] % 25 == 0:
                self.progress(kills, begin)

    def progress(self, kills, begin):
        text = (
            f"kill {self.counts['kills']}/{kills}, {self.counts['acknowledged']} acknowledged, "
            f"{len(self.wrong)} wrong, {time.monotonic() - begin:.0f} s"
        )
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{text} ")
        else:
            self.report.note(text)

    def start(self):
        """Starts the server; now and then it is killed while it starts, and started again."""
        while self.random.random() < START_KILL_ODDS:
            self.server.launch()
            time.sleep(self.random.uniform(0, 0.06))
            self.server.kill()
            self.counts["kills during start"] += 1
        begin = time.monotonic()
        self.server.start()
        self.longest_start = max(self.longest_start, time.monotonic() - begin)

    def load_and_stop(self):
        """Runs the workers for a random time, stops the server under them, and returns what they did."""
        flush_odds = self.random.choice((0, 0, 0.002))
        workers = [
            Worker(number, self.server.address, self.keys, self.uniques, self.random.getrandbits(64), flush_odds)
            for number in range(WORKERS)
        ]
        for worker in workers:
            worker.start()
        time.sleep(self.random.uniform(*self.load_seconds))
        self.wait_for_load(workers)
        if self.random.random() < CLEAN_STOP_ODDS:
            status = self.server.terminate()
            self.counts["clean stops"] += 1
            if status != 0:
                self.wrong.append(("exit", f"status {status} after SIGTERM: {self.server.log_tail()}"))
        else:
            gone = self.server.process.poll()
            if gone is not None:
                self.wrong.append(("exit", f"ended by itself with {gone}: {self.server.log_tail()}"))
            self.server.kill()
            self.counts["kills"] += 1
        for worker in workers:
            worker.stopping = True
        for worker in workers:
            worker.join(30)
            self.wrong += worker.problems
        return [operation for worker in workers for operation in worker.operations]

    def wait_for_load(self, workers):
        """On a busy machine a moment may be too short for anything to happen in it."""
        deadline = time.monotonic() + LOAD_PATIENCE
        while sum(len(worker.operations) for worker in workers) < LEAST_OPERATIONS and time.monotonic() < deadline:
            if not self.server.is_running():
                break
            time.sleep(0.001)

    def read_back(self):
        """Reads every key twice: {key: Entry or None}. Differences between the readings are noted as wrong."""
        found = {}
        keys = list(self.keys)
        self.random.shuffle(keys)
        with self.server.connect(timeout=20) as connection:
            for name in ("first reads", "second reads"):
                for begin in range(0, len(keys), READ_BATCH):
                    batch = keys[begin : begin + READ_BATCH]
                    values = connection.many(batch, b"gets")
                    for key in batch:
                        self.note_read(name, found, key, values.get(key))
            self.add_ttls(connection, found)
        return found

    def note_read(self, name, found, key, value):
        self.counts[name] += 1
        try:
            entry = entry_of(value) if value else None
        except Damaged as damage:
            self.wrong.append(("torn", f"{key!r} in {name}: {damage}"))
            entry = None
        if value and entry:
            contradiction = self.uniques.note(key, entry.content, entry.flags, value.cas)
            if contradiction:
                self.wrong.append(("cas", f"in {name}: {contradiction}"))
        if name == "first reads":
            found[key] = entry
        elif found[key] != entry and not (self.may_vanish and entry is None):
            self.wrong.append(("unsteady", f"{key!r} read as {found[key]} first and as {entry} then"))

    def add_ttls(self, connection, found):
        """Adds the TTL class to each entry through `mg t`; without meta commands TTLs stay unknown (None)."""
        if self.has_meta is None:
            self.has_meta = connection.command(b"mg absent t") == b"EN"
        present = [key for key in found if found[key]]
        if self.has_meta:
            connection.send(b"".join(b"mg %s t\r\n" % key for key in present))
        for key in present:
            ttl = None
            if self.has_meta:
                words = connection.line().split()
                if words[0] == b"HD":
                    left = int(words[1][1:])
                    ttl = 0 if left < 0 else math.ceil(left / TTL_STEP)
                elif not self.may_vanish:
                    self.wrong.append(("unsteady", f"{key!r} was read and then mg t answered {words}"))
            found[key] = Entry(found[key].content, found[key].flags, ttl)

    def judge(self, operations, found):
        """Compares what was read back with what the history allows, and takes it as the new truth."""
        by_key = {key: [] for key in self.keys}
        for operation in operations:
            for key in by_key if operation.key is None else (operation.key,):
                by_key[key].append(operation)
        pending = len(unanswered(operations))
        self.counts["acknowledged"] += len(operations) - pending
        self.counts["in flight"] += pending
        self.counts["reads under load"] += sum(operation.kind == "get" for operation in operations)
        for key, history in by_key.items():
            self.judge_key(key, history, found[key])
            self.known[key] = found[key]

    def judge_key(self, key, history, observed):
        try:
            finals = outcomes(self.known[key], history, self.may_vanish)
        except TooMany:
            self.wrong.append(("undecided", f"{key!r}: {len(history)} operations allow too many orders"))
            return
        if any(same(final, observed) for final in finals):
            if len(finals) > 1:
                answered = outcomes(self.known[key], [op for op in history if op.returned != math.inf], self.may_vanish)
                self.counts["in flight and applied"] += not any(same(final, observed) for final in answered)
            return
        history.sort(key=lambda operation: operation.called)
        kind = verdict(self.known[key], history, finals, observed)
        shown = "\n      ".join(repr(operation) for operation in history[-HISTORY_SHOWN:])
        allowed = ", ".join(sorted(map(repr, finals))[:4]) or "nothing explains the replies"
        self.wrong.append(
            (
                kind,
                f"{key!r} is {observed}; allowed: {allowed}; it was {self.known[key]}; "
                f"kill {self.counts['kills']}, history:\n      {shown}",
            )
        )

    def kinds(self):
        """How often each kind of wrong was seen."""
        counts = {}
        for kind, _ in self.wrong:
            counts[kind] = counts.get(kind, 0) + 1
        return counts

    def summary(self):
        figures = ", ".join(f"{count} {name}" for name, count in self.counts.items())
        wrong = ", ".join(f"{count} {kind}" for kind, count in sorted(self.kinds().items())) or "0 wrong"
        ttl = "" if self.has_meta else ", TTLs not checked (no meta commands)"
        return f"{figures}, longest start {self.longest_start * 1000:.0f} ms, seed {self.seed}: {wrong}{ttl}"

    def require_clean(self):
        """Raises `Mismatch` with the first findings unless there are none, or when nothing was really tried."""
        if self.wrong:
            first = "\n    ".join(f"{kind}: {text}" for kind, text in self.wrong[:5])
            raise Mismatch(f"{len(self.wrong)} wrong ({self.kinds()}), seed {self.seed}\n    {first}")
        expect_true(
            self.counts["acknowledged"] >= 20 * self.counts["kills"], f"too little load to mean anything: {self.counts}"
        )


def same(final, observed):
    """Whether an allowed state is the observed one. An unknown TTL (None) agrees with any."""
    if final is None or observed is None:
        return final is None and observed is None
    if final.content != observed.content or final.flags != observed.flags:
        return False
    return observed.ttl is None or final.ttl is None or final.ttl == observed.ttl
