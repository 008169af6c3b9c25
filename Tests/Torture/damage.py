"""Damaged stores, by the hundred thousand: one flipped bit, or a file cut, removed, swapped, added, zeroed or replaced.

The daemon makes two stores here, one killed with changes in its journal and its log, one stopped in order. The program
StoreDamage (Tests/Torture/StoreDamage) then damages copies of them and opens each in its own process. Whatever is read
must be what was stored, with its flags and no more than its TTL, or a miss; what was deleted stays deleted.
"""

import os
import re
import shutil
import struct
import subprocess
import tempfile

from connection import Closed
from crash_values import piece_of_length
from faults import KILL
from report import Mismatch, Skipped, expect, expect_true
from scripted import wait_drained
from server import ROOT

FLIPS, SHAPES = 100_000, 5_000
SHORT_FLIPS, SHORT_SHAPES = 160, 60
NOTHING = 0xFFFFFFFF
# A machine under load may run the writer before the answers.
ATTEMPTS = 20


def run(torture):
    program = find_program()
    folder = tempfile.mkdtemp(prefix="torture-damage-")
    try:
        for state in ("killed", "stopped"):
            store = Store(torture, folder, state)
            for kind, amount in (
                ("flip", torture.pick(SHORT_FLIPS, FLIPS) // 2),
                ("shape", torture.pick(SHORT_SHAPES, SHAPES) // 2),
            ):
                if torture.options.only and torture.options.only not in kind:
                    continue
                with torture.case(f"{amount} times one {kind}, store {state}") as texts:
                    texts.append(damage(torture, program, store, folder, kind, amount))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def find_program():
    """StoreDamage as it was built: in release mode it is three times as fast."""
    for build in ("release", "debug"):
        path = os.path.join(ROOT, ".build", build, "StoreDamage")
        if os.access(path, os.X_OK):
            return path
    raise Skipped("StoreDamage is not built: swift build -c release --product StoreDamage")


class Store:
    """A store on disk, and the listing of what its keys hold."""

    def __init__(self, torture, folder, state):
        self.entries = {}
        self.path = os.path.join(folder, state)
        self.listing = os.path.join(folder, state + ".listing")
        for _ in range(ATTEMPTS):
            if self.make(torture, state):
                return self.write_listing()
        raise Mismatch("the daemon reached the disk before it had answered, each time")

    def make(self, torture, state):
        """Fills a daemon's store and ends it; False if it died before its last answers."""
        self.entries = {}
        options = ["--disk-journal", "1MiB"]
        with torture.daemon(memory="8MiB", disk="64MiB", options=options) as server:
            with server.connect() as connection:
                self.fill(connection, 1)
                connection.command(b"flush_all")
                self.entries = dict.fromkeys(self.entries)
                self.fill(connection, 2)
                self.delete(connection, range(0, 20, 5))
            wait_drained(server)
            if state == "killed":
                if not self.kill_before_commit(server):
                    return False
            else:
                expect(server.terminate(), 0, "exit status after SIGTERM")
            shutil.copytree(server.store, self.path)
        return True

    def set(self, version, name, length, flags, ttl):
        """The request that stores a value, which is noted as expected."""
        value = piece_of_length(name, version, length)
        self.entries[name] = (value, flags, ttl)
        return b"set %s %d %d %d\r\n%s\r\n" % (name, flags, ttl, len(value), value)

    def fill(self, connection, version):
        for number in range(20):
            request = self.set(version, b"small-%d" % number, 50 + 61 * number, number << 20, (number % 3) * 50_000)
            connection.send(request)
            expect(connection.line(), b"STORED", "set")
        for number in range(4):
            connection.send(self.set(version, b"large-%d" % number, 21_000 + 5_000 * number, 7, 0))
            expect(connection.line(), b"STORED", "set")

    def delete(self, connection, numbers):
        for number in numbers:
            expect(connection.command(b"delete small-%d" % number), b"DELETED", "delete")
            self.entries[b"small-%d" % number] = None

    def kill_before_commit(self, server):
        """Overwrites, deletes, touches and adds, and dies when the first of it is about to reach the index.

        False if that came before the answers: what was not answered may be there or not.
        """
        requests = [self.set(3, b"small-%d" % number, 400, 99, 0) for number in (1, 6, 11, 16)]
        requests += [self.set(3, b"new-%d" % number, 300, 5, 70_000) for number in range(4)]
        requests += [self.set(3, b"large-0", 500, 8, 0)]
        for name in (b"small-2", b"large-1"):
            requests.append(b"delete %s\r\n" % name)
            self.entries[name] = None
        value, flags, _ = self.entries[b"small-3"]
        self.entries[b"small-3"] = (value, flags, 30_000)
        requests.append(b"touch small-3 30000\r\n")
        try:
            with server.connect() as connection:
                server.faults.arm(KILL, ["write"])
                connection.send(b"".join(requests))
                for _ in requests:
                    connection.line()
        except (Closed, OSError):
            return False
        expect_true(server.process.wait(60) == -9, "the daemon was not killed at its first write")
        return True

    def write_listing(self):
        with open(self.listing, "wb") as file:
            for name, entry in self.entries.items():
                value, flags, ttl = entry or (b"", 0, 0)
                length = len(value) if entry else NOTHING
                file.write(struct.pack("<IIII", len(name), flags, ttl, length) + name + value)


def damage(torture, program, store, folder, kind, amount):
    """Runs two processes with half of the cases each; returns the figures in words."""
    half = (amount + 1) // 2
    processes = []
    for part in range(2):
        work = os.path.join(folder, f"work-{part}")
        command = [program, store.path, store.listing, work, kind, str(half), str(torture.seed + part)]
        processes.append(
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace"))
    try:
        return collect(torture, processes, kind, 2 * half)
    finally:
        for process in processes:
            process.kill()
            process.wait()


def collect(torture, processes, kind, total):
    sums = {}
    for line in processes[0].stderr:
        done = line.split()[0]
        if done.isdigit():
            torture.progress(kind, 2 * int(done), total)
    for process in processes:
        output, errors = process.communicate()
        if process.returncode != 0:
            raise Mismatch(f"status {process.returncode}: {output[-1500:]} {errors[-1500:]}")
        for name, value in re.findall(r"(\w+)=(\d+)", output):
            sums[name] = sums.get(name, 0) + int(value)
    return ", ".join(f"{value} {name}" for name, value in sums.items())
