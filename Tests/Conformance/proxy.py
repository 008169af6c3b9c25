"""twemproxy (nutcracker of Debian) in front of three daemons: a workload through it, and one daemon stopped and back.

The proxy ejects no server, so every key belongs to one daemon, which keeps its values over a restart on the same port.
Proxy and daemons are stopped by pid, and all files are in a temporary directory.
"""

import os
import random
import shutil
import signal
import subprocess
import time

from connection import Closed, Connection
from report import Mismatch, Skipped, expect, expect_true
from server import StartFailed, free_port

DAEMONS = 3
KEYS = 600
STEPS = 3000


class FixedPort:
    """A daemon that comes back on the port it had, so that the proxy finds it again."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.daemon.start()
        self.address = daemon.address

    def start_again(self):
        arguments = self.daemon.arguments
        self.daemon.arguments = lambda _: arguments(self.address[1])
        self.daemon.launch()
        self.daemon.address = self.address
        self.daemon.wait_ready()

    def stop(self):
        self.daemon.kill()
        self.daemon.discard()


class Nutcracker:
    """The proxy. It is ready when a get comes back from a daemon."""

    def __init__(self, path, servers, home):
        self.address = ("127.0.0.1", free_port())
        configuration = os.path.join(home, "nutcracker.yml")
        with open(configuration, "w", encoding="utf-8") as file:
            file.write(
                "cache:\n"
                f"  listen: 127.0.0.1:{self.address[1]}\n"
                "  hash: md5\n"
                "  distribution: ketama\n"
                "  timeout: 5000\n"
                "  auto_eject_hosts: false\n"
                "  servers:\n"
                + "".join(f"    - 127.0.0.1:{address[1]}:1 node{index}\n" for index, address in enumerate(servers))
            )
        self.log = os.path.join(home, "nutcracker.log")
        statistics = str(free_port())
        self.process = subprocess.Popen(
            [path, "-c", configuration, "-o", self.log, "-a", "127.0.0.1", "-s", statistics, "-v", "4"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=home,
        )

    def wait_ready(self, seconds=10):
        deadline = time.monotonic() + seconds
        while True:
            try:
                with Connection(self.address, 5) as connection:
                    expect(connection.get(b"ready"), None, "the first get through the proxy")
                    return
            except (OSError, Closed) as error:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise StartFailed(f"nutcracker is not ready: {error}") from None
                time.sleep(0.02)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def run(context):
    report = context.report
    path = shutil.which("nutcracker") or shutil.which("nutcracker", path="/usr/sbin")
    if not path:
        raise Skipped("nutcracker is not installed (nutcracker)")
    daemons, proxy = [], None
    try:
        for _ in range(DAEMONS):
            daemons.append(FixedPort(context.daemon(memory="64MiB", disk="256MiB")))
        proxy = Nutcracker(path, [daemon.address for daemon in daemons], daemons[0].daemon.home)
        proxy.wait_ready()
        model = {}
        with report.case(f"{STEPS} set, get, delete and multi-get through the proxy give what was stored"):
            workload(proxy, model, random.Random(context.seed))
        with report.case("the proxy spreads the keys over all three daemons"):
            spread(daemons, len(model))
        with report.case("a daemon stopped with SIGTERM fails its own keys only, and comes back with their values"):
            restart_one(proxy, daemons, model)
        with report.case("after the restart the workload goes on"):
            workload(proxy, model, random.Random(context.seed + 1))
    finally:
        if proxy:
            proxy.stop()
        for daemon in daemons:
            daemon.stop()


def workload(proxy, model, rng):
    """Random commands; every answer is compared with a dictionary."""
    with Connection(proxy.address, 15) as connection:
        for step in range(STEPS):
            key = b"key:%d" % rng.randrange(KEYS)
            draw = rng.random()
            if draw < 0.45:
                data = b"%d:" % step + bytes([rng.randrange(256)]) * rng.choice((0, 3, 100, 5000))
                expect(connection.set(key, data, flags=step), b"STORED", "set")
                model[key] = (step, data)
            elif draw < 0.75:
                require_value(connection.get(key), model.get(key), key)
            elif draw < 0.85:
                wanted = b"DELETED" if model.pop(key, None) else b"NOT_FOUND"
                expect(connection.command(b"delete " + key), wanted, "delete")
            else:
                keys = {b"key:%d" % rng.randrange(KEYS) for _ in range(rng.randrange(2, 40))}
                require_many(connection, keys, model)
        require_many(connection, {b"key:%d" % index for index in range(KEYS)}, model)


def require_value(found, wanted, key):
    actual = (found.flags, found.data) if found else None
    expect(actual, wanted, f"flags and value of {key.decode()}")


def require_many(connection, keys, model):
    found = connection.many(sorted(keys))
    actual = {key: (value.flags, value.data) for key, value in found.items()}
    expect(actual, {key: model[key] for key in keys if key in model}, f"multi-get of {len(keys)} keys")


def spread(daemons, total):
    counts = []
    for daemon in daemons:
        with Connection(daemon.address) as connection:
            counts.append(int(connection.stats()[b"curr_items"]))
    expect_true(min(counts) > 0, f"each daemon holds entries: {counts}")
    expect(sum(counts), total, "entries of all daemons together")


def owner_keys(daemon, model):
    """The keys of the model that this daemon holds, asked of it directly."""
    with Connection(daemon.address) as connection:
        return set(connection.many(sorted(model)))


def restart_one(proxy, daemons, model):
    stopped = daemons[1]
    owned = owner_keys(stopped, model)
    others = set(model) - owned
    expect_true(owned and others, "the stopped daemon and the others hold keys")
    expect(stopped.daemon.terminate(), 0, "exit status after SIGTERM")
    with Connection(proxy.address, 15) as connection:
        require_many(connection, others, model)
        connection.send(b"get " + min(owned) + b"\r\n")
        answer = connection.line()
        expect_true(answer.startswith(b"SERVER_ERROR"), f"the proxy says that a daemon is down: {answer!r}")
    stopped.start_again()
    expect(owner_keys(stopped, model), owned, "keys that the daemon came back with")
    deadline = time.monotonic() + 10
    while True:
        with Connection(proxy.address, 15) as connection:
            try:
                require_many(connection, set(model), model)
                return
            except (Closed, Mismatch) as error:
                # The proxy may need a moment to connect again, and says so. Wrong values never pass.
                if "SERVER_ERROR" not in str(error) or time.monotonic() > deadline:
                    raise
        time.sleep(0.05)
