"""The power goes: ext4 in a loop file is shut down under load, mounted again, and the daemon starts in another boot.

What was not synced is lost then, as on a machine that loses its power; that sectors are torn, or that a disk lies about
a flush, is not shown. At `always` everything that was answered is there; at `process` the store starts empty; with
`disk.after_power_loss = keep` old values may come back, which is what that option says.
"""

import errno
import random
import time

from crash import Checker
from crash_history import NEVER
from crash_load import Keys
from faults import FAIL, HITS
from loads import TolerantWorker, join, load
from mounts import Loop, need
from report import expect_true
from scripted import adopt, require

CUTS, SHORT_CUTS = 200, 5
WORKERS = 3
MEBIBYTES = 96
# What is answered while the power goes counts as unanswered, and the orders of such operations multiply. A daemon that
# waits for no disk answers thousands a second.
BATCHES_AFTER = 3


def run(torture):
    torture.need_root("it mounts file systems")
    need("mkfs.ext4", "xfs_io")
    cuts = torture.pick(SHORT_CUTS, CUTS)
    for level in ("always", "process", "none"):
        if torture.options.only and torture.options.only not in level:
            continue
        amount = cuts if level != "none" else max(1, cuts // 10)
        with torture.case(f"{amount} power cuts, {level}") as texts:
            with Loop(MEBIBYTES) as disk:
                texts.append(cut_again_and_again(torture, disk, level, amount))


def cut_again_and_again(torture, disk, level, cuts):
    options = ["--durability", level, "--disk-journal", "1MiB"]
    draw = random.Random(torture.seed)
    server = torture.daemon(memory="1MiB", disk="48MiB", options=options)
    server.store = disk.path + "/store"
    server.environment["TORTURE_ROOT"] = server.store
    with server:
        checker = Checker(server, torture.seed, may_vanish=level != "always")
        adopt(checker, Keys(WORKERS, small=16, large=3, counters=2, shared=0))
        kept = 0
        for number in range(cuts):
            # A flush by one client is seen by the others before it is durable: with one, only the answered count.
            clients, flush_odds = draw.choice(((WORKERS, 0), (WORKERS, 0), (1, 0.02)))
            workers = load(checker, server, draw.uniform(0.02, 0.2), clients, TolerantWorker, flush_odds)
            server.faults.put(HITS, 0)
            if draw.random() < 0.3:
                # What a failed sync did not bring to the device must not be vouched for by the next one.
                server.faults.arm(FAIL, ["sync"], draw.randint(1, 9), code=errno.EIO)
                time.sleep(draw.uniform(0, 0.1))
            for worker in workers:
                worker.batches_left = BATCHES_AFTER
            begin = time.monotonic()
            disk.cut()
            dead = time.monotonic()
            time.sleep(draw.choice((0, 0.02, 0.5)))
            server.kill()
            server.faults.disarm()
            before = f"{server.faults.hits} failed syncs, then {server.log_tail(700)}"
            operations = join(checker, workers)
            lies = forget_later(operations, begin, dead)
            # A store that was barred in time may go on in memory alone: the bar is on the device.
            may_go_on = level != "always" or server.faults.hits > 0
            expect_true(may_go_on or not lies, f"acknowledged on a dead disk: {lies[:3]}, {before}")
            # What was asked for on a dead disk can have left nothing.
            operations = [operation for operation in operations if operation.called <= dead]
            disk.remount()
            server.faults.reboot()
            hits = server.faults.hits
            server.start()
            found = checker.read_back()
            kept += sum(entry is not None for entry in found.values())
            # A store whose sync failed is given up: what it had may be lost, and must not come back older.
            checker.may_vanish = level != "always" or hits > 0
            checker.judge(operations, found)
            require(checker, f"cut {number + 1}, {level}, {before}: ")
            torture.progress(f"power cuts, {level}", number + 1, cuts)
        acknowledged = checker.counts["acknowledged"]
        expect_true(acknowledged > 5 * cuts, f"only {acknowledged} operations were acknowledged")
        if level == "always":
            expect_true(kept > 0, "nothing was ever there after a cut")
        else:
            expect_true(kept == 0, f"{kept} entries survived a cut at {level}")
        return f"{cuts} cuts, {acknowledged} acknowledged, {kept} entries found after cuts, 0 wrong"


def forget_later(operations, begin, dead):
    """With the power gone no answer gets out: what came after the cut began counts as unanswered.

    Returns the changes that were acknowledged though they were asked for on a disk that was dead already. While the
    kernel is shutting the file system down, a sync may still seem to succeed; so the time between proves nothing.
    """
    lies = []
    for operation in operations:
        if begin < operation.returned < NEVER:
            is_change = isinstance(operation.reply, str) and operation.reply in ("STORED", "DELETED", "TOUCHED", "OK")
            if is_change and operation.called > dead:
                lies.append(operation)
            operation.returned = NEVER
            operation.reply = None
    return lies
