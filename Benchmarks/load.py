"""Runs cache-bench against a server and sums up what it says."""

import json
import statistics
import subprocess

from servers import Server, fail, pinned

QUANTILES = ("p50", "p99", "p99.9")


def cache_bench(options, server, arguments, cores=None):
    """Runs cache-bench and returns its JSON object; a wrong value ends everything."""
    command = pinned(cores or options.load_cores,
                     [options.bench, f"127.0.0.1:{server.port}", "--json", "--quiet", *arguments])
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 1:
        fail(f"{server.subject.name} gave wrong replies:\n{done.stdout}", 1)
    if done.returncode != 0:
        fail(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}{done.stdout}")
    return json.loads(done.stdout)


def figures(result, cpu):
    """The figures of one measured load, given the server's CPU seconds."""
    operations = max(result["operations"], 1)
    return {
        "cpu_us": cpu * 1e6 / operations,
        "operations": result["operations"],
        "operations_per_second": result["operations_per_second"],
        "hit_ratio": result["hits"] / max(result["gets"], 1),
        "refused": result["refused"],
        "latency_us": {q: result["latency_us"]["all"][q] for q in QUANTILES},
        "load_cpu_us": result["own_cpu_seconds"] * 1e6 / operations,
    }


def measure(options, subject, workload):
    """One round of one workload against one fresh server."""
    keys = max(workload.keys // 10, 500) if options.short else workload.keys
    load = workload.load.split() + ["--keys", str(keys), "--seed", str(options.seed)]
    load += ["--connections", str(workload.connections or options.connections)]
    settings = {"memory_mib": workload.memory_mib or options.memory, "threads": workload.threads}
    cores = options.server_cores if workload.threads == 1 else options.all_cores
    with Server(subject, cores, **settings) as server:
        idle = server.resident_bytes()
        if workload.warms:
            warm = cache_bench(options, server, [*load, "--pipeline", "16", "--warm", "--operations", "0"])
            if not workload.evicts and warm["warm"]["sets"] != keys:
                fail(f"{subject.name} took {warm['warm']['sets']} of {keys} values: {warm['warm']['remarks']}")
        full = server.resident_bytes()
        seconds = options.seconds * workload.share
        # The first second is not measured: caches fill, and background work of warming comes to its end.
        cache_bench(options, server, [*load, "--seconds", str(min(seconds, 1))])
        before = server.cpu_seconds()
        result = cache_bench(options, server, [*load, "--seconds", str(seconds)])["load"]
        line = figures(result, server.cpu_seconds() - before)
        return line | {"rss_bytes": server.resident_bytes(), "rss_per_entry": (full - idle) / keys}


def summarize(rounds):
    """Rounds to one line: sums where sums are right, medians elsewhere."""
    operations = sum(r["operations"] for r in rounds)
    costs = [r["cpu_us"] for r in rounds]
    line = {name: statistics.median(r[name] for r in rounds)
            for name in ("operations_per_second", "rss_bytes", "rss_per_entry", "hit_ratio", "load_cpu_us")}
    return line | {
        "cpu_us": sum(r["cpu_us"] * r["operations"] for r in rounds) / max(operations, 1),
        "spread": (max(costs) - min(costs)) / max(min(costs), 1e-9),
        "operations": operations,
        "latency_us": {q: statistics.median(r["latency_us"][q] for r in rounds) for q in QUANTILES},
        "rounds": rounds,
    }


HEADER = (f"  {'':24}{'CPU us/op':>10}{'ratio':>7}{'spread':>8}{'op/s':>11}{'p50 us':>9}{'p99 us':>9}"
          f"{'p99.9 us':>10}{'RSS MiB':>9}{'B/entry':>9}{'hits':>7}")


def show(workload, lines):
    """Prints the lines of one workload; the first subject is what the others are compared with."""
    baseline = next(iter(lines.values()))
    print(f"\n{workload.name}: {workload.title}\n{HEADER}")
    for subject, line in lines.items():
        line["ratio"] = line["cpu_us"] / max(baseline["cpu_us"], 1e-9)
        line["rss_ratio"] = line["rss_per_entry"] / max(baseline["rss_per_entry"], 1e-9)
        latency = line["latency_us"]
        print(f"  {subject:24}{line['cpu_us']:10.2f}{line['ratio']:7.2f}{line['spread'] * 100:7.0f}%"
              f"{line['operations_per_second']:11,.0f}{latency['p50']:9,.0f}{latency['p99']:9,.0f}"
              f"{latency['p99.9']:10,.0f}{line['rss_bytes'] / 1048576:9.1f}{line['rss_per_entry']:9.0f}"
              f"{line['hit_ratio'] * 100:6.1f}%", flush=True)
