"""The entries of the lying server: in memory, in an append-only log, and in one file per large value.

Told no lie, every change is written before it is answered, which is enough to lose nothing by kill -9: what a process
has written outlives it. Some lies sleep a little to widen their window. The caller holds `lock` around every call.
"""

import binascii
import os
import struct
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
            body = log[position + 8 : position + 8 + size]
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
        _, _, kind, key_length, flags, deadline, cas, value_length = RECORD.unpack(b"\0" * 8 + body[: RECORD.size - 8])
        key = body[RECORD.size - 8 : RECORD.size - 8 + key_length]
        value = body[RECORD.size - 8 + key_length : RECORD.size - 8 + key_length + value_length]
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
