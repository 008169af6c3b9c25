"""What each part of the torture gets: the options, daemons with faults, progress lines and the summary table."""

import os
import sys
import time
from contextlib import contextmanager

import faults
import server
from report import Skipped


class Torture:
    """One run. A part asks `short` how much it may do, and notes its figures with `figure`."""

    def __init__(self, options, report):
        self.options = options
        self.report = report
        self.seed = options.seed
        self.short = options.short
        self.path = server.find_daemon(options.daemon)
        self.rows = []
        self.shown = 0.0

    def daemon(self, **settings):
        """Our daemon with the shim loaded, not started."""
        if not self.path or not os.access(self.path, os.X_OK):
            raise Skipped("cache-daemon is not built (set CACHE_DAEMON)")
        return faults.FaultyDaemon(self.path, **settings)

    def pick(self, short, full):
        """The amount of work: `full` times --share, or the short form's."""
        return short if self.short else max(1, round(full * self.options.share))

    def need_root(self, why):
        if os.geteuid() != 0:
            raise Skipped(f"needs root: {why}")

    def progress(self, text, done=None, total=None):
        """One line now and then; on a terminal it stays in place."""
        now = time.monotonic()
        if total:
            text = f"{text}: {done}/{total} ({100 * done // total} %)"
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{text} ")
            sys.stderr.flush()
        elif now - self.shown > 15:
            self.report.note(text)
        else:
            return
        self.shown = now

    def figure(self, name, text, seconds):
        """A row of the summary."""
        self.rows.append((self.report.suite, name, text, seconds))
        if sys.stderr.isatty():
            sys.stderr.write("\r\x1b[K")
        self.report.note(f"{name}: {text} ({seconds:.1f} s)")

    @contextmanager
    def case(self, name):
        """One check whose figures, appended to the list that it yields, become a row of the summary."""
        texts = []
        begin = time.monotonic()
        failed, skipped = self.report.failed, self.report.skipped
        with self.report.case(name):
            yield texts
        state = "FAILED" if self.report.failed > failed else "skipped" if self.report.skipped > skipped else "ok"
        self.figure(name, f"{state}; " + (", ".join(texts) or "-"), time.monotonic() - begin)

    def table(self):
        """All rows, aligned."""
        if not self.rows:
            return
        part = max(len(row[0]) for row in self.rows)
        name = max(len(row[1]) for row in self.rows)
        self.report.line("")
        for row in self.rows:
            self.report.line(f"{row[0]:{part}}  {row[1]:{name}}  {row[3]:7.1f} s  {row[2]}")
