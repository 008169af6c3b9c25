"""Every command means the same wherever the entry lives: in memory, on disk after a restart, on disk after eviction.

The same table of commands is played on entries of three sizes in each place. An entry gets to disk only by a restart
(memory starts empty) or by a memory limit that is filled several times over. The results are read back, then read
again after another restart.
"""

import threading

from connection import store_request
from crash_values import BLOCK
from report import expect, expect_true

SIZES = {"small": 100, "inline": 18_000, "file": 30_000, "large-file": 300_000}
TTL = 5000
NEW = b"new value"


class Case:
    """One command on a prepared entry: what it answers and what it leaves (`None`: nothing)."""

    def __init__(self, name, request, reply, left, before=None, flags=77, ttl=TTL, cas_changes=True):
        self.name = name
        self.request = request
        self.reply = reply
        self.left = left
        self.before = before
        self.flags = flags
        self.ttl = ttl
        self.cas_changes = cas_changes


def storage_cases(data):
    """Cases for an entry that holds `data`. `{u}` in a request stands for the unique of the entry."""
    half = BLOCK[-1000:]
    return [
        Case("set", lambda k, u: store_request(b"set", k, NEW, 5), b"STORED", NEW, flags=5, ttl=0),
        Case("set-large", lambda k, u: store_request(b"set", k, half * 60, 5), b"STORED", half * 60, flags=5, ttl=0),
        Case("add", lambda k, u: store_request(b"add", k, NEW, 5), b"NOT_STORED", data, cas_changes=False),
        Case("replace", lambda k, u: store_request(b"replace", k, NEW, 5), b"STORED", NEW, flags=5, ttl=0),
        Case("append", lambda k, u: store_request(b"append", k, half, 5), b"STORED", data + half),
        Case("prepend", lambda k, u: store_request(b"prepend", k, half, 5), b"STORED", half + data),
        Case("append-over-inline", lambda k, u: store_request(b"append", k, half * 25, 5), b"STORED", data + half * 25),
        Case("cas", lambda k, u: store_request(b"cas", k, NEW, 5, 0, u), b"STORED", NEW, flags=5, ttl=0),
        Case("cas-stale", lambda k, u: store_request(b"cas", k, NEW, 5, 0, u + 1), b"EXISTS", data, cas_changes=False),
        Case("touch", lambda k, u: b"touch %s 9000\r\n" % k, b"TOUCHED", data, ttl=9000, cas_changes=False),
        Case("touch-never", lambda k, u: b"touch %s 0\r\n" % k, b"TOUCHED", data, ttl=0, cas_changes=False),
        Case("touch-now", lambda k, u: b"touch %s -1\r\n" % k, b"TOUCHED", None),
        Case("gat", lambda k, u: b"gat 9000 %s\r\n" % k, data, data, ttl=9000, cas_changes=False),
        Case("gats", lambda k, u: b"gats 9000 %s\r\n" % k, data, data, ttl=9000, cas_changes=False),
        Case("get", lambda k, u: b"get %s\r\n" % k, data, data, cas_changes=False),
        Case("delete", lambda k, u: b"delete %s\r\n" % k, b"DELETED", None),
        Case(
            "incr-text",
            lambda k, u: b"incr %s 1\r\n" % k,
            b"CLIENT_ERROR cannot increment or decrement non-numeric value",
            data,
            cas_changes=False,
        ),
    ]


def counter_cases():
    return [
        Case("incr", lambda k, u: b"incr %s 5\r\n" % k, b"105", b"105", before=b"100"),
        Case("incr-longer", lambda k, u: b"incr %s 900\r\n" % k, b"1000", b"1000", before=b"100"),
        Case("decr", lambda k, u: b"decr %s 1\r\n" % k, b"99", b"99 ", before=b"100"),
        Case("decr-zero", lambda k, u: b"decr %s 500\r\n" % k, b"0", b"0  ", before=b"100"),
        Case("incr-wrap", lambda k, u: b"incr %s 1\r\n" % k, b"0", b"0" + b" " * 19, before=b"%d" % (2**64 - 1)),
    ]


def absent_cases():
    """Commands on a key that was deleted: the disk copy must not answer."""
    return [
        Case("absent-get", lambda k, u: b"get %s\r\n" % k, None, None),
        Case("absent-gat", lambda k, u: b"gat 100 %s\r\n" % k, None, None),
        Case("absent-touch", lambda k, u: b"touch %s 100\r\n" % k, b"NOT_FOUND", None),
        Case("absent-delete", lambda k, u: b"delete %s\r\n" % k, b"NOT_FOUND", None),
        Case("absent-incr", lambda k, u: b"incr %s 1\r\n" % k, b"NOT_FOUND", None),
        Case("absent-append", lambda k, u: store_request(b"append", k, NEW), b"NOT_STORED", None),
        Case("absent-replace", lambda k, u: store_request(b"replace", k, NEW), b"NOT_STORED", None),
        Case("absent-cas", lambda k, u: store_request(b"cas", k, NEW, 0, 0, 1), b"NOT_FOUND", None),
        Case("absent-add", lambda k, u: store_request(b"add", k, NEW, 5), b"STORED", NEW, flags=5, ttl=0),
    ]


def all_cases():
    """(key, prepared data or None, case) for everything."""
    for size, length in SIZES.items():
        data = BLOCK[length : 2 * length]
        for case in storage_cases(data):
            yield f"{size}-{case.name}".encode(), data, case
    for case in counter_cases():
        yield case.name.encode(), case.before, case
    for case in absent_cases():
        yield case.name.encode(), None, case


def run(context):
    report = context.report
    for place, settings, move in (
        ("memory", {}, lambda server: None),
        ("disk after SIGTERM", {}, lambda server: restart(server, False)),
        ("disk after kill -9", {}, lambda server: restart(server, True)),
        ("disk after eviction", {"memory": "4MiB"}, evict),
    ):
        with report.case(f"every command on entries in {place}, and the result read back and after a restart"):
            with context.daemon(**settings) as server:
                play(server, move)
    with report.case("the first read comes from disk, the second from memory"):
        with context.daemon() as server:
            promotion(server)
    with report.case("a flush_all is final for entries on disk"):
        with context.daemon() as server:
            flush_on_disk(server)
    with report.case("an entry ended by touch or gat stays ended while its old deadline is still on disk"):
        with context.daemon() as server:
            ended_by_touch(server)
    with report.case("many clients ask for the same entries on disk at once"):
        with context.daemon() as server:
            stampede(server)
    with report.case("replies keep the order of requests while some come from disk"):
        with context.daemon(memory="4MiB") as server:
            order(server)
    with report.case("a set or delete always wins over a promotion that runs at the same time"):
        with context.daemon(memory="4MiB") as server:
            promotion_race(server)


def restart(server, by_kill):
    if by_kill:
        server.kill()
    else:
        expect(server.terminate(), 0, "exit status after SIGTERM")
    server.start()


def evict(server, megabytes=24):
    """Fills memory several times over, so that what was there before lives on disk only."""
    filler = BLOCK[:8000]
    with server.connect() as connection:
        for begin in range(0, megabytes * 128, 128):
            connection.send(
                b"".join(
                    store_request(b"set", b"filler-%d" % number, filler, noreply=True)
                    for number in range(begin, begin + 128)
                )
            )
        connection.command(b"version")


def play(server, move):
    cases = list(all_cases())
    uniques = {}
    with server.connect() as connection:
        for key, data, _ in cases:
            if data is None:
                connection.set(key, b"deleted", 1)
                expect(connection.command(b"delete " + key), b"DELETED", f"delete {key.decode()}")
            else:
                expect(connection.set(key, data, 77, TTL), b"STORED", f"set {key.decode()}")
                uniques[key] = connection.gets(key).cas
    move(server)
    with server.connect() as connection:
        for key, _, case in cases:
            connection.send(case.request(key, uniques.get(key, 0)))
            name = key.decode()
            if name.rsplit("-", 1)[-1] in ("get", "gat", "gats"):
                values = connection.values()
                expect(len(values), 0 if case.reply is None else 1, f"values answered to {name}")
                if case.reply is not None:
                    expect(values[0].data == case.reply, True, f"{name} answers the value that was stored")
                    expect(values[0].flags, 77, f"flags answered to {name}")
            else:
                expect(connection.line(), case.reply, f"reply to {name}")
        check_left(connection, cases, uniques, "")
    restart(server, True)
    with server.connect() as connection:
        check_left(connection, cases, uniques, " after a restart")


def check_left(connection, cases, uniques, when):
    found = connection.many([key for key, _, _ in cases], b"gets")
    for key, _, case in cases:
        name = key.decode() + when
        if case.left is None:
            expect_true(key not in found, f"nothing is left by {name}")
            continue
        expect_true(key in found, f"something is left by {name}")
        expect(found[key].data == case.left, True, f"the value left by {name} is right")
        expect(found[key].flags, case.flags, f"flags left by {name}")
        if key in uniques:
            expect(found[key].cas != uniques[key], case.cas_changes, f"a new unique by {name}")
        left = connection.command(b"mg " + key + b" t")
        if left != b"ERROR":
            seconds = int(left[4:])
            wanted = case.ttl or -1
            expect_true(
                wanted - 60 <= seconds <= wanted if case.ttl else seconds == -1,
                f"TTL left by {name} is {seconds}, not {wanted}",
            )


def tier_hits(connection):
    stats = connection.stats()
    return int(stats[b"memory_hits"]), int(stats[b"disk_hits"])


def promotion(server):
    keys = [b"key-%d" % number for number in range(200)]
    with server.connect() as connection:
        for number, key in enumerate(keys):
            connection.set(key, BLOCK[number * 300 : number * 600], number)
    restart(server, False)
    with server.connect() as connection:
        memory, disk = tier_hits(connection)
        for round_name in ("first", "second"):
            for number, key in enumerate(keys):
                value = connection.get(key)
                expect_true(value is not None, f"{key!r} is there at the {round_name} read")
                expect(value.data == BLOCK[number * 300 : number * 600], True, f"value of {key!r}, {round_name} read")
                expect(value.flags, number, f"flags of {key!r}, {round_name} read")
            now_memory, now_disk = tier_hits(connection)
            from_memory, from_disk = now_memory - memory, now_disk - disk
            memory, disk = now_memory, now_disk
            expect(
                (from_memory, from_disk),
                (0, 200) if round_name == "first" else (200, 0),
                f"hits from memory and from disk in the {round_name} reads",
            )


def flush_on_disk(server):
    keys = [b"key-%d" % number for number in range(100)]
    with server.connect() as connection:
        for key in keys:
            connection.set(key, BLOCK[:25_000])
    restart(server, True)
    with server.connect() as connection:
        connection.get(keys[0])
        expect(connection.command(b"flush_all"), b"OK", "flush_all")
        expect(sorted(connection.many(keys)), [], "keys found after flush_all")
        connection.set(keys[5], b"new")
        expect(sorted(connection.many(keys)), [keys[5]], "keys found after one set")
    restart(server, True)
    with server.connect() as connection:
        expect(sorted(connection.many(keys)), [keys[5]], "keys found after a restart")


def ended_by_touch(server, count=1000):
    """Asks several times right after the end: memory may have let go of the entry before the disk heard of it."""
    keys = [b"key-%d" % number for number in range(count)]
    with server.connect() as connection:
        for verb in (b"touch %s -1\r\n", b"gat -1 %s\r\n", b"touch %s 2592001\r\n"):
            for key in keys:
                connection.set(key, key)
            for number, key in enumerate(keys):
                line = verb % key
                connection.send(line + b"get %s\r\n" % key * 3)
                if verb.startswith(b"touch"):
                    expect(connection.line(), b"TOUCHED", f"reply to {line!r}")
                else:
                    expect(len(connection.values()), 1, f"values answered to {line!r}")
                for ask in range(3):
                    expect(len(connection.values()), 0, f"values at get {ask + 1} after {line!r} (key {number})")


def stampede(server):
    """All clients read the same entries in the same order, pipelined; each reply must be whole."""
    data = {
        b"key-%d" % number: BLOCK[number * 1000 : number * 1000 + length]
        for number, length in enumerate((10, 1000, 19_000, 25_000, 200_000, 900_000))
    }
    with server.connect() as connection:
        for key, value in data.items():
            connection.set(key, value)
    restart(server, False)
    problems = []

    def read():
        try:
            with server.connect(timeout=30) as connection:
                for _ in range(3):
                    connection.send(b"".join(b"get %s\r\n" % key for key in data))
                    for key, value in data.items():
                        found = connection.values()
                        if len(found) != 1 or found[0].key != key or found[0].data != value:
                            problems.append(f"wrong or missing value of {key!r}")
        except Exception as error:  # reported below by the main thread
            problems.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=read, daemon=True) for _ in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    expect(problems[:3], [], "problems of 24 clients")


def order(server):
    with server.connect() as connection:
        for number in range(100):
            connection.set(b"cold-%d" % number, b"%d" % number * (500 if number % 2 else 8000), number)
    evict(server)
    with server.connect() as connection:
        connection.set(b"hot", b"h")
        request = b"".join(b"get hot\r\nget cold-%d hot\r\nincr none 1\r\n" % number for number in range(100))
        connection.send(request)
        for number in range(100):
            expect([value.key for value in connection.values()], [b"hot"], "keys of the first reply")
            expect([value.key for value in connection.values()], [b"cold-%d" % number, b"hot"], "keys of the second")
            expect(connection.line(), b"NOT_FOUND", "third reply")


def promotion_race(server, count=1500):
    """Reads a cold key and writes it at the same moment from another connection, then asks a third."""
    with server.connect() as connection:
        for number in range(count):
            connection.set(b"cold-%d" % number, b"old" * (20 if number % 3 else 9000))
    evict(server)
    with server.connect() as reader, server.connect() as writer, server.connect() as judge:
        for number in range(count):
            key = b"cold-%d" % number
            deletes = number % 2
            reader.send(b"get %s\r\n" % key)
            writer.send(b"delete %s\r\n" % key if deletes else store_request(b"set", key, b"new"))
            expect(writer.line(), b"DELETED" if deletes else b"STORED", f"reply to the writer of {key.decode()}")
            reader.values()
            value = judge.get(key)
            expect(value and value.data, None if deletes else b"new", f"{key.decode()} after the write was answered")
    evict(server)
    with server.connect() as judge:
        for number in range(count):
            value = judge.get(b"cold-%d" % number)
            expect(value and value.data, None if number % 2 else b"new", f"cold-{number} read from disk later")
