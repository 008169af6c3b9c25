"""A fixed sequence of operations on one connection, recorded and judged like the load of the crash checker.

`Script` makes the operations; `play` sends them one after the other until the server goes away. A `Template` is a
prepared store; each trial is a daemon on a copy of it, with a checker that knows what every key of it holds.
"""

import os
import random
import shutil
import time

from connection import Closed, Connection, store_request
from crash import Checker
from crash_history import NEVER, Operation
from crash_load import Keys, Uniques, Worker, exptime, versions
from crash_values import flags_of, piece_of_length
from report import Mismatch

SMALL_BYTES = (60, 300, 1500)
LARGE_BYTES = (20 * 1024 + 1, 30_000, 65_536)


def few_keys():
    """Keys of one worker: few, so that every one of them is touched and read back."""
    return Keys(1, small=8, large=5, counters=1, shared=0)


class Script:
    """Makes operations for the crash checker: (record, request). Lengths go round; versions never repeat."""

    def __init__(self, keys):
        self.keys = list(keys)
        self.small = [key for key in self.keys if b"small" in key]
        self.large = [key for key in self.keys if b"large" in key]
        self.turn = 0

    def store(self, key, length, verb="set", ttl=0):
        version = next(versions)
        operation = Operation(verb, key, (version,), flags_of(version), ttl)
        data = piece_of_length(key, version, length)
        return operation, store_request(verb.encode(), key, data, operation.flags, exptime(ttl))

    def set_small(self, key, ttl=0):
        self.turn += 1
        return self.store(key, SMALL_BYTES[self.turn % 3], ttl=ttl)

    def set_large(self, key, ttl=0):
        self.turn += 1
        return self.store(key, LARGE_BYTES[self.turn % 3], ttl=ttl)

    def append(self, key):
        return self.store(key, 100, "append")

    def delete(self, key):
        return Operation("delete", key), b"delete %s\r\n" % key

    def touch(self, key, ttl):
        return Operation("touch", key, ttl=ttl), b"touch %s %d\r\n" % (key, exptime(ttl))

    def get(self, key):
        return Operation("get", key), b"gets %s\r\n" % key

    def flush(self):
        return Operation("flush", None), b"flush_all\r\n"

    def everything(self):
        """Each key gets a value."""
        for key in self.small:
            yield self.set_small(key, ttl=self.turn % 3)
        for key in self.large:
            yield self.set_large(key)


def play(checker, server, steps, may_refuse=False):
    """Sends the steps one after the other; returns the records. Ends early when the server goes away.

    With `may_refuse` a SERVER_ERROR is an answer that leaves open what became of the operation.
    """
    worker = Worker(0, server.address, checker.keys, checker.uniques, 0, 0)
    operations = []
    steps = iter(steps)
    while exchange(worker, server, steps, operations) and may_refuse and server.is_running():
        # The server has let go of the connection, because it does not know what became of a write.
        pass
    checker.wrong += [found for found in worker.problems if not (may_refuse and found[0] == "refused")]
    return operations


def exchange(worker, server, steps, operations):
    """Plays steps on one connection; True if that ended before them."""
    try:
        with Connection(server.address, timeout=20.0) as connection:
            for operation, request in steps:
                operation.called = time.monotonic()
                operations.append(operation)
                connection.send(request)
                operation.reply = worker.read_reply(connection, operation)
                is_open = isinstance(operation.reply, str) and operation.reply.startswith("SERVER_ERROR")
                operation.returned = NEVER if is_open else time.monotonic()
    except (Closed, ConnectionError, BrokenPipeError):
        return True
    return False


def wait_drained(server, seconds=5.0):
    """Waits until the journal is in the index; False if the server went away first."""
    deadline = time.monotonic() + seconds
    try:
        with Connection(server.address) as connection:
            while time.monotonic() < deadline:
                if int(connection.stats().get(b"journal_used_bytes", b"0")) == 0:
                    return True
                time.sleep(0.001)
    except (Closed, OSError):
        return False
    return True


def disk_state(server):
    """The disk tier's state as text."""
    with Connection(server.address) as connection:
        return connection.stats()[b"disk_state"].decode()


class Template:
    """A store with known content, stopped in order, to be copied for each trial."""

    def __init__(self, torture, settings, steps=None):
        self.settings = settings
        self.keys = few_keys()
        self.torture = torture
        self.daemon = torture.daemon(**settings)
        self.may_vanish = False
        with self.daemon.start() as server:
            checker = Checker(server, torture.seed)
            adopt(checker, self.keys)
            operations = play(checker, server, (steps or Script.everything)(Script(self.keys)))
            checker.judge(operations, checker.read_back())
            require(checker)
            self.known, self.uniques = checker.known, checker.uniques
            wait_drained(server)
            if server.terminate() != 0:
                raise Mismatch(f"the template's daemon failed: {server.log_tail()}")
            self.kept = os.path.dirname(server.store) + "-template"
            shutil.copytree(server.store, self.kept)

    def discard(self):
        shutil.rmtree(self.kept, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.discard()

    def trial(self, may_vanish=False, **changes):
        """A daemon, not started, on a copy of the store, and its checker."""
        server = self.torture.daemon(**{**self.settings, **changes})
        shutil.copytree(self.kept, server.store)
        checker = Checker(server, self.torture.seed, may_vanish=may_vanish)
        adopt(checker, self.keys)
        checker.known = dict(self.known)
        checker.uniques = copied(self.uniques)
        return server, checker


def adopt(checker, keys):
    """Gives the checker its keys in place of those of the crash load."""
    checker.keys = keys
    checker.known = {key: None for key in keys}
    checker.random = random.Random(checker.seed)


def require(checker, where=""):
    """Raises unless nothing wrong was found."""
    if checker.wrong:
        first = "\n    ".join(f"{kind}: {text}" for kind, text in checker.wrong[:3])
        raise Mismatch(f"{where}{len(checker.wrong)} wrong ({checker.kinds()})\n    {first}")


def copied(uniques):
    """A copy: each trial goes on from the template alone."""
    fresh = Uniques()
    fresh.content_of = dict(uniques.content_of)
    fresh.unique_of = dict(uniques.unique_of)
    fresh.latest = dict(uniques.latest)
    return fresh
