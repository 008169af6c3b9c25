"""Directs faults.c: compiles it, and arms and disarms faults in a running daemon through a mapped file.

A `FaultyDaemon` is the daemon with the shim loaded. Its `faults` arms the N-th call of some kinds to fail, to be cut
short, or to be the last; shifts the daemon's civil clock; and shows it another boot id. Nothing is armed at first. The
shim is compiled once per run into the system's temporary directory, with the C compiler that Swift needs anyway.
"""

import atexit
import mmap
import os
import shutil
import struct
import subprocess
import tempfile
import uuid

from report import Mismatch, Skipped
from server import Daemon

KINDS = ("open", "read", "write", "sync", "rename", "unlink", "truncate", "allocate", "make")
NOTHING, KILL, FAIL, SHORT, TEAR = range(5)
ACTION, MASK, WHEN, FOREVER, ERRNO, COUNT, HITS, SHIFT_NS, BOOT_SHOWN = range(9)
BOOT_TEXT, TOTALS, WORDS = 10, 20, 64
compiled = []


def library():
    """The path of the compiled shim."""
    if not compiled:
        compiler = shutil.which("gcc") or shutil.which("cc") or shutil.which("clang")
        if not compiler:
            raise Skipped("needs a C compiler")
        folder = tempfile.mkdtemp(prefix="torture-shim-")
        atexit.register(shutil.rmtree, folder, True)
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "faults.c")
        target = os.path.join(folder, "faults.so")
        subprocess.run(
            [compiler, "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", target, source, "-ldl"], check=True)
        compiled.append(target)
    return compiled[0]


class Faults:
    """The words that the shim reads. Usable before the daemon starts and while it runs."""

    def __init__(self, path):
        self.path = path
        with open(path, "wb") as file:
            file.write(bytes(WORDS * 8))
        with open(path, "r+b") as file:
            self.words = mmap.mmap(file.fileno(), WORDS * 8)

    def get(self, word):
        return struct.unpack_from("<q", self.words, word * 8)[0]

    def put(self, word, value):
        struct.pack_into("<q", self.words, word * 8, value)

    def arm(self, action, kinds, when=1, forever=False, code=0):
        """From now on: the `when`-th call of `kinds` meets `action`, and with `forever` each after it."""
        self.disarm()
        self.put(MASK, sum(1 << KINDS.index(kind) for kind in kinds))
        self.put(WHEN, when)
        self.put(FOREVER, forever)
        self.put(ERRNO, code)
        self.put(COUNT, 0)
        self.put(HITS, 0)
        self.put(ACTION, action)

    def disarm(self):
        self.put(ACTION, NOTHING)

    @property
    def hits(self):
        """How many calls met the armed fault."""
        return self.get(HITS)

    @property
    def count(self):
        """How many calls of the armed kinds there were."""
        return self.get(COUNT)

    def total(self, kind):
        """How many calls of this kind there were since the file was made."""
        return self.get(TOTALS + KINDS.index(kind))

    def shift_clock(self, seconds):
        """The daemon's civil clock is `seconds` ahead of ours."""
        self.put(SHIFT_NS, round(seconds * 1e9))

    def reboot(self):
        """What starts from now on believes that the machine was booted anew."""
        text = f"{uuid.uuid4()}\n".encode()
        self.words[BOOT_TEXT * 8 : BOOT_TEXT * 8 + len(text)] = text
        self.put(BOOT_SHOWN, 1)


class FaultyDaemon(Daemon):
    """Our daemon with the shim loaded."""

    def __init__(self, path, store=None, **settings):
        super().__init__(path, **settings)
        self.store = store or self.store
        self.faults = Faults(os.path.join(self.home, "faults"))
        self.is_ended = False
        self.environment["LD_PRELOAD"] = library()
        self.environment["TORTURE_CONTROL"] = self.faults.path
        parent, name = os.path.split(self.store)
        self.environment["TORTURE_ROOT"] = os.path.join(os.path.realpath(parent), name)

    def launch(self):
        self.is_ended = False
        return super().launch()

    def terminate(self, seconds=60.0):
        self.is_ended = True
        return super().terminate(seconds)

    def kill(self):
        """SIGKILL. One that is gone already, not by our doing, has crashed: that is the finding."""
        status = self.process.poll() if self.process else None
        if status is not None and not self.is_ended and not self.faults.hits:
            self.is_ended = True
            raise Mismatch(f"the daemon ended by itself with {status}: {self.log_tail(2000)}")
        self.is_ended = True
        super().kill()
