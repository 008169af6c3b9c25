"""Checks the checker: it must find every lie of `lying_server.py`, every seeded bug of our daemon, and nothing in
honesty.

A crash checker that never fails proves nothing. Each lie is one check: the run ends at the first thing found wrong,
and finding nothing within the given kills fails the check. The daemon's own seeded bugs exist in debug builds only.
"""

import os
import sys

from crash import Checker
from lying_store import LIES
from report import Skipped, expect_true
from server import Daemon, Server

KILLS_HONEST = 12
KILLS_TO_FIND = 200
DAEMON_BUGS = ("ack_before_commit", "unlink_before_commit", "in_place_overwrite")


class LyingServer(Server):
    """The small Python server with one of its lies."""

    capable = frozenset({"disk", "restart"})
    name = "lying server"

    def __init__(self, lie):
        super().__init__()
        self.lie = lie
        self.store = os.path.join(self.home, "store")

    def arguments(self, port):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lying_server.py")
        return [sys.executable, script, str(port), self.store, self.lie]


def run(context):
    for lie, meaning in LIES.items():
        with context.report.case(f"{lie}: a server that {meaning}" if lie != "none" else "an honest server passes"):
            with LyingServer(lie) as server:
                judge(context, server, None if lie == "none" else lie)
    for bug in DAEMON_BUGS:
        with context.report.case(f"cache-daemon with the seeded bug {bug} is caught"):
            server = context.daemon(memory="4MiB")
            if not isinstance(server, Daemon):
                server.discard()
                raise Skipped("needs our own daemon")
            if "debug" not in os.path.realpath(server.path).split(os.sep):
                server.discard()
                raise Skipped("seeded bugs exist in debug builds only")
            server.environment["CACHE_DAEMON_SEEDED_BUG"] = bug
            with server:
                judge(context, server, bug)


def judge(context, server, bug):
    checker = Checker(server, context.seed)
    checker.cycles(KILLS_HONEST if bug is None else KILLS_TO_FIND, stop_when_wrong=bug is not None)
    if bug is None:
        checker.require_clean()
        return
    expect_true(checker.wrong, f"nothing wrong found: {checker.summary()}")
    context.report.note(f"{bug} found after {checker.counts['kills']} kills: {checker.kinds()}")
    if context.options.verbose:
        context.report.note(checker.wrong[0][1])
