"""Hostile and broken input: one exact error line, framing kept where it is certain, the connection closed without a
word where it is not.

Each exchange ends with a `version` whose answer shows that the server is still in step. A canary entry must survive
all of it. What memcached answers differently is tolerated when the server is a memcached; for our daemon the lines are
exact.
"""

import random

from badinput_limits import LIMITS
from badinput_random import damaged, garbage
from connection import Closed
from crash_values import BLOCK
from report import Skipped, expect, expect_true

FORMAT = b"CLIENT_ERROR bad command line format"
EXPTIME = b"CLIENT_ERROR invalid exptime argument"
DELTA = b"CLIENT_ERROR invalid numeric delta argument"
CHUNK = b"CLIENT_ERROR bad data chunk"
STORAGE = (b"set", b"add", b"replace", b"append", b"prepend", b"cas")
HOSTILE = (
    b"-1",
    b"-0",
    b"+1",
    b"+",
    b"-",
    b"0x10",
    b"1e3",
    b"1.5",
    b"007",
    b"x",
    b"1x",
    b"\x00",
    b"\xff",
    b"2147483645",
    b"2147483646",
    b"2147483647",
    b"2147483648",
    b"-2147483648",
    b"-2147483649",
    b"4294967295",
    b"4294967296",
    b"9223372036854775807",
    b"9223372036854775808",
    b"-9223372036854775808",
    b"-9223372036854775809",
    b"18446744073709551615",
    b"18446744073709551616",
    b"99999999999999999999",
    b"9" * 200,
    b"0" * 200,
    b"nan",
)
COMMANDS = STORAGE + (
    b"get",
    b"gets",
    b"gat",
    b"gats",
    b"delete",
    b"incr",
    b"decr",
    b"touch",
    b"flush_all",
    b"verbosity",
    b"version",
    b"stats",
    b"bogus",
    b"mn",
    b"mg",
    b"ms",
    b"md",
    b"ma",
    b"me",
    b"cache_memlimit",
    b"shutdown",
    b"lru_crawler",
    b"watch",
    b"lru",
    b"slabs",
    b"refresh_certs",
    b"help",
)


def run(context):
    report = context.report
    with context.target() as server:
        for name, check in (
            ("every command with 0 to 12 words gets exactly one answer", word_counts),
            ("a key over 250 bytes is refused by every command, its data swallowed, nothing stored", long_keys),
            ("hostile numbers in every numeric place get one answer and change nothing", hostile_numbers),
            ("wrong line and data ends keep the old value", wrong_ends),
            ("a request cut off half way stores nothing", cut_off),
            ("the binary protocol is refused at once", binary),
            ("HTTP is refused and stores nothing", http),
        ):
            with report.case(name):
                plant_canary(server)
                check(server, random.Random(context.seed))
                check_canary(server)
        for name, check in (("random bytes", garbage), ("valid requests with random damage", damaged)):
            with report.case(f"{name} do no harm (seed {context.seed})"):
                plant_canary(server)
                check(server, random.Random(context.seed))
                check_canary(server)
        if server.process is not None:
            with report.case("the server process is still the first one"):
                expect(server.process.poll(), None, f"exit status ({server.log_tail()})")
    for name, check in LIMITS:
        with report.case(name):
            check(context)


def plant_canary(server):
    with server.connect() as connection:
        connection.command(b"flush_all")
        expect(connection.set(b"canary", b"alive", 7), b"STORED", "set of the canary")


def check_canary(server):
    with server.connect() as connection:
        value = connection.get(b"canary")
        expect_true(value is not None, "the canary is gone")
        expect((value.data, value.flags), (b"alive", 7), "the canary")


def talk(server, request):
    """Sends a request and a `version`, ends the sending, and returns all lines before the version's answer."""
    with server.connect() as connection:
        try:
            connection.send(request + b"version\r\n")
            connection.finish_sending()
        except OSError:
            pass  # closed while we were sending; what it answered can still be read
        lines = connection.rest().split(b"\r\n")
    expect(lines.pop(), b"", "bytes after the last line end")
    if not lines or not lines[-1].startswith(b"VERSION "):
        raise Closed(f"no answer to version after {request[:60]!r}, got {lines[-3:]}")
    return lines[:-1]


def wanted_for(verb, count):
    """Our answer to a command with `count` words `x`; None: any single line; "many": any lines."""
    if verb in STORAGE:
        return FORMAT
    if verb in (b"get", b"gets"):
        return FORMAT if count == 0 else b"END"
    if verb in (b"gat", b"gats"):
        return FORMAT if count < 2 else EXPTIME
    if verb in (b"incr", b"decr"):
        return FORMAT if count < 2 else DELTA
    if verb == b"touch":
        return FORMAT if count < 2 else EXPTIME
    if verb == b"delete":
        return FORMAT if count != 1 else b"NOT_FOUND"
    if verb == b"flush_all":
        return b"OK" if count == 0 else EXPTIME
    if verb == b"verbosity":
        return FORMAT
    if verb == b"bogus":
        return b"ERROR"
    return "many" if verb in (b"stats", b"version", b"help", b"lru_crawler", b"watch") else None


def word_counts(server, _):
    for verb in COMMANDS:
        if verb == b"watch" or (verb in (b"mg", b"ms", b"md", b"ma", b"me") and server.dialect == "old"):
            continue
        for count in range(13):
            request = b" ".join([verb] + [b"x"] * count) + b"\r\n"
            lines = talk(server, request)
            wanted = wanted_for(verb, count)
            if wanted == "many":
                known = verb == b"help" or all(known_line(line) for line in lines)
                expect_true(known, f"answer to {request!r}: {lines[:3]}")
                continue
            if server.dialect != "ours":
                expect_true(all(known_line(line) for line in lines), f"answer to {request!r}: {lines[:3]}")
                continue
            expect(len(lines), 1, f"number of lines answered to {request!r} ({lines[:3]})")
            if wanted is not None:
                expect(lines[0], wanted, f"answer to {request!r}")
            expect_true(known_line(lines[0]), f"answer to {request!r}: {lines[0]!r}")
        plant_canary(server)


KNOWN = (
    b"ERROR",
    b"CLIENT_ERROR",
    b"SERVER_ERROR",
    b"END",
    b"OK",
    b"Error ",
    b"STAT ",
    b"VERSION ",
    b"NOT_FOUND",
    b"STORED",
    b"NOT_STORED",
    b"EXISTS",
    b"TOUCHED",
    b"DELETED",
    b"RESET",
    b"HD",
    b"EN",
    b"NF",
    b"NS",
    b"EX",
    b"MN",
    b"ME ",
    b"VA ",
    b"MEMLIMIT_",
    b"VALUE ",
    b"key=",
    b"HELP",
    b"BUSY",
    b"BADCLASS",
    b"NOTSTARTED",
)


def known_line(line):
    return line.startswith(KNOWN) or line == b"" or line[:1].isdigit() or line[:1] in (b"#", b" ")


def long_keys(server, _):
    key = b"k" * 251
    swallowing = server.dialect != "old"
    for verb in STORAGE:
        unique = b" 1" if verb == b"cas" else b""
        lines = talk(server, b"%s %s 0 0 5%s\r\nhello\r\n" % (verb, key, unique))
        expect(lines[:1] if not swallowing else lines, [FORMAT], f"answer to {verb.decode()} with a long key")
    for request in (b"incr %s 1", b"decr %s 1", b"touch %s 1", b"delete %s"):
        expect(talk(server, request % key + b"\r\n"), [FORMAT], f"answer to {request.decode()} with a long key")
    for request in (b"get %s", b"gets %s", b"gat 0 %s", b"gats 0 %s", b"get canary %s", b"gat 0 canary %s"):
        lines = talk(server, request % key + b"\r\n")
        expect(lines[:1] if server.dialect == "new" else lines, [FORMAT], f"answer to {request.decode()}")
    expect(talk(server, b"get %s\r\n" % key[1:]), [b"END"], "answer to get with a key of 250 bytes")
    for verb in STORAGE[:3]:
        lines = talk(server, b"%s %s 0 0 5 noreply\r\nhello\r\n" % (verb, b"k" * 2000))
        expect(lines if swallowing else [], [], f"answer to {verb.decode()} noreply with a very long key")


def hostile_numbers(server, _):
    """Our daemon answers each of these with one line; what is refused keeps the old value."""
    for number in HOSTILE:
        for place in range(4):
            words = [b"0", b"0", b"5", b"1"]
            words[place] = number
            for verb in (b"set", b"cas"):
                if verb == b"set" and place == 3:
                    continue
                line = b" ".join([verb, b"victim"] + words[: 4 if verb == b"cas" else 3])
                hostile_storage(server, line, is_length=place == 2)
        for line in (
            b"incr n %s",
            b"decr n %s",
            b"touch victim %s",
            b"gat %s victim",
            b"gats %s victim",
            b"verbosity %s",
        ):
            request = line % number + b"\r\n"
            with server.connect() as connection:
                connection.set(b"n", b"5")
                connection.set(b"victim", b"old")
            lines = [line for line in talk(server, request) if not line.startswith((b"VALUE", b"old"))]
            expect_true(len(lines) == 1 and known_line(lines[0]), f"one line to {request!r}: {lines}")


def hostile_storage(server, line, is_length):
    with server.connect() as connection:
        connection.set(b"victim", b"old")
        unique = connection.gets(b"victim").cas
        try:
            connection.send(line + b"\r\nhello\r\nversion\r\n")
            connection.finish_sending()
        except OSError:
            pass
        answer = connection.rest()
        expect_true(answer == b"" or answer.endswith(b"\r\n"), f"whole lines to {line!r}: {answer!r}")
    lines = answer.split(b"\r\n")
    if server.dialect == "ours" and not is_length:
        expect(len(lines), 3, f"one line and the version after {line!r}: {lines}")
    with server.connect() as connection:
        after = connection.gets(b"victim")
        if lines[0].startswith(b"CLIENT_ERROR"):
            expect_true(
                after is not None and after.data == b"old" and after.cas == unique, f"{line!r} kept the old value"
            )
        elif after is not None:
            expect_true(after.data in (b"old", b"hello", b""), f"{line!r} left {after.data!r}")


def wrong_ends(server, _):
    with server.connect() as connection:
        connection.set(b"a", b"old", 3)
    # 1.6.18 calls two bytes or fewer ERROR; the newest and we call them a bad line.
    short = b"ERROR" if server.dialect == "old" else FORMAT
    for request, wanted in (
        (b"set a 0 0 3\r\nnewXX", [CHUNK]),
        (b"set a 0 0 3\r\nnew\n\n", [CHUNK]),
        (b"set a 0 0 3\r\nnew\r\r\n", [CHUNK, short]),
        (b"set a 0 0 3\r\nnewer\r\n", [CHUNK, short]),
        (b"set a 0 0 3\r\nne\r\nx\r\n", [CHUNK, short]),
        (b"set a 0 0 0\r\nnew\r\n", [CHUNK, b"ERROR" if server.dialect == "old" else FORMAT]),
        (b"set a 0 0 3 noreply\r\nnewer\r\n", [short]),
        (b"append a 0 0 3\r\nnewer\r\n", [CHUNK, short]),
        (b"cas a 0 0 3 1\r\nnewer\r\n", [CHUNK, short]),
        (b"\r\n\r\n", [short, short]),
        (b"\n", [short]),
        (b"get a\r\r\n", [b"END"]),
        (b"get\ta\r\n", [b"ERROR"]),
        (b"get a\x00\r\n", [b"END"]),
    ):
        if server.dialect == "old" and b"\x00" in request:
            continue
        expect(talk(server, request), wanted, f"answer to {request!r}")
        with server.connect() as connection:
            value = connection.get(b"a")
            expect((value.data, value.flags), (b"old", 3), f"the value after {request!r}")


def cut_off(server, rng):
    requests = (
        b"set cut 0 0 5\r\nhello\r\n",
        b"set cut 0 0 30000\r\n" + BLOCK[:30000] + b"\r\n",
        b"delete canary\r\n",
        b"incr number 1\r\n",
        b"cas canary 0 0 1 1\r\nx\r\n",
    )
    with server.connect() as connection:
        connection.set(b"number", b"5")
    for request in requests:
        for place in sorted(
            {1, len(request) - 1, len(request) - 2, *(rng.randrange(1, len(request)) for _ in range(8))}
        ):
            with server.connect() as connection:
                connection.send(request[:place])
                connection.finish_sending()
                expect(connection.rest(), b"", f"answer to {request[:place][:60]!r} and an end")
    with server.connect() as connection:
        expect(sorted(connection.many([b"cut", b"canary", b"number"])), [b"canary", b"number"], "keys afterwards")
        expect(connection.get(b"number").data, b"5", "the number afterwards")


def binary(server, rng):
    if server.dialect != "ours":
        raise Skipped("memcached speaks the binary protocol")
    version = b"\x80\x0b" + bytes(22)
    delete = b"\x80\x04\x00\x06" + bytes(4) + b"\x00\x00\x00\x06" + bytes(12) + b"canary"
    for request in (b"\x80", version, delete, b"\x80" + rng.randbytes(4000), b"\x80get canary\r\n"):
        with server.connect() as connection:
            try:
                connection.send(request)
                connection.finish_sending()
            except OSError:
                pass
            rest = connection.rest()
            expect_true(rest.count(b"\n") <= 1, f"at most one line to {request[:8]!r}: {rest!r}")
    # Only the first byte of a connection says which protocol it is.
    with server.connect() as connection:
        connection.command(b"version")
        expect(connection.command(b"\x80\x0b"), b"ERROR", "answer to 0x80 later on")


def http(server, _):
    if server.dialect != "ours":
        raise Skipped("memcached differs by version")
    for verb in (b"GET", b"POST", b"PUT", b"DELETE", b"HEAD", b"OPTIONS"):
        for body in (b"", b"set evil 0 0 1\r\nx\r\ndelete canary\r\nflush_all\r\n"):
            with server.connect() as connection:
                try:
                    connection.send(
                        b"%s /set HTTP/1.1\r\nHost: cache\r\nContent-Length: %d\r\n\r\n%s" % (verb, len(body), body)
                    )
                except (OSError, Closed):
                    pass
                rest = connection.rest()
                expect(rest, b"", f"answer to {verb.decode()} over HTTP, before the end")
    with server.connect() as connection:
        expect(connection.get(b"evil"), None, "what the body of an HTTP request set")
