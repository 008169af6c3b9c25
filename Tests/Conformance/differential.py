"""The same random commands to our daemon and to memcached at once; every answer must be the same, byte for byte.

A round is one connection to each server, keys of its own, and a few pipelined batches. Each command is followed by a
`version`, whose answer marks the end of its answer. Uniques are numbers of each server's own: they are replaced by the
order in which they appear. The differences known by name (`DIFFERENCES`) are checked against our own answer and
counted. After the rounds the counters of `stats` that both keep are compared as well.
"""

import base64
import random
import re
import time

from differential_commands import DIFFERENCES, NEWEST_DIFFERS, Generator
from differential_meta import (
    META_DIFFERENCES,
    MetaGenerator,
    SharedMetaGenerator,
    normalized,
    unique_in,
    without_marks,
)
from report import Mismatch, brief, expect, expect_true

BATCHES = 4
BATCH = 25
ODDS_OF_DIFFERENCE = 0.08
UNIQUE = re.compile(rb"\{unique:(.*?)\}", re.DOTALL)
NOT_NUMERIC = b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"
COUNTERS = (
    b"cmd_get",
    b"cmd_set",
    b"cmd_touch",
    b"get_hits",
    b"get_misses",
    b"delete_hits",
    b"delete_misses",
    b"incr_hits",
    b"incr_misses",
    b"decr_hits",
    b"decr_misses",
    b"cas_hits",
    b"cas_misses",
    b"cas_badval",
    b"touch_hits",
    b"touch_misses",
)


def run(context):
    count = context.options.commands
    with context.report.case("memcached's accidents are recognized, and a key that we lose is none"):
        recognition()
    for what, other, generator, share in (
        ("classic commands", context.memcached, Generator, 1.0),
        ("meta and classic commands, against the newest memcached,", context.newest, MetaGenerator, 1.0),
        ("meta commands that 1.6.18 has too", context.memcached, SharedMetaGenerator, 0.5),
    ):
        with context.report.case(f"{int(count * share)} random {what} get the same answers (seed {context.seed})"):
            compare(context, other(memory=1024), generator, int(count * share))
    with context.report.case("the counters of stats count the same"):
        compare_counters(context)


def compare(context, other, generator, count):
    """Rounds until `count` commands have been compared."""
    with context.target(max_value="1m") as ours, other as theirs:
        begin = time.monotonic()
        comparison = Comparison(ours, theirs, context.seed, generator)
        while comparison.commands < count:
            comparison.round(with_differences=True)
        context.report.note(
            f"{comparison.commands} commands in {comparison.rounds} rounds against memcached "
            f"{'.'.join(map(str, theirs.version))} in {time.monotonic() - begin:.0f} s; "
            f"known differences met: {comparison.met()}, accidents: {comparison.accidents}"
        )
        comparison.bound_accidents()
        comparison.require_real_differences()


def compare_counters(context):
    """Rounds without known differences, then the counters. After an accident they mean nothing: once more, then."""
    for attempt in range(1, 6):
        with context.target(max_value="1m") as ours, context.memcached(memory=1024) as theirs:
            with ours.connect() as one, theirs.connect() as other:
                before = one.stats(), other.stats()
            comparison = Comparison(ours, theirs, context.seed + attempt)
            for _ in range(20):
                comparison.round(with_differences=False)
            if not any(comparison.accidents.values()):
                comparison.compare_counters(before)
                return
    raise Mismatch("an accident in each of five attempts")


class Accident(Exception):
    """memcached did what depends on chance. The states differ from here on, so the round ends.

    stray sign: it refused to count a number of 2^63 or more, because its check for a minus sign reads on behind the
    value. long number: a number with a long tail of white space and text is one to memcached; to us, none over
    16 KiB is. padding: it did not pad a counted number, because one of its threads held the entry just then. held
    entry: the same, seen by the marks (h, W, X, Z) that it lost. flush survivor: its flush_all left an entry, because
    one of its threads held the entry's lock just then (item_flush_expired in its items.c gives up on such entries).
    """


# One of memcached's accidents in so many rounds, and two more, may be chance. A server that never pads, or forgets what
# it was told to keep, would look like one accident after the other.
ROUNDS_PER_ACCIDENT = {"stray sign": 4, "padding": 50, "long number": 50, "held entry": 50, "flush survivor": 200}


def was_long(request, history):
    """Whether the key of an incr or decr was ever given a long value in this round."""
    words = [word for word in request.rstrip(b"\r\n").split(b" ") if word]
    return len(words) > 1 and any(len(earlier) > 10_000 and words[1] in earlier for earlier in history)


def without_padding(answer):
    """A get or mg reply without spaces and lengths."""
    answer = re.sub(rb"^VA \d+", b"VA", re.sub(rb" s\d+", b"", answer) if answer[:2] in (b"VA", b"HD") else answer)
    return re.sub(rb"(VALUE [^ ]+ \d+) \d+", rb"\1", answer).replace(b" ", b"")


def from_first_difference(one, other):
    """Both answers from a little before the place where they part."""
    place = next((index for index, pair in enumerate(zip(one, other)) if pair[0] != pair[1]), min(len(one), len(other)))
    start = max(0, place - 40)
    return one[start:], other[start:]


def is_stray_sign(request, one, other):
    """Whether two answers to incr or decr differ in that way, seen from the number that one of them gave."""
    words = [word for word in request.rstrip(b"\r\n").split(b" ") if word]
    answers = {one, other}
    if words[0] not in (b"incr", b"decr") or NOT_NUMERIC not in answers:
        return False
    answers.discard(NOT_NUMERIC)
    number = answers.pop().strip() if answers else b""
    if not number.isdigit():
        return False
    delta = int(words[2])
    before = (int(number) - delta) % (1 << 64) if words[0] == b"incr" else int(number) + delta
    return before >= 1 << 63


def key_of(request):
    """The key of a request that has one, decoded."""
    words = request.split(b"\n")[0].split()
    if len(words) < 2 or words[0] in (b"flush_all", b"mn"):
        return None
    if words[0][:1] == b"m" and b"b" in words[2:]:
        try:
            return base64.b64decode(words[1], validate=True)
        except ValueError:
            return None
    return words[1]


def is_held_entry(request, ours, theirs, history):
    """Whether two meta answers differ only in the marks of an entry whose number was counted before."""
    if request[:1] != b"m" or ours == theirs or without_marks(ours) != without_marks(theirs):
        return False
    return any(
        earlier[:3] in (b"ma ", b"inc", b"dec") and key_of(earlier) == key_of(request) for earlier in history[:-1]
    )


ABSENT = frozenset({b"NOT_FOUND", b"EN", b"NF"})
# Our first word and memcached's, where the one is said of a key that holds nothing and the other of one that does.
ABSENT_AND_PRESENT = frozenset(
    {
        (b"STORED", b"NOT_STORED"),
        (b"NOT_STORED", b"STORED"),
        (b"HD", b"NS"),
        (b"NS", b"HD"),
        (b"END", b"VALUE"),
    }
)


def says_absent(ours, theirs):
    """Whether we answer as of a key that holds nothing, and memcached as of one that holds something."""
    first = ours.split()[:1], theirs.split()[:1]
    if not all(first):
        return False
    words = first[0][0], first[1][0]
    fewer = ours.count(b"VALUE ") < theirs.count(b"VALUE ")
    return words[0] != words[1] and (words[0] in ABSENT or words in ABSENT_AND_PRESENT) or fewer


def is_flush_survivor(request, ours, theirs, history):
    """Whether memcached knows an entry that a flush_all of this round must have removed.

    Only where nothing has stored the key unconditionally since, so that our answer is the right one.
    """
    key = key_of(request)
    if ours == theirs or key is None or not says_absent(ours, theirs):
        return False
    for earlier in reversed(history[:-1]):
        words = earlier.split(b"\n")[0].split() or [b""]
        if words[0] == b"flush_all" and b"x" not in words:
            return True
        if words[0] == b"set" and key_of(earlier) == key:
            return False
        if words[0] == b"ms" and key_of(earlier) == key and not any(word[:1] in (b"M", b"C") for word in words[3:]):
            return False
    return False


def recognition():
    """Holds the two judgements on lost marks and survivors to made-up histories."""
    flush, store, add = b"flush_all\r\n", b"set k 0 0 1\r\nx\r\n", b"add k 0 0 1\r\ny\r\n"
    value = b"VALUE k 0 1\r\nx\r\nEND\r\n"
    other = b"VALUE a 0 1\r\nx\r\n"
    survivors = (
        (True, add, b"STORED\r\n", b"NOT_STORED\r\n", [store, flush, b"\r\n"]),
        (True, b"get a k\r\n", other + b"END\r\n", other + value, [flush]),
        (False, add, b"STORED\r\n", b"NOT_STORED\r\n", [store]),
        (False, b"get k\r\n", b"END\r\n", value, [flush, store]),
        (False, b"get k\r\n", b"END\r\n", value, [b"flush_all x\r\n"]),
        (False, b"get k\r\n", value, b"END\r\n", [flush]),
        (False, b"incr k 1\r\n", b"5\r\n", NOT_NUMERIC, [flush]),
    )
    for wanted, request, ours, theirs, before in survivors:
        judged = is_flush_survivor(request, ours, theirs, [*before, request])
        expect(judged, wanted, f"survivor: {request!r} after {before!r}")
    held = (
        (True, b"mg k h\r\n", b"HD h1\r\n", b"HD h0\r\n", [b"ma k\r\n"]),
        (False, b"mg k h\r\n", b"HD h1\r\n", b"HD h0\r\n", [b"ma j\r\n"]),
        (False, b"mg k s h\r\n", b"HD s1 h1\r\n", b"HD s2 h0\r\n", [b"ma k\r\n"]),
    )
    for wanted, request, ours, theirs, before in held:
        judged = is_held_entry(request, ours, theirs, [*before, request])
        expect(judged, wanted, f"held entry: {request!r} after {before!r}")


class Side:
    """One server in one round: its connection, the uniques it gave, and the names they were replaced by."""

    def __init__(self, server):
        self.server = server
        self.connection = server.connect(timeout=15)
        self.uniques = {}
        self.names = {}

    def filled(self, request):
        return UNIQUE.sub(lambda match: b"%d" % self.uniques.get(match[1], 1 << 62), request)

    def answers(self, requests):
        """Sends a batch and returns the answer to each request."""
        self.connection.send(b"".join(self.filled(request) + b"version\r\n" for request in requests))
        return [self.answer(request) for request in requests]

    def answer(self, request):
        parts = []
        while True:
            line = self.connection.line()
            if line.startswith(b"VERSION "):
                return b"".join(parts)
            words = line.split(b" ")
            if words[0] == b"VALUE" and len(words) >= 4:
                data = self.connection.exactly(int(words[3]) + 2)
                if len(words) == 5:
                    self.uniques[words[1]] = int(words[4])
                    words[4] = b"#%d" % self.names.setdefault(int(words[4]), len(self.names))
                parts.append(b" ".join(words) + b"\r\n" + data)
            elif words[0] == b"VA" and len(words) >= 2:
                parts.append(self.meta(request, line) + b"\r\n" + self.connection.exactly(int(words[1]) + 2))
            else:
                parts.append(self.meta(request, line) + b"\r\n")

    def meta(self, request, line):
        """A line of a meta reply without what is the server's own; its unique is kept for later requests."""
        if request[:1] != b"m":
            return line
        unique = unique_in(line)
        if unique is not None:
            self.uniques[request.split()[1]] = unique
        return normalized(line, self.names)


class Comparison:
    """All rounds of one pair of servers."""

    def __init__(self, ours, theirs, seed, generator=Generator):
        self.generator = generator
        self.ours = ours
        self.theirs = theirs
        self.rng = random.Random(seed)
        self.commands = 0
        self.rounds = 0
        self.accidents = dict.fromkeys(ROUNDS_PER_ACCIDENT, 0)
        for server in (ours, theirs):
            with server.connect() as connection:
                for _ in range(20):  # so that no entry of a round has the unique 1 or 2
                    connection.set(b"warm", b"up")
        self.differences = dict.fromkeys((*DIFFERENCES, *META_DIFFERENCES), 0)
        self.real = set()  # those that were seen
        self.quiet_deletes = 0

    def met(self):
        return ", ".join(f"{count} {name}" for name, count in self.differences.items() if count) or "none"

    def bound_accidents(self):
        """Raises `Mismatch` if there were more accidents of a kind than chance brings."""
        for name, rounds in ROUNDS_PER_ACCIDENT.items():
            expect_true(
                self.accidents[name] <= 2 + self.rounds // rounds,
                f"too many accidents to be accidents: {self.accidents[name]} {name} in {self.rounds} rounds",
            )

    def require_real_differences(self):
        """Raises `Mismatch` if a known difference was sent often and never seen: it is none any more."""
        gone = [name for name, count in self.differences.items() if count >= 20 and name not in self.real]
        expect_true(self.ours.dialect != "ours" or not gone, f"known differences that do not differ: {gone}")

    def round(self, with_differences):
        self.rounds += 1
        generator = self.generator(self.rng, self.rounds)
        ours, theirs = Side(self.ours), Side(self.theirs)
        history = []
        try:
            for _ in range(BATCHES):
                generator.begin_batch()
                batch = [
                    generator.differing()
                    if with_differences and generator.differences and self.rng.random() < ODDS_OF_DIFFERENCE
                    else generator.same()
                    for _ in range(BATCH)
                ]
                self.compare_batch(ours, theirs, batch, history)
            if with_differences and self.generator is Generator:
                self.compare_last(ours, generator.differ_wide_length())
        except Accident as accident:
            self.accidents[str(accident)] += 1
        finally:
            ours.connection.close()
            theirs.connection.close()

    def compare_batch(self, ours, theirs, batch, history):
        requests = [command.request for command in batch]
        self.quiet_deletes += sum(request[:6] == b"delete" and b" noreply" in request for request in requests)
        for command, our_answer, their_answer in zip(batch, ours.answers(requests), theirs.answers(requests)):
            self.commands += 1
            history.append(command.request)
            if command.difference:
                self.differences[command.difference] += 1
                if our_answer != their_answer:
                    self.real.add(command.difference)
                if self.ours.dialect == "ours":
                    self.require(command, our_answer, command.ours, "we should", history)
                if self.theirs.dialect == "old" or command.difference in (*NEWEST_DIFFERS, *META_DIFFERENCES):
                    continue
            if self.ours.dialect == "ours" and is_held_entry(command.request, our_answer, their_answer, history):
                raise Accident("held entry")
            if self.ours.dialect == "ours" and is_flush_survivor(command.request, our_answer, their_answer, history):
                raise Accident("flush survivor")
            if self.ours.dialect == "ours" or self.ours.dialect == self.theirs.dialect:
                self.require(command, our_answer, their_answer, "memcached did", history)

    def compare_last(self, ours, command):
        """A command after which 1.6.18 is out of step: sent to us only, as the last of its connection."""
        self.commands += 1
        self.differences[command.difference] += 1
        self.real.add(command.difference)
        if self.ours.dialect == "ours":
            self.require(command, ours.answers([command.request])[0], command.ours, "we should", [command.request])

    def require(self, command, our_answer, wanted, whose, history):
        if our_answer != wanted:
            if is_stray_sign(command.request, our_answer, wanted) and (
                self.ours.dialect != "ours" or wanted == NOT_NUMERIC
            ):
                raise Accident("stray sign")
            if our_answer == NOT_NUMERIC and was_long(command.request, history):
                raise Accident("long number")
            if without_padding(our_answer) == without_padding(wanted):
                raise Accident("padding")
            our_answer, wanted = from_first_difference(our_answer, wanted)
            before = b"".join(history[-6:-1])
            raise Mismatch(
                f"round {self.rounds}, {brief(command.request)}: answered {brief(our_answer)}, {whose} "
                f"{brief(wanted)}; before it: {brief(before, 600)}"
            )

    def compare_counters(self, before):
        with self.ours.connect() as one, self.theirs.connect() as other:
            after = one.stats(), other.stats()
        counted = {
            name: [int(now.get(name, -1)) - int(then.get(name, 0)) for now, then in zip(after, before)]
            for name in COUNTERS
        }
        # A quiet delete does not ask the disk: it may count a hit for what is not there, and no miss then.
        surplus = counted[b"delete_hits"][0] - counted[b"delete_hits"][1]
        expect_true(0 <= surplus <= self.quiet_deletes, f"{surplus} delete_hits more, {self.quiet_deletes} unanswered")
        counted[b"delete_hits"][0] -= surplus
        counted[b"delete_misses"][0] += surplus
        for name, (ours, theirs) in counted.items():
            expect(ours, theirs, f"how much stats {name.decode()} counted")
