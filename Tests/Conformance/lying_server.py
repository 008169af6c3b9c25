#!/usr/bin/python3
"""A small cache server that keeps its entries on disk and can be told to lie; it proves that the crash checker sees lies.

`lying_server.py PORT DIRECTORY [LIE]`. Small values live in an append-only log, large ones in files of their own. Told
nothing, it writes before it answers, so that a kill -9 loses nothing. Each lie is one mistake that a real server could
make (see `LIES`). Python's speed gives every window a chance to be hit; some lies sleep a little to widen theirs. One lock
makes commands atomic; a thread serves each connection.
"""

import binascii
import fcntl
import os
import signal
import socket
import struct
import sys
import threading
import time

LARGE = 20 * 1024
MOST = 64 << 20
LIES = {
    "none": "nothing: the honest server",
    "ack_before_commit": "answers first and writes up to 20 ms later",
    "unlink_before_commit": "removes the replaced file before the new entry is in the log",
    "in_place_overwrite": "writes a large value over the file of the old one",
    "delete_in_memory": "does not write deletes down",
    "flush_in_memory": "does not write flush_all down",
    "touch_in_memory": "does not write touch and gat down",
    "counter_in_memory": "does not write incr and decr down",
    "append_in_memory": "does not write append and prepend down",
    "flags_forgotten": "reads entries back without their client flags",
    "ttl_forgotten": "reads entries back without their TTL",
    "cas_repeats": "counts cas uniques from 1 again after a start",
    "cas_changes": "gives entries new cas uniques after a start",
    "cas_ignored": "stores whatever the unique is",
    "wrong_entry": "now and then reads an entry back under another key of the same length",
    "torn_tail": "takes a record whose end is missing for whole and fills it up",
    "old_copy": "now and then reads the version before the last one back",
    "lost_overwrite": "now and then loses an overwrite of a large value and keeps the old one",
}
RECORD = struct.Struct("<IIBHIdQI")  # sum, size, kind, key length, flags, deadline, cas, value length
PUT, DELETE, FLUSH, FILE = 1, 2, 3, 4


class Entry:
    __slots__ = ("data", "flags", "deadline", "cas", "path", "is_cold")

    def __init__(self, data, flags, deadline, cas, path=None):
        self.data = data
        self.flags = flags
        self.deadline = deadline
        self.cas = cas
        self.path = path
        self.is_cold = False


class Store:
    """Entries in memory, log and files on disk. The caller holds `lock`."""

    def __init__(self, directory, lie):
        self.lock = threading.Lock()
        self.directory = directory
        self.lie = lie
        self.entries = {}
        self.cas = 0
        self.files = 0
        self.waiting = []
        self.flush_at = 0.0
        self.hits = [0, 0]  # of warm entries, of entries not read since the start
        self.load()
        self.log = os.open(os.path.join(directory, "log"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        if lie == "ack_before_commit":
            threading.Thread(target=self.write_later, daemon=True).start()

    def write_later(self):
        while True:
            time.sleep(0.02)
            with self.lock:
                for record in self.waiting:
                    os.write(self.log, record)
                self.waiting.clear()

    def append(self, record):
        if self.lie == "ack_before_commit":
            self.waiting.append(record)
        elif self.lie == "torn_tail" and len(record) > 200:
            os.write(self.log, record[:100])
            time.sleep(0.001)
            os.write(self.log, record[100:])
        else:
            os.write(self.log, record)

    def record(self, kind, key=b"", entry=None, value=b""):
        flags, deadline, cas = (entry.flags, entry.deadline, entry.cas) if entry else (0, 0.0, self.cas)
        body = RECORD.pack(0, 0, kind, len(key), flags, deadline, cas, len(value))[8:] + key + value
        self.append(struct.pack("<II", binascii.crc32(body), len(body)) + body)

    def load(self):
        path = os.path.join(self.directory, "log")
        if not os.path.exists(path):
            return
        with open(path, "rb") as file:
            log = file.read()
        position = 0
        while position + 8 <= len(log):
            check, size = struct.unpack_from("<II", log, position)
            body = log[position + 8:position + 8 + size]
            if self.lie == "torn_tail":
                body = body.ljust(size, b"\0")
            elif len(body) < size or binascii.crc32(body) != check:
                break
            self.replay(body)
            position += 8 + size
        os.truncate(path, min(position, len(log)))
        if self.lie == "torn_tail" and position > len(log):
            os.truncate(path, position)
        self.after_load()

    def replay(self, body):
        _, _, kind, key_length, flags, deadline, cas, value_length = RECORD.unpack(b"\0" * 8 + body[:RECORD.size - 8])
        key = body[RECORD.size - 8:RECORD.size - 8 + key_length]
        value = body[RECORD.size - 8 + key_length:RECORD.size - 8 + key_length + value_length]
        self.cas = max(self.cas, cas)
        if kind == FLUSH:
            self.flush_at = deadline
            if not deadline:
                self.entries.clear()
        elif kind == DELETE:
            self.entries.pop(key, None)
        else:
            path = value if kind == FILE else None
            before = self.entries.get(key)
            if before is not None and before.path and path and self.lie == "lost_overwrite" and cas % 13 == 0:
                if os.path.exists(os.path.join(self.directory.encode(), before.path)):
                    return
            if before is not None and self.lie == "old_copy" and cas % 17 == 0 and before.path is None:
                return
            self.entries[key] = Entry(b"" if path else value, flags, deadline, cas, path)

    def after_load(self):
        keys = sorted(self.entries)
        for key in keys:
            entry = self.entries[key]
            entry.is_cold = True
            if self.lie == "flags_forgotten":
                entry.flags = 0
            if self.lie == "ttl_forgotten":
                entry.deadline = 0.0
            if self.lie == "cas_changes":
                self.cas += 1
                entry.cas = self.cas
            if entry.path:
                try:
                    with open(os.path.join(self.directory.encode(), entry.path), "rb") as file:
                        entry.data = file.read()
                except FileNotFoundError:
                    del self.entries[key]
        if self.lie == "wrong_entry" and self.cas % 3 == 0:
            self.swap(keys)
        self.compact()
        if self.lie == "cas_repeats":
            self.cas = 0

    def compact(self):
        """Writes a short log when the old one has grown, and removes the files that no entry names."""
        path = os.path.join(self.directory, "log")
        if os.path.getsize(path) > 1 << 20:
            self.log = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            self.record(DELETE)
            for key, entry in self.entries.items():
                self.record(FILE if entry.path else PUT, key, entry, entry.path or entry.data)
            if self.flush_at:
                self.flush(self.flush_at)
            for record in self.waiting:
                os.write(self.log, record)
            self.waiting.clear()
            os.close(self.log)
            os.rename(path + ".new", path)
        named = {entry.path for entry in self.entries.values()}
        for name in os.listdir(self.directory.encode()):
            if name not in named and name not in (b"log", b".lock"):
                os.unlink(os.path.join(self.directory.encode(), name))

    def swap(self, keys):
        for one, other in zip(keys, keys[1:]):
            if one in self.entries and other in self.entries and len(one) == len(other):
                self.entries[one], self.entries[other] = self.entries[other], self.entries[one]
                return

    def get(self, key):
        entry = self.entries.get(key)
        if entry is not None and entry.deadline and entry.deadline <= time.time():
            del self.entries[key]
            self.record(DELETE, key)
            return None
        return entry

    def put(self, key, data, flags, deadline, silent_on_disk=False):
        """Stores a new value: file first, then the log record, then the old file goes."""
        self.cas += 1
        entry = Entry(data, flags, deadline, self.cas)
        old = self.entries.get(key)
        old_path = old.path if old else None
        if len(data) > LARGE:
            entry.path = self.write_file(key, data, old_path)
        if self.lie == "unlink_before_commit" and old_path:
            self.remove(old_path, entry.path)
            time.sleep(0.004)
        self.entries[key] = entry
        if not silent_on_disk:
            self.record(FILE if entry.path else PUT, key, entry, entry.path or data)
        if self.lie not in ("unlink_before_commit", "lost_overwrite") and not silent_on_disk:
            self.remove(old_path, entry.path)

    def write_file(self, key, data, old_path):
        if self.lie == "in_place_overwrite":
            path = b"of-" + key
        else:
            self.files += 1
            path = b"%d-%d" % (os.getpid(), self.files)
        descriptor = os.open(os.path.join(self.directory.encode(), path), os.O_WRONLY | os.O_CREAT, 0o600)
        half = len(data) // 2
        os.write(descriptor, data[:half])
        time.sleep(0.0005)
        os.write(descriptor, data[half:])
        os.ftruncate(descriptor, len(data))
        os.close(descriptor)
        return path

    def remove(self, old_path, new_path):
        if old_path and old_path != new_path:
            try:
                os.unlink(os.path.join(self.directory.encode(), old_path))
            except FileNotFoundError:
                pass

    def delete(self, key):
        entry = self.get(key)
        if entry is None:
            return False
        del self.entries[key]
        if self.lie != "delete_in_memory":
            self.record(DELETE, key)
            self.remove(entry.path, None)
        return True

    def touch(self, key, deadline):
        entry = self.get(key)
        if entry is None:
            return None
        entry.deadline = deadline
        if self.lie != "touch_in_memory":
            self.record(FILE if entry.path else PUT, key, entry, entry.path or entry.data)
        return entry

    def flush(self, deadline=0.0):
        """A delayed flush is a record with its deadline; there is one at most."""
        self.flush_at = deadline
        if not deadline:
            self.entries.clear()
        if self.lie != "flush_in_memory":
            self.record(FLUSH, entry=Entry(b"", 0, deadline, self.cas))

    def flush_if_due(self):
        if self.flush_at and self.flush_at <= time.time():
            self.flush()


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
            data = bytes(self.buffer[end + 2:end + size])
            del self.buffer[:end + 2 + size]
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
        store.put(key, (b"%d" % number).ljust(len(entry.data)), entry.flags, entry.deadline, store.lie == "counter_in_memory")
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


STORAGE = (b"set", b"add", b"replace", b"append", b"prepend", b"cas")


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
