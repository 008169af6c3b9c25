"""Counts instructions and allocations per request under valgrind's callgrind, against a budget.

Times differ from run to run, counts do not: what a change costs shows here before any clock sees it. The daemon (memory
only, one thread) gets the same requests twice, once more often than the other time; the difference over the difference
in number is what one request costs in user space, without start and stop. Requests come 16 at a time, as pipelining
clients send them. Only a release build is held to the budget.
"""

import glob
import os
import re
import shutil
import socket
import subprocess
import time

from report import Skipped
from server import free_port

# Samples keys every few milliseconds: often by the count of requests when these are as slow as here.
SAMPLER = r".*7SessionV6sample.*"
FEW, MANY, BATCH = 160, 8160, 16
VALUE = b"v" * 100

# Instructions and malloc calls per request: a tenth above what was measured when the budget was set.
BUDGET = {"hit": (1150, 0), "miss": (900, 0), "set": (1450, 0), "set and delete": (4700, 0)}


def key(number):
    return b"counts:%08d" % number


def set_line(number, end=b""):
    return b"set %s 0 0 %d%s\r\n%s\r\n" % (key(number), len(VALUE), end, VALUE)


# The same few keys again and again: the sampler keeps what it knows already.
REQUESTS = {
    "hit": lambda n: b"get %s\r\n" % key(n % BATCH),
    "miss": lambda n: b"get absent:%08d\r\n" % (n % BATCH),
    "set": lambda n: set_line(n % BATCH),
    "set and delete": lambda n: set_line(n % BATCH, b" noreply") + b"delete %s\r\n" % key(n % BATCH),
}


def calls(text, name):
    """How often a function is called, by the output of callgrind."""
    return sum(int(m) for m in re.findall(rf"^cfn={name}\ncalls=(\d+)", text, re.M))


def inclusive(text, pattern):
    """Instructions spent in calls of functions whose name matches, with everything that they call."""
    return sum(int(m) for m in re.findall(rf"^cfn={pattern}\ncalls=.*\n\S+ (\d+)", text, re.M))


class Counted:
    """A daemon under callgrind."""

    def __init__(self, path, home):
        self.port, self.out = free_port(), os.path.join(home, f"callgrind.{time.monotonic_ns()}")
        self.process = subprocess.Popen(
            ["valgrind", "--tool=callgrind", "--separate-threads=yes", f"--callgrind-out-file={self.out}",
             "--compress-strings=no", path, "--listen", f"127.0.0.1:{self.port}", "--threads", "1", "--no-disk"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.socket = self.connect()

    def connect(self):
        """Valgrind starts slowly."""
        deadline = time.monotonic() + 60
        while True:
            try:
                return socket.create_connection(("127.0.0.1", self.port), 60)
            except OSError:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise
                time.sleep(0.05)

    def ask(self, requests, ends, mark):
        """Sends a batch and reads until as many replies have ended."""
        self.socket.sendall(b"".join(requests))
        reply = b""
        while reply.count(mark) < ends:
            part = self.socket.recv(65536)
            if not part:
                raise ConnectionError("the daemon closed")
            reply += part

    def stop(self):
        """Ends the daemon; returns its worker's instructions and calls of malloc."""
        self.socket.close()
        self.process.terminate()
        self.process.wait(60)
        threads = []
        for name in glob.glob(f"{self.out}-*"):
            with open(name) as file:
                threads.append(file.read())
        # Other threads work by the clock. The worker is the one that reads.
        worker = max(threads, key=lambda text: calls(text, "recv"))
        total = int(re.search(r"^(?:summary|totals): (\d+)", worker, re.M).group(1))
        return total - inclusive(worker, SAMPLER), calls(worker, "malloc")


# How the last, or only, line of a reply ends.
MARKS = {"hit": b"END\r\n", "miss": b"END\r\n", "set": b"STORED\r\n", "set and delete": b"DELETED\r\n"}


def count(path, home, kind, number):
    """Instructions and mallocs of a daemon that got the common requests, and `number` of one kind."""
    daemon = Counted(path, home)
    for start in range(0, 1000, 50):
        daemon.ask([set_line(n) for n in range(start, start + 50)], 50, b"STORED\r\n")
    for start in range(0, number, BATCH):
        daemon.ask([REQUESTS[kind](n) for n in range(start, start + BATCH)], BATCH, MARKS[kind])
    return daemon.stop()


def run(context):
    """Each kind of request against its budget."""
    daemon = context.daemon()
    if not shutil.which("valgrind"):
        raise Skipped("valgrind is not installed")
    if f"{os.sep}debug{os.sep}" in os.path.realpath(daemon.path):
        raise Skipped("counts of a debug build say nothing")
    # Valgrind 3.19 gives up on the debugging sections that Swift writes; the names of functions stay.
    path = os.path.join(daemon.home, "cache-daemon")
    subprocess.run(["strip", "--strip-debug", "-o", path, daemon.path], check=True)
    for kind, (instructions_max, mallocs_max) in BUDGET.items():
        few = count(path, daemon.home, kind, FEW)
        many = count(path, daemon.home, kind, MANY)
        instructions, mallocs = ((b - a) / (MANY - FEW) for a, b in zip(few, many))
        context.report.note(f"{kind}: {instructions:.0f} instructions, {mallocs:.2f} mallocs per request")
        with context.report.case(f"{kind}: at most {instructions_max} instructions"):
            assert instructions <= instructions_max, f"{instructions:.0f}"
        with context.report.case(f"{kind}: at most {mallocs_max} mallocs"):
            assert mallocs <= mallocs_max + 0.25, f"{mallocs:.2f}"
