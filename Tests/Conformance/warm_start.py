"""What was hot in memory comes back after a restart, in the background, bounded, announced, and never stale."""

import os
import time

import server
from clients import wait_until
from report import expect, expect_true
from service_manager import Manager

KEYS = 3000
VALUE = b"v" * 500


def run(context):
    for name, check in (
        ("hot entries are in memory after a restart, and so they are after a kill", comes_back),
        ("the hottest come first, and a full memory ends it", hottest_first),
        ("it keeps to its rate, a stop ends it at once, and the next start goes on", bounded_and_cancelled),
        ("what was written or deleted meanwhile is not brought back", never_stale),
        ("STATUS shows warm-up and sweep, the log and the metrics tell the end", progress),
        ("switched off, nothing is remembered and nothing is read", switched_off),
        ("a directory whose list is damaged starts cold and writes a new list", damaged),
    ):
        with context.report.case(name):
            check(context)


def warm(context, *options, **settings):
    """A daemon that warms up, not started."""
    daemon = context.daemon(options=["-t", "2", *options], **settings)
    daemon.warms_up = True
    return daemon


def fill(daemon, count=KEYS):
    with daemon.connect() as client:
        for number in range(count):
            client.send(b"set k%d 0 0 %d noreply\r\n%s\r\n" % (number, len(VALUE), VALUE))
        expect(client.get(b"k%d" % (count - 1)).data, VALUE, "the last entry")


def stats(daemon):
    with daemon.connect() as client:
        return {name.decode(): value.decode() for name, value in client.stats().items()}


def until_warm(daemon):
    wait_until(lambda: stats(daemon)["warm_up_state"] != "loading", 30, "the end of the warm-up")
    return stats(daemon)


def comes_back(context):
    with warm(context) as daemon:
        fill(daemon)
        expect(daemon.terminate(), 0, "the exit status")
        for how in ("SIGTERM", "kill -9"):
            daemon.start()
            found = until_warm(daemon)
            expect((found["warm_up_state"], found["warm_up_loaded"]), ("done", str(KEYS)), f"after {how}: {found}")
            with daemon.connect() as client:
                for number in range(KEYS):
                    expect(client.get(b"k%d" % number).data, VALUE, f"k{number}")
            found = stats(daemon)
            expect((found["memory_hits"], found["disk_hits"]), (str(KEYS), "0"), f"where they were, after {how}")
            daemon.kill()


def hottest_first(context):
    """A third of the entries fits; those that were read last are among them."""
    with warm(context, memory="8MiB") as daemon:
        fill(daemon, 6 * KEYS)
        time.sleep(2.1)  # the list is in order to the second
        with daemon.connect() as client:
            for number in range(200):
                client.get(b"k%d" % number)
        expect(daemon.terminate(), 0, "the exit status")
        daemon.memory = "4MiB"
        daemon.start()
        found = until_warm(daemon)
        share = int(found["memory_bytes"]) / int(found["memory_limit_bytes"])
        expect_true(0.75 < share < 0.95, f"it stopped at {share:.2f} of memory: {found}")
        expect(found["evictions"], "0", "evictions")
        expect_true(int(found["warm_up_looked_up"]) < int(found["warm_up_listed"]), "it ended before the list")
        with daemon.connect() as client:
            for number in range(200):
                client.get(b"k%d" % number)
        expect(stats(daemon)["memory_hits"], "200", "the hottest are in memory")


def bounded_and_cancelled(context):
    with warm(context) as daemon:
        fill(daemon)
        daemon.terminate()
        daemon.options += ["--warm-up-rate", "64KiB"]
        begin = time.monotonic()
        daemon.start()
        wait_until(lambda: int(stats(daemon)["warm_up_looked_up"]) > 0, 10, "a look-up")
        with daemon.connect() as client:
            expect(client.get(b"k2999").data, VALUE, "served meanwhile")
        found = stats(daemon)
        seconds = time.monotonic() - begin
        # Each lookup counts as its entry and 1 KiB more; a batch of 32 may be ahead.
        most = 64 * 1024 * (seconds + 0.1) / 1024 + 64
        expect_true(int(found["warm_up_looked_up"]) <= most, f"{found['warm_up_looked_up']} in {seconds:.2f} s")
        expect(daemon.terminate(), 0, "the exit status")
        daemon.options = daemon.options[:-2]
        daemon.start()
        found = until_warm(daemon)
        expect((found["warm_up_listed"], found["warm_up_loaded"]), (str(KEYS), str(KEYS)), "the rest was kept")


def never_stale(context):
    with warm(context) as daemon:
        fill(daemon)
        daemon.terminate()
        daemon.options += ["--warm-up-rate", "512KiB"]
        daemon.start()
        gone = 0
        with daemon.connect() as client:
            for number in range(0, KEYS, 3):
                client.set(b"k%d" % number, b"new")
                expect(client.command(b"delete k%d" % (number + 1)), b"DELETED", f"k{number + 1}")
        found = until_warm(daemon)
        expect_true(int(found["warm_up_loaded"]) > 0, f"{found}")
        with daemon.connect() as client:
            for number in range(0, KEYS, 3):
                expect(client.get(b"k%d" % number).data, b"new", f"k{number}")
                gone += client.get(b"k%d" % (number + 1)) is None
                expect(client.get(b"k%d" % (number + 2)).data, VALUE, f"k{number + 2}")
        expect(gone, KEYS // 3, "deleted keys that are gone")


def orphans(daemon, count):
    """Value files of an earlier start that no entry refers to, as kills leave them."""
    for number in range(count):
        name = f"{number + (1 << 30):016x}"
        path = os.path.join(daemon.store, "store", "v", name[-2:], name)
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "w"):
            pass


def progress(context):
    with Manager(False) as manager, warm(context, "--admin", f"127.0.0.1:{server.free_port()}") as daemon:
        fill(daemon)
        daemon.terminate()
        orphans(daemon, 6000)
        daemon.environment["NOTIFY_SOCKET"] = manager.address
        daemon.options += ["--warm-up-rate", "1MiB"]
        daemon.start()
        expect_true("sweeping, " in manager.wait_for("READY=1")["STATUS"], f"the sweep: {manager.messages}")
        expect_true("warming up, " in manager.wait_for_status(f" of {KEYS} entries"), "the warm-up")
        until_warm(daemon)
        text = manager.wait_for_status("serving")
        while "warming" in text or "sweeping" in text:
            text = manager.wait_for_status("serving")
        expect_true(text.startswith("STATUS=serving"), f"nothing is left to do: {text!r}")
        wait_until(lambda: "warm-up state=done" in daemon.log_tail(), 10, "a line in the log")
        found = stats(daemon)
        expect((found["disk_orphans_removed"], found["disk_sweep_percent"]), ("6000", "100"), "the sweep's end")
        expect(daemon.log_tail().count("warm-up state="), 1, "lines about it")


def switched_off(context):
    with warm(context) as daemon:
        fill(daemon)
        daemon.terminate()
        expect_true(os.path.exists(os.path.join(daemon.store, "hot")), "the list")
        daemon.warms_up = False
        before = os.stat(os.path.join(daemon.store, "hot")).st_mtime_ns
        daemon.start()
        found = stats(daemon)
        expect((found["warm_up_state"], found["memory_entries"]), ("off", "0"), "memory")
        daemon.terminate()
        expect(os.stat(os.path.join(daemon.store, "hot")).st_mtime_ns, before, "the list is left alone")


def damaged(context):
    with warm(context) as daemon:
        fill(daemon)
        daemon.terminate()
        path = os.path.join(daemon.store, "hot")
        with open(path, "r+b") as file:
            file.seek(100)
            byte = file.read(1)
            file.seek(100)
            file.write(bytes([byte[0] ^ 1]))
        daemon.start()
        found = until_warm(daemon)
        expect((found["warm_up_listed"], found["memory_entries"]), ("0", "0"), "a damaged list")
        with daemon.connect() as client:
            expect(client.get(b"k1").data, VALUE, "served from disk")
        daemon.terminate()
        daemon.start()
        expect(until_warm(daemon)["warm_up_loaded"], "1", "what was hot in that run")
