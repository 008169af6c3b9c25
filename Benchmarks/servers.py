"""The servers that are compared: how to start them, and what the kernel says that they cost."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def fail(message, code=69):
    """Ends the run; 69: something that is needed is not there."""
    print(f"bench: {message}", file=sys.stderr)
    sys.exit(code)


def free_port():
    """A loopback port that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def pinned(cores, command):
    """The command, held to some cores; None: to none."""
    return command if cores is None else ["taskset", "-c", cores, *command]


def output_of(command):
    """What a command prints, or nothing."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


class Subject:
    """A kind of server: its name and how to start it."""

    def __init__(self, name, path, kind):
        self.name, self.path, self.kind = name, path, kind
        self.version = (output_of([path, "--version"]) or "unknown").splitlines()[0]

    def command(self, port, directory, memory_mib=1024, threads=1, connections=4096, disk="8GiB"):
        """The command line; `disk` is the limit of the disk tier, for the subject that has one."""
        if self.kind == "memcached":
            user = ["-u", "root"] if os.geteuid() == 0 else []
            return [self.path, "-l", "127.0.0.1", "-p", str(port), "-U", "0", "-m", str(memory_mib),
                    "-t", str(threads), "-c", str(connections), *user]
        tier = ["--no-disk"] if self.kind == "memory" else ["--dir", directory, "--disk", disk, "--no-warm-up"]
        return [self.path, "--listen", f"127.0.0.1:{port}", "--memory", f"{memory_mib}MiB",
                "--threads", str(threads), "--max-connections", str(connections), *tier]


class Server:
    """One running server, stopped at the end of the `with` block."""

    def __init__(self, subject, cores, **settings):
        self.subject, self.port = subject, free_port()
        self.directory = tempfile.mkdtemp(prefix="cache-bench-")
        self.log = open(os.path.join(self.directory, "log"), "w+")
        command = subject.command(self.port, os.path.join(self.directory, "tier"), **settings)
        self.process = subprocess.Popen(pinned(cores, command), stdout=self.log, stderr=self.log)

    def __enter__(self):
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and self.process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1) as client:
                client.sendall(b"version\r\n")
                if client.recv(100).startswith(b"VERSION"):
                    return self
            time.sleep(0.02)
        self.log.seek(0)
        text = self.log.read()[-2000:]
        self.__exit__()
        fail(f"{self.subject.name} did not start: {' '.join(self.process.args)}\n{text}")

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                print(f"bench: {self.subject.name} ignores SIGTERM, killed", file=sys.stderr)
                self.process.kill()
                self.process.wait()
        self.log.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def cpu_seconds(self):
        """utime + stime of the whole process; proc(5), fields 14 and 15."""
        with open(f"/proc/{self.process.pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def resident_bytes(self):
        """Resident memory; proc(5)."""
        with open(f"/proc/{self.process.pid}/statm") as file:
            return int(file.read().split()[1]) * PAGE

    def statistics(self):
        """What `stats` answers, as a dictionary of strings."""
        with socket.create_connection(("127.0.0.1", self.port), 5) as client:
            client.sendall(b"stats\r\n")
            text = b""
            while not text.endswith(b"END\r\n"):
                text += client.recv(65536)
        return dict(line.split(" ", 2)[1:] for line in text.decode().splitlines() if line.startswith("STAT "))
