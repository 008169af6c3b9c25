"""The load of the crash checker in two variations: without noreply, and against a server that may refuse."""

import random
import time

from crash_history import NEVER
from crash_load import Worker


class LoudWorker(Worker):
    """Asks for every reply, and keeps to keys of its own.

    At durability `always` only what was answered is promised: a noreply is not, nor is a value that somebody else has
    seen before its writer had the answer.
    """

    def draw(self):
        operation, request, is_silent = super().draw()
        while operation.key in self.keys.shared:
            operation, request, is_silent = super().draw()
        if is_silent:
            request = request.replace(b" noreply\r\n", b"\r\n", 1)
        return operation, request, False


class TolerantWorker(LoudWorker):
    """Takes SERVER_ERROR for an answer that leaves open what became of the operation; measures gets."""

    slowest_get = 0.0
    refusals = 0
    answered_gets = 0
    # How many more batches it sends; None: as many as it can.
    batches_left = None

    def exchange(self, connection):
        if self.batches_left is not None:
            if self.batches_left == 0:
                self.stopping = True
                return
            self.batches_left -= 1
        before = len(self.operations)
        begin = time.monotonic()
        try:
            super().exchange(connection)
        finally:
            self.note(self.operations[before:], time.monotonic() - begin)

    def note(self, batch, spent):
        """Takes what was refused out of what is certain; measures batches of gets."""
        for operation in batch:
            if isinstance(operation.reply, str) and operation.reply.startswith("SERVER_ERROR"):
                operation.returned = NEVER
                operation.reply = None
                self.refusals += 1
        if all(operation.kind == "get" for operation in batch):
            self.slowest_get = max(self.slowest_get, spent)
            self.answered_gets += len(batch)
        self.problems = [problem for problem in self.problems if problem[0] != "refused"]


def load(checker, server, seconds, workers, kind=LoudWorker, flush_odds=0.0):
    """Runs the workers for some time; returns them, still running: stop the server or call `join`."""
    made = [
        kind(number, server.address, checker.keys, checker.uniques, random.getrandbits(60), flush_odds)
        for number in range(workers)
    ]
    for worker in made:
        worker.start()
    time.sleep(seconds)
    return made


def join(checker, workers):
    """Ends the workers and returns what they did."""
    for worker in workers:
        worker.stopping = True
    for worker in workers:
        worker.join(30)
        checker.wrong += worker.problems
    return [operation for worker in workers for operation in worker.operations]
