"""Tools that operators already have: Debian's memcached-tool in all its modes, memcdump, the Prometheus exporter's
needs, and programs that read key dumps and watch streams.

The exporter itself is not in Debian. Its needs are written down here as prometheus/memcached_exporter (pkg/exporter,
2026) has them: which names it reads, which must be there, and how it parses each of them.
"""

import os
import re
import shutil
import subprocess
import threading
import time

from connection import Closed, Connection
from report import Skipped, expect, expect_true

TOOL = "/usr/share/memcached/scripts/memcached-tool"

# Names that the exporter reads as floats from `stats`; without those of NEEDED it reports the server as down.
NEEDED = "cmd_set cas_misses cas_hits cas_badval".split()
READ = """get_hits get_misses delete_hits delete_misses incr_hits incr_misses decr_hits decr_misses touch_hits
touch_misses uptime time cmd_flush bytes limit_maxbytes curr_items total_items bytes_read bytes_written
curr_connections total_connections rejected_connections conn_yields listen_disabled_num evictions reclaimed
store_too_large store_no_memory lru_crawler_starts direct_reclaims crawler_reclaimed accepting_conns""".split()
EXTSTORE = """extstore_objects_evicted extstore_objects_read extstore_objects_written extstore_objects_used
extstore_bytes_evicted extstore_bytes_written extstore_bytes_read extstore_bytes_used extstore_bytes_fragmented
extstore_limit_maxbytes extstore_io_queue""".split()
TIMES = "rusage_user rusage_system".split()
# With `lru_crawler yes` it reads these too: numbers, and words that are yes or no.
CRAWLER = "lru_crawler_sleep lru_crawler_tocrawl hot_lru_pct warm_lru_pct hot_max_factor warm_max_factor".split()
CRAWLER_WORDS = "lru_crawler lru_maintainer_thread".split()
ITEMS = """number age evicted evicted_nonzero evicted_time evicted_unfetched expired_unfetched outofmemory
reclaimed""".split()
SLABS = """chunk_size chunks_per_page total_pages total_chunks used_chunks free_chunks free_chunks_end cmd_set get_hits
delete_hits incr_hits decr_hits cas_hits cas_badval touch_hits""".split()


def run(context):
    report = context.report
    with context.target() as server:
        fill(server)
        for mode, check in MODES:
            with report.case(f"memcached-tool {mode}"):
                check(memcached_tool(server, *mode.split()))
        with report.case("memcdump lists every key"):
            memcdump(server)
        with report.case("the Prometheus exporter finds every name that it needs, and can parse it"):
            exporter(server)
    if context.options.against != "ours" or context.options.server:
        return
    with report.case("tools list what only the disk knows: metadump, memcdump and memcached-tool after a restart"):
        after_restart(context)
    with report.case("a dump of 200,000 keys under load shows each key once, and nobody waits for it"):
        dump_under_load(context)
    with report.case("a reader of watch sees every change in order while it keeps up"):
        watch_in_order(context)


def fill(server):
    with server.connect() as connection:
        connection.command(b"flush_all")
        for number in range(20):
            connection.set(b"key-%d" % number, b"value-%d" % number, number, 0 if number % 2 else 3600)
        connection.set(b"big", bytes(30_000))
        connection.get(b"key-1")


def memcached_tool(server, *arguments):
    if not os.access(TOOL, os.R_OK) or not shutil.which("perl"):
        raise Skipped("memcached-tool is not installed (memcached, perl)")
    if isinstance(server.address, str):
        raise Skipped("needs TCP")
    host, port = server.address
    done = subprocess.run(
        ["perl", TOOL, f"{host}:{port}", *arguments],
        capture_output=True,
        timeout=20,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    expect(done.returncode, 0, f"exit status ({done.stderr[:100]!r})")
    return done.stdout.decode("latin-1")


def display(text):
    lines = text.splitlines()
    expect(lines[0].split(), "# Item_Size Max_age Pages Count Full? Evicted Evict_Time OOM".split(), "heading")
    counts = [int(line.split()[4]) for line in lines[1:]]
    expect(sum(counts), 21, "entries in all classes")


def two_columns(*names):
    def check(text):
        found = {line.split()[0]: line.split()[1] for line in text.splitlines()[1:] if len(line.split()) > 1}
        expect([name for name in names if name not in found], [], "missing names")

    return check


def dump(text):
    adds = re.findall(r"^add (\S+) (\d+) (\d+) (\d+)\r\n", text, re.MULTILINE)
    expect(sorted(add[0] for add in adds), sorted([f"key-{number}" for number in range(20)] + ["big"]), "keys")
    by_key = {add[0]: add for add in adds}
    expect(by_key["key-7"][1:], ("7", "0", "7"), "flags, expiry and length of key-7")
    expect_true(int(by_key["key-8"][2]) > 1_600_000_000, "key-8 has a Unix time as expiry")


def some_adds(text):
    expect_true(0 < text.count("add ") <= 21, f"{text.count('add ')} keys with a limit of 5")


def keys(text):
    line = r"^key=(\S+) exp=(-?\d+) la=(\d+) cas=(\d+) fetch=(yes|no) cls=(\d+) size=(\d+)"
    found = re.findall(line, text, re.MULTILINE)
    expect(sorted(key[0] for key in found), sorted([f"key-{number}" for number in range(20)] + ["big"]), "keys")
    expect({key[0]: key[4] for key in found}["key-1"], "yes", "fetch of key-1, which was read")


MODES = (
    ("display", display),
    ("stats", two_columns("pid", "version", "curr_items", "cmd_get", "evictions")),
    ("settings", two_columns("maxbytes", "maxconns", "item_size_max", "evictions")),
    ("sizes", two_columns("sizes_status")),
    ("dump", dump),
    ("dump 5", some_adds),
    ("keys", keys),
    ("keys 5", lambda text: expect_true("key=" in text, "some keys")),
)


def memcdump(server):
    if not shutil.which("memcdump"):
        raise Skipped("memcdump is not installed (libmemcached-tools)")
    host, port = server.address
    done = subprocess.run(
        ["memcdump", f"--servers={host}:{port}"],
        capture_output=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    found = set(done.stdout.split())
    wanted = {b"key-%d" % number for number in range(20)} | {b"big"}
    # memcached shows the entries of one of its LRU lists only.
    if server.dialect != "ours":
        return expect_true(found and found <= wanted, f"memcdump shows {found}")
    return expect(found, wanted, "keys that memcdump shows")


def exporter(server):
    with server.connect() as connection:
        stats = connection.stats()
        settings = connection.stats(b"settings")
        items = connection.stats(b"items")
        slabs = connection.stats(b"slabs")
    wanted = NEEDED + READ
    if b"extstore_limit_maxbytes" in stats:
        wanted = wanted + EXTSTORE
    if server.dialect == "old":
        wanted = [name for name in wanted if name.encode() in stats]
    for name in wanted:
        expect_true(name.encode() in stats, f"{name} is missing")
        float(stats[name.encode()])
    for name in TIMES:
        expect_true(re.fullmatch(rb"\d+\.\d{6}", stats[name.encode()]) is not None, f"{name} is not like 1.234567")
    # Its client takes the word behind the name; a second one would be lost.
    expect([name for name, value in stats.items() if b" " in value], [], "values with spaces")
    float(settings[b"maxconns"])
    if settings[b"lru_crawler"] == b"yes":
        for name in CRAWLER:
            float(settings[name.encode()])
        for name in CRAWLER_WORDS:
            expect_true(settings[name.encode()] in (b"yes", b"no"), f"{name} is yes or no")
    classes = {name.split(b":")[1] for name in items}
    for number in classes:
        for name in ITEMS:
            float(items[b"items:%s:%s" % (number, name.encode())])
    for number in {name.split(b":")[0] for name in slabs if b":" in name}:
        for name in SLABS:
            float(slabs[b"%s:%s" % (number, name.encode())])
    for name in ("active_slabs", "total_malloced"):
        float(slabs[name.encode()])


def metadump(connection):
    """The keys of a whole dump, in the order of its lines."""
    connection.send(b"lru_crawler metadump all\r\n")
    expect(connection.line(), b"OK", "first line of a dump")
    found = []
    while True:
        line = connection.line()
        if line == b"END":
            return found
        expect_true(line.startswith(b"key=") and line.endswith(b" \n"), f"a line of a dump: {line[:80]!r}")
        found.append(line[4 : line.index(b" ")])


def after_restart(context):
    with context.daemon() as server:
        fill(server)
        expect(server.terminate(), 0, "exit status")
        server.start()
        with server.connect() as connection:
            expect(connection.stats()[b"curr_items"], b"0", "entries in memory after the restart")
            wanted = sorted([b"key-%d" % number for number in range(20)] + [b"big"])
            expect(sorted(metadump(connection)), wanted, "keys of a metadump after the restart")
        memcdump(server)
        dump(memcached_tool(server, "dump"))


def dump_under_load(context, count=200_000):
    with context.daemon(options=["--memory", "16MiB"]) as server:
        with server.connect() as connection:
            for begin in range(0, count, 1000):
                numbers = range(begin, begin + 1000)
                connection.send(b"".join(b"set key-%d 0 0 50 noreply\r\n%s\r\n" % (n, b"x" * 50) for n in numbers))
            expect_true(connection.command(b"version").startswith(b"VERSION"), "version")
        stop = threading.Event()
        slowest = [0.0]
        answers = [0]

        def load():
            with server.connect() as connection:
                number = 0
                while not stop.is_set():
                    number = (number + 7919) % count
                    begin = time.monotonic()
                    connection.set(b"key-%d" % number, b"y" * 50)
                    connection.get(b"key-%d" % ((number * 31) % count))
                    slowest[0] = max(slowest[0], time.monotonic() - begin)
                    answers[0] += 2

        thread = threading.Thread(target=load)
        thread.start()
        try:
            with Connection(server.address, timeout=60) as connection:
                found = metadump(connection)
        finally:
            stop.set()
            thread.join()
        expect(len(found), len(set(found)), "keys, and different keys")
        expect(len(set(found)), count, "keys of the dump")
        slowest_ms = slowest[0] * 1000
        meanwhile = f"{answers[0]} answers, the slowest pair {slowest_ms:.0f} ms"
        context.report.note(f"{count} keys dumped; meanwhile {meanwhile}")
        expect_true(answers[0] > 100, f"only {answers[0]} answers while the dump ran")


def watch_in_order(context, count=2000):
    with context.daemon(options=["--no-disk"]) as server:
        with server.connect() as watcher, server.connect() as connection:
            expect(watcher.command(b"watch mutations deletions"), b"OK", "watch")
            seen = []

            def read():
                try:
                    while len(seen) < 2 * count:
                        seen.append(watcher.line())
                except (Closed, TimeoutError):
                    pass

            thread = threading.Thread(target=read)
            thread.start()
            for number in range(count):
                expect(connection.set(b"k%d" % number, b"x" * (number % 50)), b"STORED", "set")
                expect(connection.command(b"delete k%d" % number), b"DELETED", "delete")
            thread.join(20)
            expect(len(seen), 2 * count, "lines")
            numbers = [int(re.search(rb" gid=(\d+) ", line)[1]) for line in seen]
            expect(numbers, sorted(numbers), "numbers of the lines")
            for number in range(count):
                store, deletion = seen[2 * number], seen[2 * number + 1]
                expect_true(
                    b" type=item_store key=k%d status=stored cmd=set ttl=0 " % number in store
                    and store.endswith(b" size=%d\n" % (number % 50)),
                    f"line of set {number}: {store!r}",
                )
                expect_true(
                    b" type=deleted key=k%d cmd=delete " % number in deletion
                    and deletion.endswith(b" size=%d\n" % (number % 50)),
                    f"line of delete {number}: {deletion!r}",
                )
