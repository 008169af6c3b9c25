"""`--check`, `--repair`, `--export` and `--import` of the program, on stopped stores and running daemons.

Every check makes its own store. Values are derived from their key, so that a mixed-up one is seen.
"""

import glob
import os
import random
import sqlite3
import subprocess
import tempfile
import time

import certificates
from report import Skipped, expect, expect_true

ENTRIES = 400
LARGE = 60_000


def run(context):
    for name, check in (
        ("a sound store is found sound, and nothing is changed", sound),
        ("each kind of damage is found, repaired, and gone for the next start", damage),
        ("what a kill left is sound; its orphan is found and removed", after_kill),
        ("a running daemon keeps its directory from check, export and import", in_use),
        ("entries move from store to store with flags, TTL and binary keys", store_to_store),
        ("entries move from a running daemon to another over sockets and a pipe", server_to_server),
        ("the same with TLS and a login on both sides; without them it is refused", encrypted_to_encrypted),
        ("a stream that is cut or flipped is refused, what was whole is kept", bad_streams),
        ("documented queries work on a stopped store", queries),
    ):
        with context.report.case(name):
            check(context)


def program(context, *arguments, stdin=None):
    """Runs the program; returns status, output and complaints."""
    if not context.daemon_path or context.options.against != "ours":
        raise Skipped("needs our own daemon")
    done = subprocess.run([context.daemon_path, *arguments], capture_output=True, input=stdin, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr.decode("utf-8", "replace")


def report_of(output):
    """The lines of --check as a dictionary."""
    return dict(line.split(" ", 1) for line in output.decode().splitlines())


def value_of(number):
    """The value of key `number`: every twentieth is in a file of its own."""
    length = LARGE + number if number % 20 == 0 else number
    return (b"%d." % number) + b"v" * length


def fill(server, entries=ENTRIES):
    """Stores the entries; those of odd number have a TTL."""
    with server.connect(timeout=30) as connection:
        for number in range(entries):
            ttl = 1000 if number % 2 else 0
            expect(connection.set(b"key%d" % number, value_of(number), number, ttl), b"STORED", "set")
        connection.send(b"ms %s 2 T900 b\r\nhi\r\n" % b"YSBi")
        expect(connection.line()[:2], b"HD", "set of a binary key")


def verify(server, entries=ENTRIES, missing=()):
    """Every entry is there, with its flags and about its TTL, but for the missing ones."""
    with server.connect(timeout=30) as connection:
        for number in range(entries):
            found = connection.get(b"key%d" % number)
            if number in missing:
                expect(found, None, f"key{number}")
                continue
            expect_true(found is not None, f"key{number} is missing")
            expect((found.data, found.flags), (value_of(number), number), f"key{number}")
            ttl = int(connection.command(b"mg key%d t" % number).split()[1][1:])
            expect_true(ttl == -1 if number % 2 == 0 else 900 < ttl <= 1000, f"TTL {ttl} of key{number}")
        expect_true(connection.command(b"mg YSBi b t").startswith(b"HD t"), "the binary key is missing")


def stopped_store(context):
    """A daemon whose store is filled, stopped in order."""
    server = context.daemon()
    server.start()
    fill(server)
    expect(server.terminate(), 0, "exit status")
    return server


def files_of(server):
    return sorted(glob.glob(server.store + "/store/v/*/*"))


def sound(context):
    with stopped_store(context) as server:
        status, output, complaints = program(context, "--check", server.store)
        found = report_of(output)
        expect(status, 0, f"status: {output} {complaints}")
        expect(found["verdict"], "sound", "verdict")
        expect(found["entries"], str(ENTRIES + 1), "entries")
        expect(found["files"], str(ENTRIES // 20), "files")
        expect(program(context, "--check", server.store, "--repair")[0], 0, "status of a needless repair")
        server.start()
        verify(server)


def flip(path, offset, mask=0x10):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ mask]))


def damage_rows(server):
    """Changes a value inside the index behind the sums' back; returns the key's number."""
    with sqlite3.connect(server.store + "/store/index.db") as index:
        index.execute("UPDATE entry SET value = x'00' WHERE CAST(key AS TEXT) = 'key7'")
        index.execute("UPDATE entry SET flags = flags + 1 WHERE CAST(key AS TEXT) = 'key8'")
    index.close()


def damage(context):
    with stopped_store(context) as server:
        damage_rows(server)
        files = files_of(server)
        flip(files[0], 5000)
        os.unlink(files[1])
        orphan = os.path.dirname(files[2]) + "/000001000000ff" + os.path.basename(os.path.dirname(files[2]))
        with open(orphan, "wb") as file:
            file.write(b"nobody's")
        with open(os.path.dirname(files[2]) + "/README", "wb") as file:
            file.write(b"somebody's")
        status, output, _ = program(context, "--check", server.store)
        found = report_of(output)
        wanted = {"damaged_rows": "2", "missing_files": "1", "damaged_files": "1", "orphan_files": "1",
                  "foreign_names": "1", "verdict": "damaged"}
        expect((status, {name: found[name] for name in wanted}), (4, wanted), "what the check found")
        expect(program(context, "--check", server.store)[0], 4, "a check changes nothing")
        status, output, _ = program(context, "--check", server.store, "--repair")
        expect((status, report_of(output)["verdict"]), (1, "repaired"), "the repair")
        status, output, _ = program(context, "--check", server.store)
        expect((status, report_of(output)["verdict"]), (0, "sound"), "after the repair")
        expect(report_of(output)["entries"], str(ENTRIES + 1 - 4), "entries left")
        expect(os.path.exists(os.path.dirname(files[2]) + "/README"), True, "a foreign file is there")
        server.start()
        with server.connect() as connection:
            expect(connection.get(b"key7"), None, "the damaged row")
            expect(connection.get(b"key9").data, value_of(9), "a sound row")
            expect(connection.stats()[b"disk_entries"], b"%d" % (ENTRIES - 3), "disk_entries")
        server.terminate()
        broken_index(context, server)


def broken_index(context, server):
    """Damage of the index as a whole: --repair sets the store aside."""
    size = os.path.getsize(server.store + "/store/index.db")
    for place in random.Random(5).sample(range(100, size), min(size // 50, 4000)):
        flip(server.store + "/store/index.db", place)
    status, output, _ = program(context, "--check", server.store)
    expect((status, report_of(output)["verdict"]), (4, "damaged"), "a broken index")
    expect(program(context, "--check", server.store, "--repair")[0], 1, "repair of a broken index")
    expect_true(glob.glob(server.store + "/quarantine-*"), "no quarantine was made")
    expect(program(context, "--check", server.store)[0], 0, "after the repair")


def after_kill(context):
    with context.daemon() as server:
        fill(server)
        server.kill()
        status, output, complaints = program(context, "--check", server.store)
        found = report_of(output)
        expect(found["index"], "sound", f"index: {output} {complaints}")
        expect(found["damaged_rows"], "0", "damaged rows")
        expect(status in (0, 4), True, "status")
        expect(program(context, "--check", server.store, "--repair")[0] in (0, 1), True, "repair")
        server.start()
        verify(server)


def in_use(context):
    with context.daemon() as server:
        for arguments in (("--check", server.store), ("--check", server.store, "--repair"),
                          ("--export", server.store, "-"), ("--import", server.store, "-")):
            status, _, complaints = program(context, *arguments, stdin=stream_of(context))
            expect(status, 75, f"{arguments}: {complaints}")
            expect_true(f"pid {server.process.pid}" in complaints, f"{complaints} names no pid")
    expect(program(context, "--check", "/nonexistent/store")[0], 78, "no directory")
    expect(program(context, "--export", "/nonexistent/store", "-")[0], 78, "no directory to export")


def stream_of(context):
    """An empty stream."""
    with context.daemon() as server:
        server.terminate()
        status, output, complaints = program(context, "--export", server.store, "-")
        expect(status, 0, complaints)
        return output


def store_to_store(context):
    with stopped_store(context) as server, context.daemon() as other:
        path = server.home + "/entries"
        status, _, complaints = program(context, "--export", server.store, path)
        expect(status, 0, complaints)
        expect(os.stat(path).st_mode & 0o777, 0o600, "mode of the file")
        server.start()
        verify(server)
        other.terminate()
        status, _, complaints = program(context, "--import", other.store, path)
        expect(status, 0, complaints)
        other.start()
        verify(other)
        # What is there already is newer.
        with other.connect() as connection:
            connection.set(b"key0", b"newer")
        other.terminate()
        expect(program(context, "--import", other.store, path)[0], 0, "second import")
        other.start()
        with other.connect() as connection:
            expect(connection.get(b"key0").data, b"newer", "key0")


def server_to_server(context):
    with context.daemon() as server, context.daemon() as other:
        fill(server)
        status, stream, complaints = program(context, "--export", "127.0.0.1:%d" % server.address[1], "-")
        expect(status, 0, complaints)
        status, _, complaints = program(context, "--import", "127.0.0.1:%d" % other.address[1], "-", stdin=stream)
        expect(status, 0, complaints)
        expect_true(f"imported {ENTRIES + 1} entries" in complaints, complaints)
        verify(other)


def encrypted_to_encrypted(context):
    with tempfile.TemporaryDirectory(prefix="transfer-") as folder:
        files = certificates.Certificates(folder)
        accounts, password = os.path.join(folder, "accounts"), os.path.join(folder, "password")
        for path, text in ((accounts, "mover:let me in\n"), (password, "let me in\n")):
            with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
                file.write(text)
        options = ["--tls-certificate", files.path("server.pem"), "--tls-key", files.path("server.key"),
                   "--auth-file", accounts]
        access = ["--login", "mover", "--password-file", password, "--ca", files.path("authority.pem")]
        with context.daemon() as source, context.daemon() as target:
            fill(source)
            ports = [address_in_use(daemon, options) for daemon in (source, target)]
            status, stream, complaints = program(context, "--export", f"localhost:{ports[0]}", "-", *access)
            expect(status, 0, complaints)
            for wrong in (access[:4], access[4:], ["--login", "stranger", *access[2:]]):
                status, output, complaints = program(context, "--export", f"localhost:{ports[0]}", "-", *wrong)
                expect((status, len(output) < 100), (4, True), f"{wrong}: {complaints}")
            status, _, complaints = program(
                context, "--import", f"localhost:{ports[1]}", "-", *access, stdin=stream)
            expect(status, 0, complaints)
            expect_true(f"imported {ENTRIES + 1} entries" in complaints, complaints)
            expect(target.terminate(), 0, "the exit status")
            target.options = []
            target.start()
            verify(target)
        status, _, complaints = program(context, "--check", folder, *access)
        expect_true(status == 78 and "belong to a transfer" in complaints, complaints)


def address_in_use(daemon, options):
    """Starts the daemon again with the options; returns its port."""
    expect(daemon.terminate(), 0, "the exit status")
    daemon.options = list(options)
    daemon.launch()
    deadline = time.monotonic() + 15
    while "listening address=" not in daemon.log_tail().rsplit("stopped", 1)[-1]:
        expect_true(time.monotonic() < deadline, daemon.log_tail())
        time.sleep(0.01)
    return daemon.address[1]


def bad_streams(context):
    with stopped_store(context) as server:
        status, stream, complaints = program(context, "--export", server.store, "-")
        expect(status, 0, complaints)
    rng = random.Random(context.seed)
    cuts = [stream[:length] for length in (0, 31, 32, 100, len(stream) // 2, len(stream) - 1)]
    flips = []
    for _ in range(6):
        bad = bytearray(stream)
        bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
        flips.append(bytes(bad))
    for bad in cuts + flips:
        with context.daemon() as other:
            other.terminate()
            status, _, complaints = program(context, "--import", other.store, "-", stdin=bad)
            expect(status, 4, f"{len(bad)} bytes: {complaints}")
            other.start()
            with other.connect() as connection:
                for number in range(0, ENTRIES, 7):
                    found = connection.get(b"key%d" % number)
                    expect_true(found is None or found.data == value_of(number), f"key{number} is wrong")


def documented_queries():
    """The SQL of docs/OPERATIONS.md: what stands in code blocks of the section on SQL."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with open(root + "/docs/OPERATIONS.md", encoding="utf-8") as file:
        section = file.read().split("\n## Asking the index with SQL\n")[1].split("\n## ")[0]
    return [block.split("```")[0].strip() for block in section.split("```sql\n")[1:]]


def queries(context):
    found = documented_queries()
    expect_true(len(found) >= 5, f"{len(found)} queries are documented")
    with stopped_store(context) as server:
        index = sqlite3.connect(server.store + "/store/index.db")
        for query in found:
            rows = index.execute(query).fetchall()
            expect_true(rows, f"no rows: {query}")
        largest = index.execute(found[0]).fetchall()
        expect(largest[0][0], "key%d" % (ENTRIES - 20), "the largest entry")
        index.close()
        server.start()
        verify(server)
