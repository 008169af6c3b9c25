"""What operators and their tools touch: stats, sockets, flags of the command line, limits, signals."""

import os
import signal
import subprocess
import threading
import time
from contextlib import contextmanager

from connection import Closed, Connection
from report import Skipped, expect, expect_true

STATS = """pid uptime time version libevent pointer_size rusage_user rusage_system max_connections curr_connections
total_connections rejected_connections cmd_get cmd_set cmd_flush cmd_touch cmd_meta get_hits get_misses get_expired
get_flushed delete_misses delete_hits incr_misses incr_hits decr_misses decr_hits cas_misses cas_hits cas_badval
touch_hits touch_misses store_too_large store_no_memory bytes_read bytes_written limit_maxbytes accepting_conns
listen_disabled_num threads bytes curr_items total_items expired_unfetched evicted_unfetched evictions
reclaimed""".split()
OUR_STATS = """memory_entries memory_bytes memory_limit_bytes disk_state disk_entries disk_bytes disk_limit_bytes
disk_value_bytes disk_file_entries disk_file_bytes disk_index_bytes disk_wal_bytes journal_bytes journal_used_bytes
memory_hits disk_hits misses promotions evictions expirations disk_evictions disk_expirations disk_write_errors
disk_read_errors""".split()
SETTINGS = "maxbytes maxconns tcpport evictions num_threads cas_enabled item_size_max verbosity".split()


def run(context):
    report = context.report
    with context.target() as server:
        with report.case("stats has memcached's names, with numbers that the Prometheus exporter can read"):
            stats_names(server)
        with report.case("stats settings, items, slabs, sizes, conns and reset answer as tools expect"):
            stats_groups(server)
        with report.case("stats counts what was done"):
            stats_counts(server)
    with report.case("a connection over the limit is told so and closed; a free place is used again"):
        connection_limit(context)
    with report.case("the meta commands are there"):
        with context.target() as server, server.connect() as connection:
            for line, answer in ((b"mn", b"MN"), (b"mg absent", b"EN"), (b"md absent", b"NF"), (b"me absent", b"EN")):
                expect(connection.command(line), answer, f"answer to {line.decode()}")
    if context.options.against != "ours" or context.options.server:
        return
    with report.case("stats has the names of both tiers"):
        with context.daemon() as server, server.connect() as connection:
            stats = {name.decode() for name in connection.stats()}
            expect([name for name in OUR_STATS if name not in stats], [], "missing names")
    with report.case("memcached's short flags and a Unix socket work"):
        short_flags(context)
    with report.case("a bad option or value is refused with a reason and exit status 78, and nothing is opened"):
        bad_options(context)
    with report.case("SIGTERM under load answers what it took, exits 0 and keeps what it answered"):
        stop_under_load(context)
    with report.case("without a disk tier everything works and nothing is written"):
        no_disk(context)


def stats_names(server):
    with server.connect() as connection:
        connection.set(b"a", b"b")
        stats = {name.decode(): value for name, value in connection.stats().items()}
    missing = [name for name in STATS if name not in stats]
    if server.dialect == "old":
        missing = []
    expect(missing, [], "missing names")
    expect_true(stats["version"].startswith(b"1.6."), f"version is {stats['version']!r}")
    for name, value in stats.items():
        if name in ("rusage_user", "rusage_system"):
            seconds, _, rest = value.partition(b".")
            expect_true(
                seconds.isdigit() and len(rest) == 6 and rest.isdigit(), f"{name} is {value!r}, not like 1.234567"
            )
        elif name in STATS and name not in ("version", "libevent"):
            expect_true(value.isdigit(), f"{name} is {value!r}, which is no number")


def stats_groups(server):
    with server.connect() as connection:
        connection.set(b"a", b"b")
        settings = {name.decode() for name in connection.stats(b"settings")}
        expect([name for name in SETTINGS if name not in settings], [], "missing names of stats settings")
        for group in (b"items", b"slabs", b"sizes", b"conns"):
            connection.stats(group)
        slabs = connection.stats(b"slabs")
        expect_true(b"active_slabs" in slabs and b"total_malloced" in slabs, "stats slabs has its two totals")
        connection.send(b"stats \r\n")
        expect_true(
            connection.line().startswith(b"STAT pid "), "stats with a space at the end, as libmemcached sends it"
        )
        while connection.line() != b"END":
            pass
        expect(connection.command(b"stats nonsense"), b"ERROR", "stats nonsense")
        connection.get(b"a")
        expect(connection.command(b"stats reset"), b"RESET", "stats reset")
        stats = connection.stats()
        expect((stats[b"get_hits"], stats[b"cmd_set"]), (b"0", b"0"), "get_hits and cmd_set after the reset")
        expect_true(int(stats[b"curr_items"]) >= 1, "curr_items is not reset")


def stats_counts(server):
    with server.connect() as connection:
        connection.command(b"flush_all")
        connection.command(b"stats reset")
        for number in range(10):
            connection.set(b"key-%d" % number, b"1")
        connection.many([b"key-%d" % number for number in range(15)])
        connection.command(b"gat 100 key-1 key-99")
        while connection.line() != b"END":
            pass
        for line in (
            b"touch key-1 100",
            b"touch none 1",
            b"incr key-1 1",
            b"incr none 1",
            b"decr key-1 1",
            b"decr none 1",
            b"delete key-2",
            b"delete key-2",
        ):
            connection.command(line)
        unique = connection.gets(b"key-3").cas
        connection.store(b"cas", b"key-3", b"2", unique=unique)
        connection.store(b"cas", b"key-3", b"3", unique=unique)
        connection.store(b"cas", b"none", b"3", unique=unique)
        stats = connection.stats()
    for name, wanted in (
        ("cmd_get", 16),
        ("get_hits", 11),
        ("get_misses", 5),
        ("cmd_touch", 4),
        ("touch_hits", 2),
        ("touch_misses", 2),
        ("incr_hits", 1),
        ("incr_misses", 1),
        ("decr_hits", 1),
        ("decr_misses", 1),
        ("delete_hits", 1),
        ("delete_misses", 1),
        ("cas_hits", 1),
        ("cas_badval", 1),
        ("cas_misses", 1),
        ("cmd_set", 13),
    ):
        expect(int(stats[name.encode()]), wanted, name)


def connection_limit(context, limit=100):
    if context.options.server:
        raise Skipped("needs a server of its own")
    with (
        context.target(options=["-c", str(limit)])
        if context.options.against == "ours"
        else context.memcached(options=["-c", str(limit)]) as server
    ):
        time.sleep(0.1)  # the probe of the start is closed, but the server may not have seen it yet
        held = []
        try:
            refused = 0
            for _ in range(limit + 10):
                connection = server.connect()
                held.append(connection)
                connection.send(b"version\r\n")
                try:
                    line = connection.line()
                except Closed:
                    line = b""
                if not line.startswith(b"VERSION"):
                    expect(line, b"ERROR Too many open connections", "what a connection over the limit is told")
                    refused += 1
            expect_true(
                8 <= refused <= 12 if server.dialect == "ours" else refused >= 8,
                f"{refused} of {limit + 10} connections refused with a limit of {limit}",
            )
            stats = held[0].stats()
            expect_true(
                int(stats[b"rejected_connections"]) >= refused, f"rejected_connections counts {refused} at least"
            )
            for connection in held[1:5]:
                connection.close()
            deadline = time.monotonic() + 5
            while True:
                with server.connect() as again:
                    again.send(b"version\r\n")
                    if again.line().startswith(b"VERSION"):
                        break
                expect_true(time.monotonic() < deadline, "a free place is used again within 5 s")
                time.sleep(0.02)
        finally:
            for connection in held:
                connection.close()


def short_flags(context):
    with memcached_style(context, "-m 32 -c 100 -t 2 -I 2m") as (server, _), server.connect() as connection:
        stats = connection.stats()
        expect(stats[b"limit_maxbytes"], b"%d" % (32 << 20), "limit_maxbytes after -m 32")
        expect(stats[b"max_connections"], b"100", "max_connections after -c 100")
        expect(connection.set(b"a", bytes(2 << 20)), b"STORED", "a value of 2 MiB after -I 2m")
        expect(connection.set(b"a", bytes((2 << 20) + 1)), b"SERVER_ERROR object too large for cache", "one byte more")
    with memcached_style(context, "-s {socket}") as (server, path):
        with Connection(path) as one:
            expect(one.set(b"a", b"b"), b"STORED", "set over a Unix socket")
            expect(one.get(b"a").data, b"b", "get over a Unix socket")


@contextmanager
def memcached_style(context, flags):
    """Our daemon started with memcached's flags alone; also the path that `{socket}` in the flags stands for."""
    server = context.daemon()
    path = os.path.join(server.home, "socket")
    words = flags.replace("{socket}", path).split()
    server.arguments = lambda port: [
        server.path,
        "-p",
        str(port),
        "-l",
        "127.0.0.1",
        "-U",
        "0",
        *words,
        "--dir",
        server.store,
    ]
    try:
        server.launch()
        if path in words:
            server.address = path
        server.wait_ready()
        yield server, path
    finally:
        server.kill()
        server.discard()


def bad_options(context):
    for arguments in (
        ["--nonsense"],
        ["--memory", "12 parsecs"],
        ["--memory", "99999999999999999999GiB"],
        ["-U", "11211"],
        ["--durability", "sometimes"],
        ["-p", "70000"],
        ["-t", "0"],
        ["--config", "/nonexistent/file"],
    ):
        server = context.daemon()
        try:
            done = subprocess.run(
                [server.path, "--dir", server.store, *arguments],
                capture_output=True,
                text=True,
                timeout=10,
                stdin=subprocess.DEVNULL,
                check=False,
            )
            expect(
                done.returncode, 78, f"exit status of cache-daemon {' '.join(arguments)} ({done.stderr.strip()[:100]})"
            )
            expect_true(done.stderr.strip() != "", f"a reason for refusing {arguments}")
            expect(os.path.exists(server.store), False, f"the directory was made in spite of {arguments}")
        finally:
            server.discard()
    server = context.daemon()
    server.discard()
    for flag in ("--version", "-V", "--help", "-h"):
        done = subprocess.run([server.path, flag], capture_output=True, text=True, timeout=10, check=False)
        expect(done.returncode, 0, f"exit status of {flag}")
        expect_true(done.stdout != "", f"{flag} prints something")


def stop_under_load(context):
    with context.daemon() as server:
        stored = []

        def load(number):
            try:
                with Connection(server.address) as connection:
                    for count in range(10**9):
                        key = b"%d-%d" % (number, count)
                        if connection.set(key, key * 20) != b"STORED":
                            return
                        stored.append(key)
            except (OSError, Closed):
                pass

        threads = [threading.Thread(target=load, args=(number,), daemon=True) for number in range(4)]
        for thread in threads:
            thread.start()
        while len(stored) < 500:
            time.sleep(0.005)
        server.process.send_signal(signal.SIGTERM)
        expect(server.process.wait(20), 0, "exit status")
        for thread in threads:
            thread.join(10)
        server.start()
        with server.connect() as connection:
            missing = 0
            for begin in range(0, len(stored), 100):
                keys = stored[begin : begin + 100]
                found = connection.many(keys)
                missing += sum(key not in found or found[key].data != key * 20 for key in keys)
            expect(missing, 0, f"entries of {len(stored)} that were stored and are not there")


def no_disk(context):
    server = context.daemon(options=["--no-disk"])
    with server:
        with server.connect() as connection:
            expect(connection.set(b"a", b"b" * 50_000, 3, 100), b"STORED", "set")
            expect(connection.get(b"a").data, b"b" * 50_000, "get")
            expect(connection.command(b"flush_all"), b"OK", "flush_all")
            expect(connection.get(b"a"), None, "get after flush_all")
        expect(os.path.exists(server.store), False, "the directory exists")
        expect(server.terminate(), 0, "exit status")
