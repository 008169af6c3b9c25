"""A client that measures gets, in a process of its own, and tells the daemon's time from the machine's.

It asks for one key at a time, every millisecond, and notes how long each answer took, and for how long meanwhile the
threads that the answer may need, and its own, were runnable and had no CPU: the kernel counts that in
/proc/PID/task/TID/schedstat (Documentation/scheduler/sched-stats.rst). Of these waits the longest single thread's is
taken off, never their sum, for they may overlap. So what is called `own` is never less than what the daemon took by
itself: time on a CPU, behind locks, behind the disk. The writer's waits are not taken off: no get is to wait for it.

`Probe` is for the harness; the file itself is the program that it starts.
"""

import json
import os
import random
import select
import subprocess
import sys
import time

SERVING = ("worker-", "disk-reader-")


class Probe:
    """Runs from `start` until `finish`, which returns a `Measured`."""

    def __init__(self, server, keys):
        host, port = server.address
        command = [sys.executable, os.path.abspath(__file__), host, str(port), str(server.process.pid)]
        self.process = subprocess.Popen(
            [*command, *(key.decode() for key in keys)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()

    def finish(self):
        text, _ = self.process.communicate(timeout=60)
        return Measured(**json.loads(text))


class Measured:
    """What a probe has seen, in seconds; several add up to the worst of them."""

    def __init__(self, gets=0, slowest=0.0, own=0.0, problem=None):
        self.gets = gets
        self.slowest = slowest
        self.own = own
        self.problem = problem

    def add(self, other):
        self.gets += other.gets
        self.slowest = max(self.slowest, other.slowest)
        self.own = max(self.own, other.own)
        self.problem = self.problem or other.problem

    def __str__(self):
        return (
            f"{self.gets} gets measured, the slowest {self.slowest * 1000:.0f} ms, "
            f"without waits for a CPU {self.own * 1000:.0f} ms"
        )


class Waits:
    """How long threads have waited for a CPU."""

    def __init__(self, pid):
        self.files = [os.open("/proc/thread-self/schedstat", os.O_RDONLY)]
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/comm", encoding="ascii") as file:
                name = file.read()
            if name.startswith(SERVING):
                self.files.append(os.open(f"/proc/{pid}/task/{task}/schedstat", os.O_RDONLY))

    def read(self):
        return [int(os.pread(file, 80, 0).split()[1]) for file in self.files]


def measure(address, pid, keys):
    """Asks until the standard input ends."""
    from connection import Closed, Connection

    waits = Waits(pid)
    measured = Measured()
    draw = random.Random(1)
    try:
        with Connection(address, timeout=10) as connection:
            print("begun", flush=True)
            while not select.select([sys.stdin], [], [], 0.001)[0]:
                before = waits.read()
                begin = time.monotonic()
                connection.get(draw.choice(keys))
                spent = time.monotonic() - begin
                waited = max(after - earlier for after, earlier in zip(waits.read(), before)) / 1e9
                measured.add(Measured(1, spent, max(0.0, spent - waited)))
    except (Closed, OSError) as error:
        measured.problem = f"{type(error).__name__}: {error}"
    print(json.dumps(vars(measured)), flush=True)


if __name__ == "__main__":
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "Conformance"))
    measure((sys.argv[1], int(sys.argv[2])), int(sys.argv[3]), [key.encode() for key in sys.argv[4:]])
