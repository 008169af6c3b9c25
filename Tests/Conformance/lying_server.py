#!/usr/bin/python3
"""A small cache server that keeps its entries on disk and can be told to lie, to prove that the crash checker sees it.

`lying_server.py PORT DIRECTORY [LIE]`. The entries are kept by `lying_store`. Told nothing, it is honest. Each lie is
one mistake that a real server could make (see `LIES`). One lock makes commands atomic; a thread serves each connection.
"""

import fcntl
import os
import signal
import socket
import sys
import threading
import time

from lying_store import LIES, MOST, Store

STORAGE = (b"set", b"add", b"replace", b"append", b"prepend", b"cas")


def deadline_of(exptime):
    if exptime == 0:
        return 0.0
    if exptime < 0:
        return 1.0
    return time.time() + exptime if exptime <= 2592000 else float(exptime)


class Session:
    """One connection: reads commands, answers them in order."""

    def __init__(self, connection, store):
        self.connection = connection
        self.store = store
        self.buffer = bytearray()

    def serve(self):
        try:
            while True:
                received = self.connection.recv(1 << 18)
                if not received:
                    break
                self.buffer += received
                replies = self.answer_complete()
                if replies:
                    self.connection.sendall(replies)
        except OSError:
            pass
        finally:
            self.connection.close()

    def answer_complete(self):
        """Runs every command that has arrived whole; returns the replies."""
        replies = []
        while True:
            end = self.buffer.find(b"\r\n")
            if end < 0:
                return b"".join(replies)
            words = bytes(self.buffer[:end]).split()
            size = int(words[4]) + 2 if words[0] in STORAGE else 0
            if len(self.buffer) < end + 2 + size:
                return b"".join(replies)
            data = bytes(self.buffer[end + 2 : end + size])
            del self.buffer[: end + 2 + size]
            with self.store.lock:
                self.store.flush_if_due()
                reply = self.storage(words[0], words, data) if size else self.answer(words)
            if words[-1] != b"noreply":
                replies.append(reply)

    def answer(self, words):
        verb = words[0]
        store = self.store
        if verb in (b"get", b"gets"):
            return self.values(words[1:], verb == b"gets")
        if verb in (b"gat", b"gats"):
            for key in words[2:]:
                store.touch(key, deadline_of(int(words[1])))
            return self.values(words[2:], True, True)
        if verb == b"delete":
            return b"DELETED\r\n" if store.delete(words[1]) else b"NOT_FOUND\r\n"
        if verb == b"touch":
            return b"TOUCHED\r\n" if store.touch(words[1], deadline_of(int(words[2]))) else b"NOT_FOUND\r\n"
        if verb in (b"incr", b"decr"):
            return self.count(verb, words[1], int(words[2]))
        if verb == b"mg":
            entry = store.get(words[1])
            if entry is None:
                return b"EN\r\n"
            left = int(entry.deadline - time.time()) if entry.deadline else -1
            return b"HD t%d\r\n" % left
        if verb == b"flush_all":
            store.flush(deadline_of(int(words[1])) if len(words) > 1 and words[1] != b"noreply" else 0.0)
            return b"OK\r\n"
        if verb == b"stats":
            return b"STAT memory_hits %d\r\nSTAT disk_hits %d\r\nEND\r\n" % tuple(store.hits)
        return b"VERSION 1.6.0-lying\r\n" if verb == b"version" else b"ERROR\r\n"

    def values(self, keys, with_cas, even_expired=False):
        parts = []
        for key in keys:
            entry = self.store.entries.get(key) if even_expired else self.store.get(key)
            if entry is not None:
                self.store.hits[entry.is_cold] += 1
                entry.is_cold = False
                unique = b" %d" % entry.cas if with_cas else b""
                parts.append(b"VALUE %s %d %d%s\r\n%s\r\n" % (key, entry.flags, len(entry.data), unique, entry.data))
        return b"".join(parts) + b"END\r\n"

    def count(self, verb, key, delta):
        store = self.store
        entry = store.get(key)
        if entry is None:
            return b"NOT_FOUND\r\n"
        if not entry.data.rstrip().isdigit():
            return b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"
        number = int(entry.data)
        number = (number + delta) % (1 << 64) if verb == b"incr" else max(0, number - delta)
        padded = (b"%d" % number).ljust(len(entry.data))
        store.put(key, padded, entry.flags, entry.deadline, store.lie == "counter_in_memory")
        return b"%d\r\n" % number

    def storage(self, verb, words, data):
        store = self.store
        key, flags, deadline = words[1], int(words[2]), deadline_of(int(words[3]))
        if len(data) > MOST:
            store.delete(key)
            return b"SERVER_ERROR object too large for cache\r\n"
        entry = store.get(key)
        if verb in (b"append", b"prepend"):
            if entry is None:
                return b"NOT_STORED\r\n"
            joined = entry.data + data if verb == b"append" else data + entry.data
            store.put(key, joined, entry.flags, entry.deadline, store.lie == "append_in_memory")
            return b"STORED\r\n"
        if (verb == b"add") == (entry is not None) and verb in (b"add", b"replace"):
            return b"NOT_STORED\r\n"
        if verb == b"cas":
            if entry is None:
                return b"NOT_FOUND\r\n"
            if entry.cas != int(words[5]) and store.lie != "cas_ignored":
                return b"EXISTS\r\n"
        store.put(key, data, flags, deadline)
        return b"STORED\r\n"


def main():
    port, directory, lie = int(sys.argv[1]), sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else "none"
    if lie not in LIES:
        sys.exit(f"no lie {lie}; there are: {' '.join(LIES)}")
    os.makedirs(directory, exist_ok=True)
    holder = os.open(os.path.join(directory, ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(holder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        sys.stderr.write(f"held by {os.pread(holder, 20, 0).decode()}\n")
        sys.exit(75)
    os.ftruncate(holder, 0)
    os.pwrite(holder, b"%d" % os.getpid(), 0)
    store = Store(directory, lie)

    def stop(*_):
        with store.lock:
            for record in store.waiting:
                os.write(store.log, record)
            os._exit(0)

    signal.signal(signal.SIGTERM, stop)
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(64)
        while True:
            connection, _ = listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=Session(connection, store).serve, daemon=True).start()


if __name__ == "__main__":
    main()
