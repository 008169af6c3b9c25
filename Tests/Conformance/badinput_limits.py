"""Input that is too long, too large, too slow or too much: memory stays bounded and everyone else is served.

Memory is the server's resident size from /proc, compared before and after. Every check has a server of its own.
"""

import random
import select
import time

from connection import Closed, store_request
from crash_values import BLOCK
from report import Skipped, expect, expect_true

MIB = 1 << 20
TOO_LARGE = b"SERVER_ERROR object too large for cache"


def resident(server):
    """The resident bytes of the server process."""
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as file:
        for line in file:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    raise OSError("no VmRSS")


def own_server(context, **settings):
    server = context.target(**settings)
    if server.name == "foreign server":
        server.discard()
        raise Skipped("needs a server of its own")
    return server


def endless_line(context):
    with own_server(context) as server:
        before = resident(server)
        for start in (b"x", b"set ", b"delete ", b"incr ", b"stats ", b"gat 0 " + b"k" * 300 + b" "):
            sent = send_until_closed(server, start, b"y" * 65536, 64 * MIB)
            expect_true(sent < 64 * MIB, f"an endless line that begins with {start[:10]!r} is cut off")
        expect_true(resident(server) - before < 16 * MIB, f"memory grew by {resident(server) - before} bytes")


def endless_get(context):
    """memcached lets a get line grow without limit; ours ends it at a stated length."""
    with own_server(context) as server:
        if server.dialect != "ours":
            raise Skipped("memcached sets no limit to get lines")
        before = resident(server)
        for verb in (b"get ", b"gets "):
            sent = send_until_closed(server, verb, b"key%d " * 1000 % tuple(range(1000)), 64 * MIB)
            expect_true(sent < 64 * MIB, f"an endless {verb.decode().strip()} line is cut off")
        expect_true(resident(server) - before < 16 * MIB, f"memory grew by {resident(server) - before} bytes")
        with server.connect() as connection:
            keys = [b"key-%060d" % number for number in range(10_000)]
            expect(connection.many(keys), {}, "a get line of 700 KB")


def send_until_closed(server, start, more, most):
    """How many bytes of an endless line the server takes before it closes."""
    with server.connect() as connection:
        sent = 0
        try:
            connection.send(start)
            while sent < most:
                connection.send(more)
                sent += len(more)
                readable, _, _ = select.select([connection.socket], [], [], 0)
                if readable and not connection.fill():
                    break
        except (OSError, Closed):
            pass
        rest = bytes(connection.buffer)
        expect(rest, b"", "answer to an endless line")
        return sent


def over_limit(context):
    """Values over the limit: one line, the exact bytes dropped whatever the pieces, the old value gone after a set."""
    rng = random.Random(context.seed)
    with own_server(context, max_value="1m") as server:
        for size in (MIB + 1, MIB + 2000, 2 * MIB, 5 * MIB):
            for pieces in (1, 3, 50):
                with server.connect() as connection:
                    connection.set(b"a", b"old")
                    request = store_request(b"set", b"a", (b"delete b\r\n" * (size // 10 + 1))[:size])
                    connection.set(b"b", b"stays")
                    cuts = sorted(rng.randrange(len(request)) for _ in range(pieces - 1))
                    for begin, end in zip([0, *cuts], [*cuts, len(request)]):
                        connection.send(request[begin:end])
                    expect(connection.line(), TOO_LARGE, f"answer to {size} bytes in {pieces} pieces")
                    expect(connection.get(b"a"), None, "the old value after a refused set")
                    expect(connection.get(b"b").data, b"stays", "another value")
                    for verb in (b"add", b"replace", b"append", b"prepend"):
                        expect(connection.store(verb, b"b", bytes(size)), TOO_LARGE, f"answer to {verb.decode()}")
                    expect(connection.get(b"b").data, b"stays", "a value after refused commands other than set")


def claimed_lengths(context, connections=200):
    """A length that is only claimed costs nothing."""
    with own_server(context) as server:
        if server.dialect != "ours":
            raise Skipped("memcached reserves what is claimed")
        before = resident(server)
        held = []
        try:
            for number in range(connections):
                connection = server.connect()
                connection.send(b"set claimed-%d 0 0 %d\r\nfirst bytes" % (number, 60 * MIB))
                held.append(connection)
            with server.connect() as probe:
                expect(probe.set(b"a", b"b"), b"STORED", "set beside them")
            grown = resident(server) - before
            expect_true(grown < 32 * MIB, f"{connections} claims of 60 MiB cost {grown} bytes of memory")
        finally:
            for connection in held:
                connection.close()


def never_reads(context, requests=400):
    """A client that asks for much and reads nothing must not make the server hold it all."""
    with own_server(context) as server:
        with server.connect() as connection:
            for number in range(16):
                connection.set(b"big-%d" % number, BLOCK[: MIB - 1024])
        with server.connect() as probe, server.connect() as silent:
            before = resident(server)
            silent.socket.sendall(b"".join(b"get big-%d\r\n" % (number % 16) for number in range(requests)))
            most = 0
            deadline = time.monotonic() + 1.0
            while time.monotonic() < deadline:
                expect(probe.get(b"big-1").data[:10], BLOCK[:10], "get beside it")
                most = max(most, resident(server) - before)
            expect_true(most < 48 * MIB, f"{requests} unread gets of 1 MiB cost {most} bytes of memory")


def trickle(context):
    """A request that comes a byte at a time is answered, and others are not kept waiting."""
    with own_server(context) as server:
        with server.connect() as slow, server.connect() as fast:
            for byte in store_request(b"set", b"slow", b"s" * 30) + b"get slow\r\n":
                slow.send(bytes([byte]))
                expect(fast.set(b"fast", b"f"), b"STORED", "set beside a slow client")
            expect(slow.line(), b"STORED", "reply to the slow set")
            expect(slow.values()[0].data, b"s" * 30, "reply to the slow get")


def many_connections(context, count=300):
    """Connections come and go in a wave; all are served."""
    with own_server(context) as server:
        held = [server.connect() for _ in range(count)]
        try:
            for number, connection in enumerate(held):
                connection.send(store_request(b"set", b"key-%d" % number, b"%d" % number))
            for connection in held:
                expect(connection.line(), b"STORED", f"set on one of {count} connections")
        finally:
            for connection in held:
                connection.close()
        with server.connect() as connection:
            expect(len(connection.many([b"key-%d" % number for number in range(count)])), count, "values stored")


LIMITS = (
    ("an endless line is cut off and memory stays bounded", endless_line),
    ("an endless get line is cut off, one of 700 KB is answered", endless_get),
    ("a value over the limit is dropped exactly, in any pieces", over_limit),
    ("a length that is only claimed takes no memory", claimed_lengths),
    ("a client that never reads takes no memory to speak of", never_reads),
    ("a request that trickles in is answered and delays nobody", trickle),
    ("hundreds of connections at once are all served", many_connections),
)
