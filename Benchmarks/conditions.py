"""Rows that are not a load on a fresh server: idle connections, latency while the disk tier works, changing sizes."""

import resource
import socket
import threading

from load import cache_bench, figures
from servers import Server, fail

MIB = 1 << 20


def idle_connections(options, subjects):
    """Memory of 10,000 connections that say nothing, and what they cost those that do."""
    count = 1_000 if options.short else 10_000
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < count + 500:
        fail(f"{count} connections need `ulimit -n` of {count + 500}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    print(f"\nidle: {count:,} idle connections\n  {'':24}{'B each':>8}{'p99 us without':>16}{'with':>8}{'ratio':>7}")
    report = {}
    for subject in subjects:
        with Server(subject, options.server_cores, connections=count + 500) as server:
            load = ["--keys", "10000", "--rate", "20000", "--seconds", str(options.seconds), "--seed",
                    str(options.seed)]
            cache_bench(options, server, [*load, "--warm"])
            without = cache_bench(options, server, load)["load"]["latency_us"]["all"]["p99"]
            before = server.resident_bytes()
            idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(count)]
            # The last one was accepted when it is answered.
            idle[-1].sendall(b"version\r\n")
            idle[-1].recv(100)
            each = (server.resident_bytes() - before) / count
            with_idle = cache_bench(options, server, load)["load"]["latency_us"]["all"]["p99"]
            for client in idle:
                client.close()
        report[subject.name] = {"bytes_each": each, "p99_us_without": without, "p99_us_with": with_idle}
        print(f"  {subject.name:24}{each:8.0f}{without:16.0f}{with_idle:8.0f}{with_idle / without:7.2f}", flush=True)
    return report


def disk_at_work(options, subjects):
    """p99.9 at a fixed rate: without a disk tier, with one that has room, and with one that trims all the time."""
    daemon = subjects[-1]
    if daemon.kind != "disk":
        return {}
    memory = next(s for s in subjects if s.kind == "memory")
    seconds = 3 if options.short else max(10, options.seconds)
    load = ["--keys", "400000", "--ratio", "1:4", "--value-size", "1KiB", "--rate", "20000", "--seconds", str(seconds),
            "--seed", str(options.seed)]
    print("\nsteady: 20,000 op/s, get/set 4:1, 1 KiB\n"
          f"  {'':38}{'p50 us':>9}{'p99 us':>9}{'p99.9 us':>10}{'ratio':>7}")
    report = {}
    for name, subject, disk in [("memory only", memory, "8GiB"), ("disk tier with room", daemon, "8GiB"),
                                ("disk tier, trimming and checkpointing", daemon, "128MiB")]:
        with Server(subject, options.server_cores, disk=disk, memory_mib=64) as server:
            cache_bench(options, server, [*load[:6], "--seconds", str(seconds), "--rate", "20000"])
            before = server.cpu_seconds()
            result = cache_bench(options, server, load)["load"]
            line = figures(result, server.cpu_seconds() - before)
            known = server.statistics()
        line["trimmed"] = {k: v for k, v in known.items() if "trim" in k or "checkpoint" in k or "evict" in k}
        report[name] = line
        latency = line["latency_us"]
        ratio = latency["p99.9"] / report["memory only"]["latency_us"]["p99.9"]
        print(f"  {name:38}{latency['p50']:9,.0f}{latency['p99']:9,.0f}{latency['p99.9']:10,.0f}{ratio:7.2f}",
              flush=True)
    return report


# Phase: keys, load.
SHIFT = [
    ("100 B", 2_000_000, "--ratio 1:1 --value-size 100"),
    ("10 KiB", 40_000, "--ratio 1:3 --value-size 10KiB"),
    ("1 KiB", 400_000, "--ratio 1:3 --value-size 1KiB"),
    ("50 B to 20 KB", 100_000, "--ratio 1:2 --value-size 50-20000"),
    ("10 to 300 B", 3_000_000, "--ratio 1:2 --value-size 10-300"),
    ("2 to 600 KiB", 3_000, "--ratio 1:2 --value-size 2KiB-600KiB"),
    ("10 to 300 B", 3_000_000, "--ratio 1:2 --value-size 10-300"),
]


class PeakMemory:
    """Watches a server's resident memory until the `with` block ends."""

    def __init__(self, server):
        self.server, self.peak, self.stop = server, 0, threading.Event()
        self.thread = threading.Thread(target=self.watch)

    def watch(self):
        """Looks ten times a second."""
        while not self.stop.wait(0.1):
            self.peak = max(self.peak, self.server.resident_bytes())

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()


def size_shift(options, subjects):
    """Resident memory and hits while the sizes of values change, with a limit of 256 MiB."""
    limit, seconds = 256, 2 if options.short else max(5, options.seconds)
    bar = limit * 1.10 + 32
    print(f"\nshift: sizes change, Zipf 0.9, limit {limit} MiB, bar {bar:.0f} MiB\n"
          f"  {'':24}{'values of':>16}{'peak MiB':>10}{'hits':>8}{'op/s':>10}")
    report = {}
    for subject in subjects:
        if subject.kind == "disk":
            continue
        lines = report[subject.name] = []
        with Server(subject, options.server_cores, memory_mib=limit) as server:
            for number, (title, keys, text) in enumerate(SHIFT):
                load = [*text.split(), "--keys", str(keys), "--key-prefix", f"{number}:", "--seconds", str(seconds),
                        "--pipeline", "16", "--distribution", "zipf:0.9", "--seed", str(options.seed)]
                with PeakMemory(server) as memory:
                    result = cache_bench(options, server, load)["load"]
                hits = result["hits"] / max(result["gets"], 1)
                line = {"values": title, "peak_mib": memory.peak / MIB, "hit_ratio": hits,
                        "operations_per_second": result["operations_per_second"]}
                lines.append(line)
                print(f"  {subject.name if number == 0 else '':24}{title:>16}{line['peak_mib']:10.0f}"
                      f"{hits * 100:7.1f}%{line['operations_per_second']:10,.0f}", flush=True)
    return report


def number_of_entries(options, subjects):
    """CPU time of a get of a random key, with more and more entries; memory only."""
    counts = [10_000, 100_000] if options.short else [10_000, 100_000, 1_000_000, 10_000_000]
    subject = next(s for s in subjects if s.kind != "disk" and s is not subjects[0])
    print(f"\nentries: get of a random key, 100 B, pipeline 16, {subject.name}\n"
          f"  {'entries':>12}{'CPU us/op':>11}{'ratio':>7}")
    report = []
    for count in counts:
        with Server(subject, options.server_cores, memory_mib=4096) as server:
            load = ["--keys", str(count), "--ratio", "0:1", "--value-size", "100", "--seed", str(options.seed)]
            cache_bench(options, server, [*load, "--pipeline", "100", "--warm", "--operations", "0"])
            load += ["--pipeline", "16", "--connections", str(options.connections), "--seconds"]
            cache_bench(options, server, [*load, "0.5"])
            before = server.cpu_seconds()
            result = cache_bench(options, server, [*load, str(options.seconds)])["load"]
            cost = figures(result, server.cpu_seconds() - before)["cpu_us"]
        report.append({"entries": count, "cpu_us": cost})
        print(f"  {count:12,}{cost:11.2f}{cost / report[0]['cpu_us']:7.2f}", flush=True)
    return report


# How long each takes, roughly.
SECONDS = {"idle": 30, "steady": 70, "shift": 75, "entries": 60}
CONDITIONS = {"entries": number_of_entries, "idle": idle_connections, "steady": disk_at_work, "shift": size_shift}
