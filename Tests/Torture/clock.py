"""The civil clock jumps while the daemon runs: nothing in memory expires early, nothing lives longer than it should.

The shim shifts what the daemon reads as civil time; the boot clock stays. Jumps across a restart are among the drills.
"""

import time

from drills import SMALL, ttl_of, value
from report import expect, expect_true
from scripted import wait_drained

JUMPS = (3600, -3600, 86_400 * 3650, -86_400 * 3650)
TTL = 500


def run(torture):
    with torture.case("jumps of an hour and of ten years while running") as texts:
        with torture.daemon(memory="2MiB") as server:
            for jump in JUMPS:
                live_jump(server, jump)
        texts.append(f"{len(JUMPS)} jumps, 0 early, 0 late")
    with torture.case("an entry expires at its time under a jumping clock") as texts:
        with torture.daemon() as server:
            expires_in_time(server)
        texts.append("expired after its 2 s")
    with torture.case("a clock that is set forward across a restart, and across a boot") as texts:
        for is_booted in (False, True):
            with torture.daemon() as server:
                forward_across_restart(server, is_booted)
        texts.append("in one boot it moves no deadline; after another, what was over is gone, the rest is there")


def live_jump(server, jump):
    with server.connect() as connection:
        names = [b"key-%d" % number for number in range(40)]
        for name in names:
            expect(connection.set(name, value(name, 1, SMALL), 0, TTL), b"STORED", "set")
        server.faults.shift_clock(jump)
        check_ttls(connection, names, f"in memory after {jump} s")
        # Out of memory, so that the deadline comes back from the disk.
        for number in range(60):
            connection.set(b"churn-%d" % number, b"x" * 60_000)
        wait_drained(server)
        check_ttls(connection, names, f"from disk after {jump} s")
        for name in names[:5]:
            expect(connection.command(b"touch %s %d" % (name, TTL)), b"TOUCHED", "touch")
        check_ttls(connection, names, f"touched after {jump} s")
        server.faults.shift_clock(0)
        check_ttls(connection, names, f"after {jump} s and back")


def check_ttls(connection, names, when):
    for name in names:
        left = ttl_of(connection, name)
        expect_true(left is not None and TTL - 60 < left <= TTL, f"{name!r} has {left} s of {TTL} {when}")


def expires_in_time(server):
    with server.connect() as connection:
        expect(connection.set(b"short", b"x", 0, 2), b"STORED", "set")
        begin = time.monotonic()
        for jump in (-7200, 7200, -86_400 * 3650, 0):
            server.faults.shift_clock(jump)
            expect_true(connection.get(b"short") is not None or time.monotonic() - begin > 2, "expired early")
        while connection.get(b"short") is not None:
            expect_true(time.monotonic() - begin < 4, "still there after twice its time")
            time.sleep(0.02)
        expect_true(time.monotonic() - begin >= 2, "expired early")


def forward_across_restart(server, is_booted):
    with server.connect() as connection:
        for name, ttl in ((b"over", 1000), (b"left", 10_000), (b"for-ever", 0)):
            expect(connection.set(name, value(name, 1, SMALL), 0, ttl), b"STORED", "set")
    wait_drained(server)
    expect(server.terminate(), 0, "exit status after SIGTERM")
    server.faults.shift_clock(3600)
    if is_booted:
        server.faults.reboot()
    server.start()
    passed = 3600 if is_booted else 0
    with server.connect() as connection:
        left = ttl_of(connection, b"over")
        expect(left is None, is_booted, f"an entry of 1000 s is gone, with {left} s left")
        left = ttl_of(connection, b"left")
        most = 10_000 - passed
        expect_true(left is not None and most - 400 < left <= most, f"{left} s are left of 10000 - {passed}")
        expect_true(connection.get(b"for-ever") is not None, "an entry without a deadline")
