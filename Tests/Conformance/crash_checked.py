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
# What each seeded bug must show itself as; anything else that is found is another bug and proves nothing.
DAEMON_BUGS = {
    "ack_before_commit": {"lost", "stale", "resurrected", "wrong-ttl"},
    "unlink_before_commit": {"lost", "torn"},
    "in_place_overwrite": {"lost", "torn", "stale"},
}


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
    for bug, kinds in DAEMON_BUGS.items():
        with context.report.case(f"cache-daemon with the seeded bug {bug} is caught"):
            seeded(context, bug, kinds)


def seeded(context, bug, kinds):
    """Our daemon with one of its seeded bugs. A build that has them names the bug in its log when it starts."""
    server = context.daemon(memory="4MiB")
    if not isinstance(server, Daemon):
        server.discard()
        raise Skipped("needs our own daemon")
    server.environment["CACHE_DAEMON_SEEDED_BUG"] = bug
    with server:
        if bug not in server.log_tail(4000):
            raise Skipped("this build has no seeded bugs: the log does not name it")
        judge(context, server, bug, kinds)


def judge(context, server, bug, kinds=None):
    checker = Checker(server, context.seed)
    if bug is None:
        checker.cycles(KILLS_HONEST)
        checker.require_clean()
        return
    while checker.counts["kills"] < KILLS_TO_FIND and not (kinds or checker.kinds().keys()) & checker.kinds().keys():
        checker.cycles(checker.counts["kills"] + 1)
    found = set(checker.kinds())
    expect_true(found & kinds if kinds else found, f"not found: {checker.summary()}")
    context.report.note(f"{bug} found after {checker.counts['kills']} kills: {checker.kinds()}")
    if context.options.verbose:
        context.report.note(checker.wrong[0][1])
