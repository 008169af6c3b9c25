"""Counts and prints checks: one line per check, one total line at the end.

A check is a `with report.case("sentence"):` block. It passes when the block ends, fails when the block raises, and is
skipped when the block raises `Skipped`. Failures never stop a suite: the next check runs. The report belongs to the
main thread; worker threads of a suite hand their findings to it after they have been joined.
"""

import sys
import time
import traceback
from contextlib import contextmanager


class Mismatch(Exception):
    """What was seen is not what the contract says."""


class Skipped(Exception):
    """The check needs something that is not here; the text says what."""


def expect(actual, wanted, what):
    """Raises `Mismatch` unless the two are equal; long values are shortened in the message."""
    if actual != wanted:
        raise Mismatch(f"{what}: expected {brief(wanted)}, got {brief(actual)}")


def expect_true(condition, what):
    """Raises `Mismatch` with `what` unless the condition holds."""
    if not condition:
        raise Mismatch(what)


def brief(value, limit=160):
    """The value in at most about `limit` characters, with its length when it was cut."""
    text = repr(value)
    if len(text) <= limit:
        return text
    size = f" ({len(value)} long)" if hasattr(value, "__len__") else ""
    return f"{text[:limit]}...{size}"


class Report:
    """The counters of one run. `suite` is the prefix of the lines printed now."""

    def __init__(self, output=sys.stdout):
        self.output = output
        self.suite = ""
        self.passed = 0
        self.failed = 0
        self.skipped = 0

    def line(self, text):
        """Prints one line at once, so that a run that hangs shows where."""
        self.output.write(text + "\n")
        self.output.flush()

    def note(self, text):
        """A figure or remark that is neither passed nor failed."""
        self.line(f"note {self.suite}: {text}")

    def skip(self, name, reason):
        self.skipped += 1
        self.line(f"skip {self.suite}: {name} - {reason}")

    def fail(self, name, reason):
        self.failed += 1
        self.line(f"FAIL {self.suite}: {name} - {reason}")

    def ok(self, name, seconds=None):
        self.passed += 1
        spent = f" ({seconds:.1f} s)" if seconds is not None and seconds >= 1 else ""
        self.line(f"ok   {self.suite}: {name}{spent}")

    @contextmanager
    def case(self, name):
        """One check. Everything but a request to stop the whole run is turned into a line."""
        begin = time.monotonic()
        try:
            yield
        except Skipped as reason:
            self.skip(name, str(reason))
        except Mismatch as reason:
            self.fail(name, str(reason))
        except Exception as error:  # an unforeseen error is a failed check, not the end of the run
            place = traceback.extract_tb(error.__traceback__)[-1]
            self.fail(name, f"{type(error).__name__}: {error} ({place.name}, line {place.lineno})")
        else:
            self.ok(name, time.monotonic() - begin)

    def total(self):
        """The last line of a run; the exit status to use."""
        self.line(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped")
        return 1 if self.failed else 0
