"""Says on stderr how far a run has come, and how long it will take."""

import sys
import time


def clock(seconds):
    """Minutes and seconds."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


class Progress:
    """Steps with estimates, which are corrected by how long the steps before have taken."""

    def __init__(self, steps):
        self.steps, self.number, self.planned = steps, 0, 0.0
        self.start = time.monotonic()

    def begin(self, name):
        """Says that a step begins."""
        passed = time.monotonic() - self.start
        left = sum(seconds for _, seconds in self.steps[self.number:])
        pace = passed / self.planned if self.planned else 1
        print(f"[{self.number + 1}/{len(self.steps)}, {clock(passed)} of about {clock(passed + left * pace)}] {name}",
              file=sys.stderr, flush=True)
        self.planned += self.steps[self.number][1]
        self.number += 1

    def end(self):
        """Says how long it took."""
        print(f"[{len(self.steps)} of {len(self.steps)}, {clock(time.monotonic() - self.start)}] done", file=sys.stderr,
              flush=True)
