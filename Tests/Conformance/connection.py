"""One plain connection that speaks memcached's text protocol, byte for byte.

It adds nothing and hides nothing: no retries, no reconnecting, no tolerance. Replies are returned as bytes without
their CRLF. A reply that does not come in time raises `TimeoutError`, a closed connection raises `Closed`. One thread
uses a connection at a time.
"""

import select
import socket
import time


# Seconds that a reply may take. Waiting costs nothing where it comes; a debug build on a busy machine is slow.
PATIENCE = 60.0


class Closed(Exception):
    """The server closed the connection where a reply was due."""


class Value:
    """One VALUE of a get reply."""

    __slots__ = ("key", "flags", "data", "cas")

    def __init__(self, key, flags, data, cas=None):
        self.key = key
        self.flags = flags
        self.data = data
        self.cas = cas


class Connection:
    """A connected socket with a read buffer. `address` is (host, port) or the path of a Unix socket."""

    def __init__(self, address, timeout=PATIENCE):
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self.socket.settimeout(timeout)
        self.socket.connect(address)
        if family == socket.AF_INET:
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = bytearray()
        self.position = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def send(self, data):
        """Sends everything. While the server takes no more, its answers are read: the two never wait in a circle."""
        view = memoryview(data)
        deadline = time.monotonic() + (self.socket.gettimeout() or 60.0)
        while view:
            try:
                view = view[self.socket.send(view, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL) :]
            except BlockingIOError:
                readable, _, _ = select.select([self.socket], [self.socket], [], 1.0)
                if readable and not self.fill():
                    raise Closed(f"closed with {len(view)} bytes still to send") from None
                if time.monotonic() > deadline:
                    raise TimeoutError("the server takes no more bytes") from None

    def finish_sending(self):
        """Half-closes: the server sees the end of our requests and still answers the complete ones."""
        self.socket.shutdown(socket.SHUT_WR)

    def fill(self):
        """Reads once into the buffer; False at the end of the stream."""
        try:
            data = self.socket.recv(1 << 18)
        except ConnectionResetError:
            return False
        if not data:
            return False
        if self.position > 1 << 20:
            del self.buffer[: self.position]
            self.position = 0
        self.buffer += data
        return True

    def line(self):
        """The next line without its CRLF. A bare LF is kept visible: memcached always ends replies with CRLF."""
        start = self.position
        while True:
            end = self.buffer.find(b"\n", start)
            if end >= 0:
                break
            start = len(self.buffer)
            before = self.position
            if not self.fill():
                raise Closed(f"closed after {bytes(self.buffer[self.position :])[:80]!r}")
            start -= before - self.position
        line = bytes(self.buffer[self.position : end + 1])
        self.position = end + 1
        return line[:-2] if line.endswith(b"\r\n") else line

    def exactly(self, count):
        """The next `count` bytes."""
        while len(self.buffer) - self.position < count:
            if not self.fill():
                raise Closed(f"closed {count - (len(self.buffer) - self.position)} bytes short of {count}")
        data = bytes(self.buffer[self.position : self.position + count])
        self.position += count
        return data

    def rest(self):
        """Everything until the server closes."""
        while self.fill():
            pass
        data = bytes(self.buffer[self.position :])
        self.position = len(self.buffer)
        return data

    def pending(self):
        """Bytes received and not yet read."""
        return len(self.buffer) - self.position

    # Requests. Each sends one command and returns its reply.

    def command(self, line):
        """Sends one line and returns the one line of its reply."""
        self.send(line + b"\r\n")
        return self.line()

    def store(self, verb, key, data, flags=0, exptime=0, unique=None):
        self.send(store_request(verb, key, data, flags, exptime, unique))
        return self.line()

    def set(self, key, data, flags=0, exptime=0):
        return self.store(b"set", key, data, flags, exptime)

    def values(self):
        """Reads one get reply: the list of its values, up to END."""
        found = []
        while True:
            line = self.line()
            if line == b"END":
                return found
            found.append(self.value_after(line))

    def value_after(self, line):
        """Reads the data block that belongs to a VALUE line."""
        words = line.split(b" ")
        if words[0] != b"VALUE" or len(words) not in (4, 5):
            raise Closed(f"not a get reply: {line[:80]!r}")
        data = self.exactly(int(words[3]) + 2)
        if data[-2:] != b"\r\n":
            raise Closed(f"the data of {line[:80]!r} does not end in CRLF")
        return Value(words[1], int(words[2]), data[:-2], int(words[4]) if len(words) == 5 else None)

    def get(self, key, verb=b"get"):
        """The value of one key, or None."""
        self.send(verb + b" " + key + b"\r\n")
        found = self.values()
        return found[0] if found else None

    def gets(self, key):
        return self.get(key, b"gets")

    def many(self, keys, verb=b"get"):
        """The values of many keys by key."""
        self.send(verb + b" " + b" ".join(keys) + b"\r\n")
        return {value.key: value for value in self.values()}

    def stats(self, argument=b""):
        """One stats reply as a dictionary of bytes."""
        self.send(b"stats" + (b" " + argument if argument else b"") + b"\r\n")
        names = {}
        while True:
            line = self.line()
            if line in (b"END", b"RESET"):
                return names
            words = line.split(b" ", 2)
            if words[0] != b"STAT":
                raise Closed(f"not a stats reply: {line[:80]!r}")
            names[words[1]] = words[2] if len(words) > 2 else b""


def store_request(verb, key, data, flags=0, exptime=0, unique=None, noreply=False):
    """The bytes of one storage command with its data block."""
    unique_word = b"" if unique is None else b" %d" % unique
    tail = b" noreply" if noreply else b""
    return b"%s %s %d %d %d%s%s\r\n%s\r\n" % (verb, key, flags, exptime, len(data), unique_word, tail, data)
