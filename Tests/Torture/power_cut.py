"""The power goes: ext4 in a loop file is shut down under load, mounted again, and the daemon starts in another boot.

What was not synced is lost then, as on a machine that loses its power; that sectors are torn, or that a disk lies about
a flush, is not shown. At `always` everything that was answered is there; at `process` the store starts empty; with
`disk.after_power_loss = keep` old values may come back, which is what that option says.
"""

import random
import time

from crash import Checker
from crash_load import Keys
from loads import TolerantWorker, join, load
from mounts import Loop, need
from report import expect_true
from scripted import adopt, require

CUTS, SHORT_CUTS = 200, 5
WORKERS = 3
MEBIBYTES = 96


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
            workers = load(checker, server, draw.uniform(0.02, 0.2), WORKERS, TolerantWorker, draw.choice((0, 0, 0.01)))
            disk.cut()
            # Answers that come after the cut would be lies.
            time.sleep(0.02)
            server.kill()
            operations = join(checker, workers)
            disk.remount()
            server.faults.reboot()
            server.start()
            found = checker.read_back()
            kept += sum(entry is not None for entry in found.values())
            checker.judge(operations, found)
            require(checker, f"cut {number + 1}, {level}: ")
            torture.progress(f"power cuts, {level}", number + 1, cuts)
        acknowledged = checker.counts["acknowledged"]
        expect_true(acknowledged > 5 * cuts, f"only {acknowledged} operations were acknowledged")
        if level == "always":
            expect_true(kept > 0, "nothing was ever there after a cut")
        else:
            expect_true(kept == 0, f"{kept} entries survived a cut at {level}")
        return f"{cuts} cuts, {acknowledged} acknowledged, {kept} entries found after cuts, 0 wrong"
