"""The figures of a run as Markdown, to be put into docs/BENCHMARKS.md."""

import workloads

# The bar of a row, and what it is reached for: the ratio of CPU time per operation, or of memory.
BARS = {"mixed-p1": ("1.00", "0.90"), "mixed-p16": ("0.75", "0.55"), "mixed-p100": ("0.50", "0.40"),
        "get-1k": ("0.95", "0.85"), "get-100k": ("1.00", "0.90")}
TITLES = {"rows": "Requests and memory", "shapes": "Shapes", "profiles": "Profiles of real caches"}


def table(header, rows):
    """A Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def workload_rows(lines):
    """One row for each subject."""
    for subject, line in lines.items():
        latency = line["latency_us"]
        yield [subject, f"{line['cpu_us']:.2f}", f"{line['ratio']:.2f}", f"{line['spread'] * 100:.0f} %",
               f"{line['operations_per_second']:,.0f}", f"{latency['p50']:,.0f}", f"{latency['p99']:,.0f}",
               f"{latency['p99.9']:,.0f}", f"{line['rss_bytes'] / 1048576:,.0f}", f"{line['rss_per_entry']:,.0f}",
               f"{line['hit_ratio'] * 100:.1f} %"]


HEADER = ["work", "server", "CPU us/op", "ratio", "spread", "op/s", "p50 us", "p99 us", "p99.9 us", "RSS MiB",
          "B/entry", "hits"]


def workloads_text(report):
    """The tables of all workloads, by group."""
    text = ""
    for group, members in workloads.GROUPS.items():
        rows = []
        for workload in members:
            for number, row in enumerate(workload_rows(report["workloads"].get(workload.name, {}))):
                rows.append([f"{workload.name}: {workload.title}" if number == 0 else "", *row])
        if rows:
            text += f"## {TITLES[group]}\n\n{table(HEADER, rows)}\n"
    return text


def bars_text(report):
    """The rows that have a bar, memory only on both sides."""
    rows = []
    for name, lines in report["workloads"].items():
        ours = lines.get("cache-daemon")
        if ours and name in BARS:
            rows.append([name, *BARS[name], f"{ours['ratio']:.2f}", f"{ours['spread'] * 100:.0f} %"])
        if ours and name == "rss":
            rows.append(["bytes per entry", "1.00", "0.80", f"{ours['rss_ratio']:.2f}", ""])
        disk = lines.get("cache-daemon with disk")
        if ours and disk and name == "miss":
            ratio, spread = disk["cpu_us"] / ours["cpu_us"], max(ours["spread"], disk["spread"])
            title = "miss with the disk tier, to without"
            rows.append([title, "1.10", "1.03", f"{ratio:.2f}", f"{spread * 100:.0f} %"])
    if not rows:
        return ""
    return "## Against the bars\n\n" + table(["work", "bar", "reach for", "this run", "spread"], rows) + "\n"


def threads_text(report):
    """Two threads beside one."""
    one, two, hot = (report["workloads"].get(name) for name in ("mixed-p16", "two", "hot"))
    if not (one and two and hot):
        return ""
    rows = [[subject, f"{one[subject]['cpu_us']:.2f}", f"{two[subject]['cpu_us']:.2f}",
             f"{two[subject]['cpu_us'] / one[subject]['cpu_us']:.2f}", f"{hot[subject]['cpu_us']:.2f}",
             f"{hot[subject]['cpu_us'] / one[subject]['cpu_us']:.2f}"] for subject in one]
    header = ["server", "1 thread, us/op", "2 threads", "ratio", "2 threads, 1 key", "ratio"]
    return "## Two threads\n\n" + table(header, rows) + "\n"


def conditions_text(report):
    """Idle connections, the disk tier at work, changing sizes."""
    known, text = report["conditions"], ""
    if known.get("entries"):
        first = known["entries"][0]["cpu_us"]
        rows = [[f"{line['entries']:,}", f"{line['cpu_us']:.2f}", f"{line['cpu_us'] / first:.2f}"]
                for line in known["entries"]]
        text += "## Number of entries\n\n" + table(["entries", "CPU us/op", "ratio"], rows) + "\n"
    if known.get("idle"):
        rows = [[name, f"{line['bytes_each']:.0f}", f"{line['p99_us_without']:.0f}", f"{line['p99_us_with']:.0f}"]
                for name, line in known["idle"].items()]
        header = ["server", "B for each connection", "p99 us of active ones without", "with"]
        text += "## Idle connections\n\n" + table(header, rows) + "\n"
    if known.get("steady"):
        base = known["steady"]["memory only"]["latency_us"]["p99.9"]
        rows = [[name, *(f"{line['latency_us'][q]:,.0f}" for q in ("p50", "p99", "p99.9")),
                 f"{line['latency_us']['p99.9'] / base:.2f}"] for name, line in known["steady"].items()]
        text += "## Latency with the disk tier at work\n\n" + table(
            ["20,000 op/s", "p50 us", "p99 us", "p99.9 us", "p99.9 to memory only"], rows) + "\n"
    for name, lines in known.get("shift", {}).items():
        rows = [[line["values"], f"{line['peak_mib']:.0f}", f"{line['hit_ratio'] * 100:.1f} %",
                 f"{line['operations_per_second']:,.0f}"] for line in lines]
        text += f"## Sizes that change: {name}\n\n" + table(["values of", "peak MiB", "hits", "op/s"], rows) + "\n"
    return text


def disk_results(name, found):
    """Rows of one result of `disk-rows`; `embedded` has two."""
    if name == "embedded":
        for part, inner in found.items():
            yield from disk_results(f"embedded {part}", inner)
        return
    base = next(iter(found.values()), [0])[0]
    for number, (subject, (value, unit, rate)) in enumerate(found.items()):
        yield [name if number == 0 else "", subject, f"{value:,.2f} {unit}", f"{value / base:.2f}" if base else "",
               f"{rate:,.0f}" if rate else ""]


def programs_text(report):
    """What other programs measured."""
    known, text = report["programs"], ""
    rows = [row for name, found in known.get("disk", {}).items() for row in disk_results(name, found)]
    if rows:
        text += "## The disk tier\n\n" + table(["work", "who", "figure", "ratio to the first", "op/s"], rows) + "\n"
    if known.get("engine"):
        names = ["set, empty start", "set, present", "get in order", "get shuffled", "get absent",
                 "get shuffled, 2 threads"]
        rows = [[name, *(f"{known['engine'][who][index]:.0f}" for who in ("engine", "dictionary", "nscache"))]
                for index, name in enumerate(names)]
        header = ["ns per call", "engine", "dictionary + lock", "NSCache"]
        text += "## Inside a process\n\n" + table(header, rows) + "\n"
    if known.get("growth"):
        line = known["growth"]
        text += (f"{line['entries']:,} stores of new entries: {line['mean_ns']:.0f} ns each, the longest "
                 f"{line['longest_ns'] / 1000:.0f} us.\n\n")
    if known.get("scaling"):
        line = known["scaling"]
        rows = [[f"{count:,}", f"{cost:.0f}", f"{cost / line['get_ns'][0]:.2f}"]
                for count, cost in zip(line["entries"], line["get_ns"])]
        text += "## Number of entries, in a process\n\n" + table(["entries", "ns per get", "ratio"], rows) + "\n"
    return text


def markdown(report):
    """The whole run."""
    head = (f"commit {report['commit']}, {report['date']}, seed {report['seed']}, {report['rounds']} rounds of "
            f"{report['seconds']} s, {report['cores']} cores, {report['cpu']}, Linux {report['kernel']}, load average "
            f"{report['load_average']:.1f} at the start\n\n")
    head += "".join(f"- {name}: {version}\n" for name, version in report["versions"].items()) + "\n"
    return (head + bars_text(report) + workloads_text(report) + threads_text(report) + conditions_text(report)
            + programs_text(report))
