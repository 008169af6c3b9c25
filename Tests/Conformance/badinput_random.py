"""Random bytes and randomly damaged requests: the server may answer anything, but it must answer or close, and stay.

Nothing thrown here names the canary of `badinput` or flushes, so the canary has to survive. The seed is printed by the
caller.
"""

from connection import Closed
from report import Mismatch


def garbage(server, rng):
    for _ in range(400):
        size = rng.choice((1, 2, 10, 100, 1000, 5000))
        kind = rng.random()
        if kind < 0.4:
            data = rng.randbytes(size)
        elif kind < 0.7:
            data = bytes(rng.choice(b" \r\n\x00\x80ax019-+:") for _ in range(size))
        else:
            data = b"".join(rng.choice(WORDS) for _ in range(size // 4 + 1))
        throw(server, data)


WORDS = (
    b"get",
    b"set",
    b"gets",
    b"cas",
    b"incr",
    b"touch",
    b"gat",
    b"mg",
    b"ms",
    b"ma",
    b"me",
    b" ",
    b" ",
    b" ",
    b"\r\n",
    b"\r\n",
    b"\n",
    b"0",
    b"1",
    b"5",
    b"-1",
    b"99999999999999999999",
    b"a",
    b"key",
    b"noreply",
    b"stats",
    b"b",
    b"q",
    b"k",
    b"v",
    b"T30",
    b"Oxyz",
    b"\x00",
    b"verbosity",
    b"version",
    b"append",
)
VALID = (
    b"set a 0 0 5\r\nhello\r\n",
    b"add b 1 10 3\r\nabc\r\n",
    b"cas c 0 0 2 77\r\nhi\r\n",
    b"get a b c\r\n",
    b"gets a b\r\n",
    b"incr n 5\r\n",
    b"decr n 5 noreply\r\n",
    b"touch a 10\r\n",
    b"gat 10 a b\r\n",
    b"delete a\r\n",
    b"append a 0 0 1\r\n+\r\n",
    b"verbosity 0\r\n",
    b"version\r\n",
    b"mg a v t f c k Oab\r\n",
    b"ms a 2 T0 F1 c\r\nhi\r\n",
    b"md a q\r\n",
    b"ma n D2 v\r\n",
    b"mn\r\n",
    b"me a\r\n",
    b"stats settings\r\n",
)


def damaged(server, rng):
    for _ in range(600):
        parts = [bytearray(rng.choice(VALID)) for _ in range(rng.randint(1, 6))]
        for _ in range(rng.randint(1, 4)):
            part = rng.choice(parts)
            place = rng.randrange(len(part) + 1)
            change = rng.random()
            if change < 0.35 and part:
                part[place % len(part)] = rng.randrange(256)
            elif change < 0.6:
                part[place:place] = rng.choice((b" ", b"\r\n", b"\x00", b"9" * 30, b"-", b"\xff", b"  "))
            elif change < 0.8:
                del part[place : place + rng.randint(1, 3)]
            else:
                part[place:place] = part[: rng.randint(0, len(part))]
        throw(server, b"".join(parts))


def throw(server, data):
    """Sends bytes and reads whatever comes until the server is through with them; it must then still be there."""
    if b"flush" in data or b"canary" in data or b"shutdown" in data:
        return
    with server.connect() as connection:
        try:
            connection.send(data)
            connection.finish_sending()
            connection.rest()
        except TimeoutError:
            raise Mismatch(f"neither an answer nor an end after {data[:200]!r}") from None
        except (OSError, Closed):
            pass
    if server.process is not None and server.process.poll() is not None:
        raise Mismatch(f"the server ended after {data[:200]!r}: {server.log_tail()}")
