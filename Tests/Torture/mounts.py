"""File systems of a test's own: a small tmpfs, and ext4 in a loop file that can lose its power.

Needs root. What was mounted is unmounted with the object, and at exit whatever happens.
"""

import atexit
import os
import shutil
import subprocess
import tempfile

from report import Mismatch, Skipped

mounted = []


@atexit.register
def unmount_all():
    for path in list(mounted):
        unmount(path)


def unmount(path):
    if path in mounted:
        subprocess.run(["umount", "-l", path], capture_output=True, check=False)
        mounted.remove(path)


def command(*words):
    """Runs a program; its failure is a failed check."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Mismatch(f"{' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")


def need(*programs):
    for program in programs:
        if not shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin"):
            raise Skipped(f"needs {program}")


class Mount:
    """A mounted directory `path`. Use as a context."""

    def __init__(self):
        if os.geteuid() != 0:
            raise Skipped("needs root, to mount a file system")
        self.home = tempfile.mkdtemp(prefix="torture-mount-")
        self.path = os.path.join(self.home, "mnt")
        os.mkdir(self.path)

    def __enter__(self):
        try:
            self.mount()
        except Mismatch as refusal:
            self.__exit__()
            raise Skipped(f"this machine does not mount: {refusal}") from None
        return self

    def __exit__(self, *_):
        unmount(self.path)
        shutil.rmtree(self.home, ignore_errors=True)

    def mount(self):
        raise NotImplementedError


class Memory(Mount):
    """A tmpfs of some MiB, with so many inodes."""

    def __init__(self, mebibytes, inodes=0):
        super().__init__()
        self.options = f"size={mebibytes}m,mode=700" + (f",nr_inodes={inodes}" if inodes else "")

    def mount(self):
        command("mount", "-t", "tmpfs", "-o", self.options, "torture", self.path)
        mounted.append(self.path)

    def fill(self):
        """Takes the room that is left; returns the file that does."""
        name = os.path.join(self.path, "ballast")
        with open(name, "wb", buffering=0) as file:
            try:
                while file.write(b"x" * 4096):
                    pass
            except OSError:
                pass
        return name


class Loop(Mount):
    """ext4 in a file."""

    def __init__(self, mebibytes):
        super().__init__()
        need("mkfs.ext4", "xfs_io")
        self.image = os.path.join(self.home, "image")
        with open(self.image, "wb") as file:
            file.truncate(mebibytes << 20)
        self.make()

    def make(self):
        command("mkfs.ext4", "-q", "-F", "-O", "^metadata_csum,^64bit", self.image)

    def mount(self):
        command("mount", "-o", "loop", self.image, self.path)
        mounted.append(self.path)

    def cut(self):
        """From now on nothing reaches the device, and every call fails: what was not synced is lost."""
        command("xfs_io", "-x", "-c", "shutdown", self.path)

    def remount(self):
        """What the next boot finds. Nothing may have a file open."""
        command("umount", self.path)
        mounted.remove(self.path)
        self.mount()
