"""The load of the crash checker: several connections that write, read and record what they asked and were told.

Each worker is a thread with one connection and a random generator of its own. It sends small pipelined batches and
notes for each operation when it was sent and when and how it was answered. When the server goes away, what has no
complete reply stays unanswered. Workers share nothing but the version counter and the table of known cas uniques.
"""

import itertools
import random
import threading
import time

from connection import Closed, Connection, store_request
from crash_history import NEVER, UNSEEN, Entry, Operation
from crash_values import TTL_CLASSES, TTL_STEP, Damaged, flags_of, parse, piece_of_length

SMALL, LARGE, COUNTER = "small", "large", "counter"
LARGE_LENGTHS = (20 * 1024 - 1, 20 * 1024, 20 * 1024 + 1, 30_000, 65_536, 200_000)


class Keys:
    """The keys of a run: some belong to one worker, some are written by all of them."""

    def __init__(self, workers, small=24, large=6, counters=2, shared=6):
        self.kind = {}
        self.owned = [[] for _ in range(workers)]
        for worker in range(workers):
            for kind, count in ((SMALL, small), (LARGE, large), (COUNTER, counters)):
                for number in range(count):
                    self.add(self.owned[worker], kind, b"%s-%d-%d" % (kind.encode(), worker, number))
        self.shared = []
        for number in range(shared):
            self.add(self.shared, SMALL, b"shared-%d" % number)
        self.add(self.shared, LARGE, b"shared-large")
        self.add(self.shared, COUNTER, b"shared-counter-1")
        self.add(self.shared, COUNTER, b"shared-counter-2")

    def add(self, row, kind, key):
        self.kind[key] = kind
        row.append(key)

    def __iter__(self):
        return iter(self.kind)

    def __len__(self):
        return len(self.kind)


class Uniques:
    """Cas uniques seen with the content they stood for. A unique must never stand for two contents, nor two for one."""

    def __init__(self):
        self.lock = threading.Lock()
        self.content_of = {}
        self.unique_of = {}
        self.latest = {}

    def note(self, key, content, flags, unique):
        """Remembers; returns a text when the unique contradicts what was seen before."""
        with self.lock:
            before = self.content_of.setdefault(unique, (key, content, flags))
            if before != (key, content, flags):
                return f"cas {unique} stands for {key!r} {content} and stood for {before[0]!r} {before[1]}"
            if isinstance(content, tuple) and content:
                known = self.unique_of.setdefault((key, content), unique)
                if known != unique:
                    return f"cas of {key!r} {content} was {known} and is {unique}"
                self.latest[key] = (content, unique)
        return None

    def of(self, key):
        with self.lock:
            return self.latest.get(key)


versions = itertools.count(1)


class Worker(threading.Thread):
    """One connection under load until the server goes away or `stopping` is set."""

    def __init__(self, number, address, keys, uniques, seed, flush_odds):
        super().__init__(daemon=True)
        self.number = number
        self.address = address
        self.keys = keys
        self.uniques = uniques
        self.random = random.Random(seed)
        self.flush_odds = flush_odds
        self.operations = []
        self.problems = []
        self.stopping = False

    def run(self):
        try:
            with Connection(self.address, timeout=20.0) as connection:
                while not self.stopping:
                    self.exchange(connection)
        except (Closed, ConnectionError, BrokenPipeError):
            pass
        except Exception as error:  # reported by the main thread as a failed check
            self.problems.append(("client", f"worker {self.number}: {type(error).__name__}: {error}"))

    def exchange(self, connection):
        """One batch: noted before it is sent, so that nothing the server may have seen is missing from the record."""
        batch = [self.draw() for _ in range(self.random.choice((1, 1, 2, 4, 8)))]
        request = b"".join(text for _, text, _ in batch)
        now = time.monotonic()
        for operation, _, _ in batch:
            operation.called = now
            operation.worker = self.number
        self.operations += [operation for operation, _, _ in batch]
        connection.send(request)
        silent = []
        for operation, _, is_silent in batch:
            if is_silent:
                silent.append(operation)
                continue
            reply = self.read_reply(connection, operation)
            now = time.monotonic()
            for earlier in silent:
                earlier.reply, earlier.returned = UNSEEN, now
            silent.clear()
            operation.reply, operation.returned = reply, now

    def read_reply(self, connection, operation):
        if operation.kind not in ("get", "gat"):
            line = connection.line()
            text = line.decode("latin-1")
            if text.startswith(("SERVER_ERROR", "CLIENT_ERROR", "ERROR")):
                self.problems.append(("refused", f"{operation.key!r} {operation!r}: {text}"))
            return text
        found = connection.values()
        if not found:
            return None
        value = found[0]
        try:
            entry = entry_of(value)
        except Damaged as damage:
            self.problems.append(("torn", f"{operation.key!r} while running: {damage}"))
            raise Closed("stop on damage") from None
        contradiction = value.cas and self.uniques.note(value.key, entry.content, entry.flags, value.cas)
        if contradiction:
            self.problems.append(("cas", contradiction))
        return entry

    def draw(self):
        """One random operation: (record, request bytes, whether it is silent)."""
        if self.random.random() < self.flush_odds:
            return Operation("flush", None), b"flush_all\r\n", False
        shared = self.random.random() < 0.15
        key = self.random.choice(self.keys.shared if shared else self.keys.owned[self.number])
        kind = self.keys.kind[key]
        draw = self.random.random()
        if draw < 0.12:
            return Operation("get", key), b"gets %s\r\n" % key, False
        if draw < 0.22:
            return self.simple(Operation("delete", key), b"delete %s" % key)
        if draw < 0.30:
            return self.timed(key)
        if kind == COUNTER and draw < 0.85:
            delta = self.random.choice((1, 1, 7, 1000, (1 << 64) - 3))
            verb = self.random.choice(("incr", "incr", "decr"))
            return self.simple(Operation(verb, key, delta=delta), b"%s %s %d" % (verb.encode(), key, delta))
        return self.storage(key, kind)

    def simple(self, operation, line):
        is_silent = self.random.random() < 0.1
        return operation, line + (b" noreply\r\n" if is_silent else b"\r\n"), is_silent

    def ttl(self):
        return self.random.choice((0, 0, 0, self.random.randint(1, TTL_CLASSES), -1))

    def timed(self, key):
        ttl = self.ttl()
        seconds = exptime(ttl)
        if self.random.random() < 0.5:
            return self.simple(Operation("touch", key, ttl=ttl), b"touch %s %d" % (key, seconds))
        return Operation("gat", key, ttl=ttl), b"gats %d %s\r\n" % (seconds, key), False

    def storage(self, key, kind):
        verb = self.random.choice(("set",) * 8 + ("add", "replace", "append", "prepend", "cas", "cas"))
        version = next(versions)
        unique = expected = None
        if kind == COUNTER:
            verb = self.random.choice(("set", "add", "replace"))
            content = self.random.choice((0, 1, 99, 1 << 40, (1 << 64) - 1))
            data = b"%d" % content
        elif self.random.random() < 0.03 and verb in ("set", "add", "replace"):
            # Nothing tells two empty values apart, so what relies on that (cas, joining) does not use them.
            content, data = (), b""
        else:
            content, data = (version,), piece_of_length(key, version, self.length(kind, verb))
        if verb == "cas":
            known = self.uniques.of(key)
            if known is None:
                verb = "set"
            else:
                expected, unique = known
        ttl = self.ttl()
        operation = Operation(verb, key, content, flags_of(version), ttl, expected=expected)
        is_silent = self.random.random() < 0.1
        request = store_request(verb.encode(), key, data, operation.flags, exptime(ttl), unique, is_silent)
        return operation, request, is_silent

    def length(self, kind, verb):
        if kind == LARGE and verb not in ("append", "prepend"):
            return self.random.choice(LARGE_LENGTHS)
        return self.random.choice((60, 100, 300, 1500, 4000))


def exptime(ttl):
    """The exptime of a TTL class."""
    return -1 if ttl < 0 else ttl * TTL_STEP


def entry_of(value, ttl=0):
    """The state that a value read back stands for; raises `Damaged`."""
    if b"counter" in value.key:
        try:
            return Entry(int(value.data.rstrip(b" ")), value.flags, ttl)
        except ValueError:
            raise Damaged(f"not a number: {value.data[:40]!r}") from None
    return Entry(parse(value.key, value.data), value.flags, ttl)


def unanswered(operations):
    return [operation for operation in operations if operation.returned == NEVER]
