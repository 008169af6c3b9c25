"""A history of many clients on few keys with restarts in between, judged key by key: is there one order of events that
explains every answer?

Eight connections read, write, compare, count, touch and delete 200 keys without a pause; after some thousand operations
the daemon is killed or stopped in order and started again, every key is read back, and the search of Wing and Gong
decides for each key. Memory is small, so that many reads come from disk. The target is a million operations.
"""

import time

import crash
from crash import Checker
from crash_load import Keys
from report import expect_true

CLIENTS = 8
OPERATIONS = 1_000_000
SHORT_OPERATIONS = 15_000


def run(torture):
    wanted = torture.pick(SHORT_OPERATIONS, OPERATIONS)
    with torture.case(f"{wanted} operations of {CLIENTS} clients on 200 keys") as texts:
        settings = {"memory": "1MiB", "disk": "1GiB", "options": ["--disk-journal", "4MiB"]}
        with torture.daemon(**settings) as server:
            texts.append(judge(torture, server, wanted))


def judge(torture, server, wanted):
    workers = crash.WORKERS
    crash.WORKERS = CLIENTS
    try:
        checker = Checker(server, torture.seed, load_seconds=(0.1, 0.4))
        # Two thirds of the keys have one writer, the others all of them; together 200.
        checker.keys = Keys(CLIENTS, small=12, large=3, counters=2, shared=61)
        checker.known = {key: None for key in checker.keys}
        begin = time.monotonic()
        while checker.counts["acknowledged"] < wanted:
            checker.cycles(checker.counts["kills"] + 1)
            torture.progress("history", min(wanted, checker.counts["acknowledged"]), wanted)
            if checker.wrong:
                break
        checker.require_clean()
    finally:
        crash.WORKERS = workers
    counts = checker.counts
    rate = counts["acknowledged"] / (time.monotonic() - begin)
    expect_true(counts["reads under load"] > 0, "no reads under load")
    return (
        f"{counts['acknowledged']} operations on {len(checker.keys)} keys, {counts['kills']} kills, "
        f"{counts['clean stops']} stops, {rate:.0f}/s, 0 wrong"
    )
