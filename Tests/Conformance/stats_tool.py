"""cache-stats against a running daemon: every view, as text and as JSON, exit codes, and `top` on a terminal."""

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

import server
from connection import PATIENCE
from report import Skipped, expect, expect_true

VIEWS = "summary hist hot big slow options all settings items slabs sizes conns".split()


def run(context):
    report = context.report
    report.suite = "stats"
    if not context.daemon_path:
        report.line("skip stats: no daemon")
        return
    with server.Daemon(context.daemon_path, memory="4MiB", options=["--log-slow", "1ms"]) as daemon:
        tool = Tool(context, daemon)
        fill(daemon)
        for view in VIEWS:
            with report.case(f"{view} is text for people and JSON for programs"):
                tool.check_view(view)
        with report.case("explain says where a key is: memory, the index, a file, nowhere"):
            tool.check_explain()
        with report.case("keys lists both tiers by prefix; an empty list is an exit code"):
            tool.check_keys()
        with report.case("check is a monitoring plugin"):
            tool.check_check()
        with report.case("watch shows what clients do"):
            tool.check_watch()
        with report.case("top fills a terminal, follows its size, and leaves it as it was"):
            tool.check_top()
        with report.case("colours only on a terminal, and not with NO_COLOR"):
            tool.check_colour()
        with report.case("manual page and completions"):
            tool.check_generated()


def fill(daemon):
    with daemon.connect() as client:
        client.set(b"file", b"f" * 100_000)
        for number in range(3000):
            client.send(b"set cold-%d 0 0 2000 noreply\r\n%s\r\n" % (number, b"v" * 2000))
        client.set(b"warm", b"w", flags=7)
        deadline = time.monotonic() + PATIENCE
        while client.stats()[b"journal_used_bytes"] != b"0" and time.monotonic() < deadline:
            time.sleep(0.05)
        for _ in range(20):
            for _ in range(20):
                client.get(b"warm")
            client.get(b"absent")
            client.get(b"cold-0")
            time.sleep(0.01)


class Tool:
    """The cache-stats that lies beside the daemon."""

    def __init__(self, context, daemon):
        self.path = os.path.join(os.path.dirname(context.daemon_path), "cache-stats")
        self.daemon = daemon
        self.address = "%s:%d" % daemon.address

    def run(self, *arguments, address=None, environment=None):
        if not os.access(self.path, os.X_OK):
            raise Skipped(f"there is no {self.path}")
        return subprocess.run(
            [self.path, address or self.address, *arguments], capture_output=True, text=True, timeout=PATIENCE,
            stdin=subprocess.DEVNULL, env={**os.environ, **(environment or {})})

    def check_view(self, view):
        done = self.run(view)
        expect((done.returncode, done.stderr), (0, ""), view)
        expect_true(done.stdout.strip() != "" and "\x1b" not in done.stdout, f"{view}: {done.stdout[:200]}")
        document = json.loads(self.run(view, "--json").stdout)
        expect_true(document, f"{view} --json is empty")
        if view == "hot":
            expect(document[0]["key"], "warm", "the hottest key")
        if view == "big":
            expect((document[0]["key"], document[0]["bytes"]), ("file", 100_000), "the largest entry")
        if view == "hist":
            expect_true({"get_memory_hit", "get_disk_hit"} <= {row["kind"] for row in document}, "kinds")
        if view == "summary":
            expect_true("memory " in done.stdout and "since start" in done.stdout, done.stdout)

    def check_explain(self):
        wanted = {"warm": "memory", "cold-1": "inline", "file": "file"}
        for key, storage in wanted.items():
            found = json.loads(self.run("explain", key, "--json").stdout)
            expect((found["storage"], found["tier"]), (storage, "memory" if key == "warm" else "disk"), key)
            expect_true(re.fullmatch("0x[0-9a-f]{16}", found["generation"]), f"the generation of {key}: {found}")
            expect(found["file"].startswith("store/v/"), storage == "file", f"the file of {key}")
            expect(found["fetched"], "yes" if key == "warm" else "no", f"whether {key} was read")
        path = os.path.join(self.daemon.store, json.loads(self.run("explain", "file", "--json").stdout)["file"])
        expect_true(os.path.getsize(path) >= 100_000, f"{path} has the value")
        generation = json.loads(self.run("explain", "file", "--json").stdout)["generation"]
        expect(os.path.basename(path), generation[2:], "the file has its generation's name")
        expect_true(float(json.loads(self.run("explain", "warm", "--json").stdout)["hits_per_second"]) > 1, "requests")
        again = json.loads(self.run("explain", "cold-1", "--json").stdout)
        expect(again["storage"], "inline", "looking does not promote")
        expect(self.run("explain", "warm").stdout.split()[-1], "-1", "it never expires")
        expect(self.run("explain", "nothing").returncode, 1, "the exit status for an absent key")

    def check_keys(self):
        done = self.run("keys", "cold-29")
        names = {"cold-29"} | {f"cold-29{n}" for n in range(10)} | {f"cold-29{n:02}" for n in range(100)}
        expect(set(done.stdout.split()), names, "keys by prefix")
        expect(self.run("keys", "zzz").returncode, 1, "the exit status for none")
        row = json.loads(self.run("keys", "warm", "--json").stdout)
        expect(row["key"], "warm", "a key as JSON")
        expect(len(self.run("keys", "--count", "5").stdout.split()), 5, "--count")

    def check_check(self):
        done = self.run("check", "--min-hit-ratio", "1", "--max-latency", "10s")
        expect(done.returncode, 0, done.stdout)
        expect_true(re.match(r"CACHE OK - all is well \| hit_ratio=", done.stdout), done.stdout)
        done = self.run("check", "--min-hit-ratio", "99.9")
        expect_true(done.returncode == 2 and "CACHE CRITICAL - hit ratio" in done.stdout, done.stdout)
        nobody = f"127.0.0.1:{server.free_port()}"
        done = self.run("check", address=nobody)
        expect_true(done.returncode == 2 and "CRITICAL" in done.stdout, done.stdout)
        expect(self.run("summary", address=nobody).returncode, 69, "the exit status without a server")
        expect(self.run("summary", "--nope").returncode, 64, "the exit status for wrong usage")

    def check_watch(self):
        command = [self.path, self.address, "watch", "--count", "1"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        with self.daemon.connect() as client:
            deadline = time.monotonic() + PATIENCE
            while process.poll() is None and time.monotonic() < deadline:
                client.get(b"warm")
                time.sleep(0.02)
        expect(process.wait(PATIENCE), 0, "the exit status")
        expect_true("type=item_get key=warm status=found" in process.stdout.read(), "a fetch")

    def check_top(self):
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        before = termios.tcgetattr(slave)
        process = subprocess.Popen(
            [self.path, self.address, "top", "--watch", "0.2"], stdin=slave, stdout=slave, stderr=slave,
            env={**os.environ, "TERM": "xterm"})
        # Whole, with the beginning of the next one.
        text = read_until(master, "Hot keys") + read_until(master, "\x1b[H")
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 6, 40, 0, 0))
        frame = small_frame(master)
        os.write(master, b"q")
        expect(process.wait(PATIENCE), 0, "the exit status")
        rest = read_for(master, 0.2)
        expect_true(text.startswith("\x1b[?1049h") and "Hit ratio" in text and "Latency" in text, text[:500])
        check_sample(text)
        expect_true("Hot keys" not in frame and frame.count("\r\n") <= 5, f"a small window: {frame!r}")
        expect_true(rest.endswith("\x1b[?25h\x1b[?1049l"), f"the end: {rest[-40:]!r}")
        expect(termios.tcgetattr(slave), before, "the terminal's settings")
        keep_capture(text)
        os.close(master)
        os.close(slave)

    def check_colour(self):
        for environment, wanted in (({}, True), ({"NO_COLOR": "1"}, False)):
            master, slave = pty.openpty()
            process = subprocess.Popen(
                [self.path, self.address], stdin=slave, stdout=slave, stderr=slave,
                env={**os.environ, "TERM": "xterm", **environment})
            text = read_until(master, "Memory")
            expect(process.wait(PATIENCE), 0, "the exit status")
            expect("\x1b[" in text, wanted, f"escape sequences with {environment}")
            os.close(master)
            os.close(slave)

    def check_generated(self):
        for what, text in (("man", ".SH NAME"), ("bash", "complete -F"), ("zsh", "#compdef"), ("fish", "complete -c")):
            expect_true(text in self.run("--generate", what).stdout, what)
        expect(self.run("--generate", "poem").returncode, 64, "the exit status for an unknown text")


def check_sample(screen):
    """What docs/OPERATIONS.md shows of `top` is what it shows: every label of the sample is on the screen."""
    with open(os.path.join(server.ROOT, "docs", "OPERATIONS.md"), encoding="utf-8") as file:
        sample = re.search(r"`top` looks like this:\n\n```\n(.*?)```", file.read(), re.DOTALL).group(1)
    labels = {label.strip() for label in re.findall(r"^([A-Z][A-Za-z ,]+?)(?=  |$)", sample, re.MULTILINE)}
    expect_true(len(labels) >= 10, f"labels of the sample: {labels}")
    expect({label for label in labels if label not in screen}, set(), f"labels that {screen[:300]!r} lacks")


def read_until(master, text, seconds=PATIENCE):
    deadline = time.monotonic() + seconds
    seen = ""
    while text not in seen and time.monotonic() < deadline:
        seen += read_for(master, 0.1)
    return seen


def small_frame(master):
    """The first whole frame that fits into the small window; the last one seen, where none does."""
    deadline = time.monotonic() + PATIENCE
    seen = ""
    while time.monotonic() < deadline:
        seen += read_for(master, 0.1)
        for frame in seen.split("\x1b[H")[1:-1]:
            if frame.count("\r\n") <= 5:
                return frame
    return seen.rpartition("\x1b[H")[2]


def read_for(master, seconds):
    deadline = time.monotonic() + seconds
    seen = b""
    while time.monotonic() < deadline:
        if select.select([master], [], [], max(0, deadline - time.monotonic()))[0]:
            try:
                seen += os.read(master, 65536)
            except OSError:
                break
    return seen.decode("utf-8", "replace")


def keep_capture(text):
    """With $TOP_CAPTURE the last frame is kept in that file, without escape sequences."""
    path = os.environ.get("TOP_CAPTURE")
    if path:
        frame = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text.split("\x1b[H")[-2]).replace("\r\n", "\n")
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(line.rstrip() for line in frame.splitlines()) + "\n")
