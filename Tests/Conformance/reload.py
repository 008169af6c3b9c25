"""Reload and resize: what SIGHUP and cache_memlimit change at once, that no connection is dropped, and what waits.

Every option that OPERATIONS.md calls reloadable is changed in the file and read again; then the effect of those whose
effect can be seen from outside is looked at. Certificates are reloaded in the suite `tls`, accounts in `authentication`
and LoginTests.
"""

import os
import re
import signal
import time

import server
from clients import wait_until
from connection import Closed, Connection
from report import expect, expect_true
from service_manager import Manager

# Values that differ from the defaults.
CHANGED = {
    "max_connections": "77", "idle_timeout": "3h", "request_timeout": "11s", "request_rate_min": "2KiB",
    "send_timeout": "61s", "client_memory": "63MiB", "allow_insecure": "yes", "auth.timeout": "9s",
    "memory.limit": "48MiB",
    "memory.entries_max": "12345", "memory.idle_max": "2h", "memory.value_max": "512KiB", "memory.fit_cgroup": "no",
    "disk.limit": "900MiB",
    "disk.entries_max": "54321", "disk.idle_max": "3d", "disk.min_free": "2MiB", "disk.trim_interval": "9s",
    "ttl.default": "1h", "ttl.max": "2d", "log.level": "info", "log.slow": "30ms",
}


def run(context):
    for name, check in (
        ("every reloadable option takes effect, and nobody is disconnected", every_option),
        ("memory: less is evicted down to, more is there at once, by the file and by cache_memlimit", memory),
        ("disk: a lower limit is trimmed down to, entries and bytes", disk),
        ("connections: a lower limit keeps those that are open and refuses new ones", connections),
        ("log level and slow log follow", log),
        ("TTLs follow, for what is stored from then on", times_to_live),
        ("what needs a restart is named in the log, in stats and in STATUS, and the rest is done", needs_restart),
        ("a wrong file changes nothing and says where", wrong_file),
    ):
        with context.report.case(name):
            check(context)


def configured(context, *options, **settings):
    """A daemon with a configuration file, not started; what `server.Daemon` gives as flags is out of the file's way."""
    daemon = context.daemon(**settings)
    daemon.file = os.path.join(daemon.home, "conf")
    plain = ["--dir", daemon.store, "--no-warm-up", "-t", "2", "--config", daemon.file, *options]
    daemon.arguments = lambda port: [daemon.path, "--listen", f"127.0.0.1:{port}", *plain]
    write(daemon, {})
    return daemon


def write(daemon, values):
    """Writes the options into the file."""
    lines = [f"{name} = {value}" for name, value in values.items() if "." not in name]
    for section in sorted({name.split(".")[0] for name in values if "." in name}):
        lines.append(f"[{section}]")
        lines += [f"{name.split('.')[1]} = {value}" for name, value in values.items() if name.startswith(section + ".")]
    with open(daemon.file, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def reload(daemon, values):
    """Changes the file, sends SIGHUP, waits for the line that tells of it and returns it."""
    with open(daemon.log_path, encoding="utf-8") as file:
        before = len(re.findall(r"notice: reloaded |error: reload failed", file.read()))
    write(daemon, values)
    daemon.process.send_signal(signal.SIGHUP)

    def lines():
        with open(daemon.log_path, encoding="utf-8") as file:
            return re.findall(r"notice: reloaded .*|error: reload failed.*", file.read())

    wait_until(lambda: len(lines()) > before, 20, "the end of the reload")
    return lines()[-1]


def number(client, name):
    return int(client.stats()[name])


def every_option(context):
    with open(os.path.join(server.ROOT, "docs", "OPERATIONS.md"), encoding="utf-8") as file:
        rows = re.findall(r"^\| `([\w.]+)` \| [^|]* \| [^|]* \| yes \| ", file.read(), re.MULTILINE)
    expect(sorted(name for name in rows if not name.startswith("tls.")), sorted(CHANGED), "reloadable options")
    with configured(context) as daemon, daemon.connect() as client:
        line = reload(daemon, CHANGED)
        found = re.search(r"changed=(\S+) needs_restart=(\S+)", line)
        expect(set(found.group(1).split(",")), set(CHANGED), "changed")
        expect(found.group(2), '""', "what needs a restart")
        options = {name.decode(): value.decode() for name, value in client.stats(b"options").items()}
        for name, value in CHANGED.items():
            expect(options[name].strip(), value, name)
        expect(client.set(b"a", b"b"), b"STORED", "the old connection")
        expect(number(client, b"total_connections"), 2, "connections so far")


def fill(client, count, size):
    value = b"v" * size
    for n in range(count):
        client.send(b"set k%d 0 0 %d noreply\r\n%s\r\n" % (n, size, value))
    expect(client.command(b"mn"), b"MN", "the end of the load")


def memory(context):
    with configured(context) as daemon, daemon.connect() as client:
        fill(client, 20_000, 1000)
        expect_true(number(client, b"memory_bytes") > 16 << 20, "bytes before")
        reload(daemon, {"memory.limit": "12MiB"})
        wait_until(lambda: number(client, b"memory_bytes") <= 12 << 20, 20, "eviction down to the limit")
        expect(number(client, b"memory_limit_bytes"), 12 << 20, "the limit")
        expect(client.command(b"cache_memlimit 8"), b"OK", "cache_memlimit")
        wait_until(lambda: number(client, b"memory_bytes") <= 8 << 20, 20, "eviction by cache_memlimit")
        expect(client.command(b"cache_memlimit 64"), b"OK", "cache_memlimit upwards")
        fill(client, 20_000, 1000)
        expect_true(number(client, b"memory_bytes") > 16 << 20, "room again")
        expect(client.get(b"k19999").data, b"v" * 1000, "an entry")
        reload(daemon, {"memory.limit": "64MiB", "memory.entries_max": "100"})
        wait_until(lambda: number(client, b"memory_entries") <= 100, 20, "eviction down to entries_max")


def disk(context):
    with configured(context, "--disk", "512MiB") as daemon, daemon.connect() as client:
        fill(client, 1000, 40_000)
        wait_until(lambda: number(client, b"journal_used_bytes") == 0, 30, "everything in the index")
        before = number(client, b"disk_entries")
        reload(daemon, {"disk.entries_max": "300"})
        wait_until(lambda: number(client, b"disk_entries") <= 300, 30, f"trim from {before} entries")
    with configured(context) as daemon, daemon.connect() as client:
        # The journal alone takes 64 MiB unless told otherwise.
        daemon.terminate()
        write(daemon, {"disk.journal": "4MiB", "disk.limit": "256MiB"})
        daemon.start()
        with daemon.connect() as second:
            fill(second, 2000, 40_000)
            wait_until(lambda: number(second, b"journal_used_bytes") == 0, 30, "everything in the index")
            expect_true(number(second, b"disk_bytes") > 60 << 20, "bytes before")
            reload(daemon, {"disk.journal": "4MiB", "disk.limit": "40MiB"})
            wait_until(lambda: number(second, b"disk_bytes") <= 40 << 20, 30, "trim down to the limit")


def connections(context):
    with configured(context) as daemon:
        clients = [daemon.connect() for _ in range(5)]
        reload(daemon, {"max_connections": "3"})
        for client in clients:
            expect(client.command(b"mn"), b"MN", "an old connection")
        with daemon.connect() as late:
            expect_true(late.line().startswith(b"ERROR "), "a new connection over the limit")
        reload(daemon, {"max_connections": "10", "idle_timeout": "1s"})
        with daemon.connect() as late:
            expect(late.command(b"mn"), b"MN", "a new connection under the raised limit")
        deadline = time.monotonic() + 20
        try:
            clients[0].rest()
        except Closed:
            pass
        expect_true(time.monotonic() < deadline, "a silent connection was closed")
        for client in clients:
            client.close()


def log(context):
    with configured(context) as daemon, daemon.connect() as client:
        client.get(b"unseen")
        reload(daemon, {"log.level": "debug", "log.slow": "1ms"})
        client.get(b"seen")
        wait_until(lambda: 'line="get seen' in daemon.log_tail(4000), 10, "the request in the log")
        expect_true("get unseen" not in daemon.log_tail(8000), "the request before is not there")
        reload(daemon, {"log.level": "notice"})
        client.get(b"later")
        expect(client.command(b"mn"), b"MN", "the connection")
        expect_true("get later" not in daemon.log_tail(4000), "silent again")
        expect(client.stats(b"options")[b"log.slow"].strip(), b"20ms", "the slow log's threshold is back")


def times_to_live(context):
    with configured(context) as daemon, daemon.connect() as client:
        client.set(b"before", b"x")
        reload(daemon, {"ttl.default": "50s", "ttl.max": "100s"})
        client.set(b"after", b"x")
        client.set(b"long", b"x", exptime=5000)
        for key, low, high in ((b"before", -1, -1), (b"after", 1, 50), (b"long", 51, 100)):
            left = int(client.command(b"mg %s t" % key).split(b"t")[-1])
            expect_true(low <= left <= high, f"{key} lives for {left} s")


def needs_restart(context):
    with Manager(False) as manager, configured(context) as daemon:
        daemon.kill()
        daemon.environment["NOTIFY_SOCKET"] = manager.address
        daemon.start()
        manager.wait_for("READY=1")
        with daemon.connect() as client:
            expect(client.stats()[b"needs_restart"], b"none", "before")
            line = reload(daemon, {"memory.limit": "32MiB", "max_entry": "2MiB", "disk.readers": "3"})
            expect_true("changed=memory.limit needs_restart=max_entry,disk.readers" in line, line)
            expect(client.stats()[b"needs_restart"], b"max_entry,disk.readers", "in stats")
            expect(number(client, b"memory_limit_bytes"), 32 << 20, "what needs none")
            status = manager.wait_for_status("needs a restart")
            expect_true("needs a restart: max_entry, disk.readers" in status, status)
            reload(daemon, {})
            expect(client.stats()[b"needs_restart"], b"none", "after the options are back")


def wrong_file(context):
    with configured(context) as daemon, daemon.connect() as client:
        expect_true("reload failed" in reload(daemon, {"memory.limit": "12 parsecs", "ttl.max": "1h"}), "the refusal")
        expect_true(f"{daemon.file}:" in daemon.log_tail(2000), "the place of the mistake")
        options = client.stats(b"options")
        expect((options[b"memory.limit"].strip(), options[b"ttl.max"].strip()), (b"64MiB", b"-"), "nothing is changed")
        with Connection(daemon.address) as other:
            expect(other.command(b"mn"), b"MN", "served on")
