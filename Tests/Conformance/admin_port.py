"""The admin port with the programs that it is for: Prometheus' own client library, promtool and server, and Chromium.

Each of them is skipped, with a line that says so, where it is not installed. With $DASHBOARD_SHOTS set to a folder, the
screenshots of the dashboard are kept there; those in the documents are taken by Scripts/dashboard-shots.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import urllib.request

import clients_more
import server
from report import Skipped, expect, expect_true

PARSER = """
import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
families = list(parse(sys.stdin.read()))
print(len(families), sum(len(family.samples) for family in families))
for family in families:
    assert family.documentation, family.name
    for sample in family.samples:
        print(sample.name, sorted(sample.labels.items()), float(sample.value))
"""
VIRTUAL_MILLISECONDS = 6000


def run(context):
    report = context.report
    report.suite = "admin"
    if not context.daemon_path:
        report.line("skip admin: no daemon")
        return
    with report.case("the pictures in the documents are of this page"):
        check_documented()
    port = server.free_port()
    options = ["--admin", f"127.0.0.1:{port}", "--log-slow", "1ms"]
    with server.Daemon(context.daemon_path, memory="4MiB", options=options) as daemon:
        page = Page(daemon, port)
        load(daemon)
        with report.case("metrics are what prometheus_client calls OpenMetrics, with the right numbers"):
            page.check_parsed()
        with report.case("promtool finds nothing to complain about"):
            page.check_promtool()
        with report.case("Debian's prometheus scrapes it"):
            page.check_scrape()
        with report.case("stats.json gives the history, and with since only what is new"):
            page.check_history()
        for scheme in ("light", "dark"):
            with report.case(f"the dashboard draws itself in Chromium ({scheme})"):
                page.check_dashboard(scheme)


def load(daemon):
    """Fills memory several times over, reads from both tiers, misses, deletes."""
    with daemon.connect() as client:
        for number in range(6000):
            client.send(b"set key-%d 0 0 2000 noreply\r\n%s\r\n" % (number, b"v" * 2000))
        expect(client.command(b"mn"), b"MN", "after the stores")
        # What is still in the journal is answered from there, which counts as memory.
        deadline = time.monotonic() + 20
        while client.stats()[b"journal_used_bytes"] != b"0" and time.monotonic() < deadline:
            time.sleep(0.05)
        for _ in range(4):
            for number in range(0, 6000, 3):
                # The last one stored is in memory, and stays there because it is asked for.
                client.send(b"mg key-5999 s q\r\nmg loved q\r\nmg loved q\r\n")
                client.send(b"mg key-%d v q\r\nmg absent-%d q\r\n" % (number, number))
            client.send(b"mn\r\n")
            while client.line() != b"MN":
                pass
        expect(client.command(b"delete key-1"), b"DELETED", "a deletion")
        time.sleep(1.2)


class Page:
    """The admin port of a daemon that has done something."""

    def __init__(self, daemon, port):
        self.daemon = daemon
        self.port = port

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
            return answer.read().decode()

    def check_parsed(self):
        python = clients_more.environment(["prometheus-client"], "prometheus")
        text = self.get("/metrics")
        done = subprocess.run([python, "-c", PARSER], input=text, capture_output=True, text=True, timeout=60)
        expect(done.returncode, 0, f"the parser: {done.stderr[-400:]}")
        lines = done.stdout.splitlines()
        expect_true(int(lines[0].split()[0]) > 30, f"families and samples: {lines[0]}")
        expect_true("cache_daemon_commands_total [('command', 'set')] 6000.0" in lines, "sets are counted")
        disk = [line for line in lines if line.startswith("cache_daemon_lookups_total [('tier', 'disk')]")]
        expect_true(float(disk[0].split()[-1]) > 100, f"disk hits: {disk}")

    def check_promtool(self):
        tool = needed("promtool", "prometheus")
        done = subprocess.run(
            [tool, "check", "metrics"], input=plain(self.get("/metrics")), capture_output=True, text=True, timeout=30
        )
        expect((done.returncode, done.stdout + done.stderr), (0, ""), "promtool check metrics")

    def check_scrape(self):
        program = needed("prometheus", "prometheus")
        home = tempfile.mkdtemp(prefix="prometheus-")
        web = server.free_port()
        with open(os.path.join(home, "prometheus.yml"), "w", encoding="utf-8") as file:
            file.write(
                "global: {scrape_interval: 1s}\nscrape_configs:\n- job_name: cache\n"
                f"  static_configs: [{{targets: ['127.0.0.1:{self.port}']}}]\n"
            )
        process = subprocess.Popen(
            [program, f"--config.file={home}/prometheus.yml", f"--storage.tsdb.path={home}/data",
             f"--web.listen-address=127.0.0.1:{web}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        try:
            self.wait_for_scrape(web)
        finally:
            process.terminate()
            process.wait(20)
            shutil.rmtree(home, ignore_errors=True)

    def wait_for_scrape(self, web):
        """Waits until the server has the sets of `load`, and a quantile of the histogram."""
        deadline = time.monotonic() + 30
        seen = None
        while time.monotonic() < deadline:
            try:
                seen = query(web, 'cache_daemon_commands_total{command="set"}')
                buckets = query(web, 'cache_daemon_request_duration_seconds_bucket{outcome="memory_hit",le="+Inf"}')
                if seen == ["6000"] and buckets and float(buckets[0]) > 0:
                    return
            except OSError:
                pass
            time.sleep(0.2)
        expect_true(False, f"prometheus saw {seen}")

    def check_history(self):
        first = json.loads(self.get("/stats.json"))
        samples = first["history"]
        expect_true(len(samples) >= 2, f"{len(samples)} samples")
        last = samples[-1][0]
        newer = json.loads(self.get(f"/stats.json?since={last}"))["history"]
        expect_true(all(sample[0] > last for sample in newer) and len(newer) < 5, f"newer than {last}: {newer}")
        hits = first["history_columns"].index("disk_hits")
        expect_true(samples[-1][hits] > 100, f"disk hits: {samples[-1]}")
        expect(first["hot"][0]["key"], "loved", "the hottest key")

    def check_dashboard(self, scheme):
        browser = needed("chromium", "chromium")
        profile = tempfile.mkdtemp(prefix="chromium-")
        keep = os.environ.get("DASHBOARD_SHOTS")
        picture = os.path.join(keep or profile, f"dashboard-{scheme}.png")
        try:
            common = [
                browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
                f"--user-data-dir={profile}", f"--virtual-time-budget={VIRTUAL_MILLISECONDS}",
                f"--blink-settings=preferredColorScheme={0 if scheme == 'dark' else 1}", "--window-size=1280,1240",
            ]
            url = f"http://127.0.0.1:{self.port}/"
            done = subprocess.run([*common, "--dump-dom", url], capture_output=True, text=True, timeout=90)
            self.check_dom(done.stdout)
            subprocess.run([*common, f"--screenshot={picture}", url], capture_output=True, timeout=90, check=True)
            check_picture(picture, scheme)
        finally:
            shutil.rmtree(profile, ignore_errors=True)

    def check_dom(self, dom):
        expect_true('class="badge good">serving<' in dom, f"the state: {dom[:600]}")
        expect_true("disk ok" in dom, "the state of the disk")
        for chart in ("hit-ratio", "operations", "latency-chart", "memory", "disk", "evictions", "disk-traffic"):
            card = re.search(rf'<div class="card" id="{chart}">(.*?)</div></div>', dom, re.DOTALL)
            expect_true(card is not None and '<path class="s1"' in card.group(1), f"{chart} has no line")
        expect_true("<td>loved</td>" in dom, "the hottest key")
        expect_true("<td>disk hit</td>" in dom and "<td>memory hit</td>" in dom, "the table of latencies")


def check_picture(path, scheme):
    """A picture of some size, whose ground is as light or dark as asked for."""
    expect_true(os.path.getsize(path) > 30_000, f"{os.path.getsize(path)} bytes of picture")
    python = clients_more.environment(["pillow"], "pillow")
    script = "import sys; from PIL import Image; print(Image.open(sys.argv[1]).convert('L').getpixel((4, 4)))"
    done = subprocess.run([python, "-c", script, path], capture_output=True, text=True, timeout=60)
    grey = int(done.stdout or -1)
    expect_true(0 <= grey < 60 if scheme == "dark" else grey > 200, f"the ground is {grey} of 255")


def page_sum():
    """The sum of the page's sources."""
    total = hashlib.sha256()
    for name in ("dashboard.html", "dashboard.css", "dashboard.js"):
        with open(os.path.join(server.ROOT, "web", name), "rb") as file:
            total.update(file.read())
    return total.hexdigest()


def check_documented():
    """The pictures in the documents are of this page: Scripts/dashboard-shots leaves the page's sum in them."""
    for scheme in ("light", "dark"):
        with open(os.path.join(server.ROOT, "docs", "images", f"dashboard-{scheme}.png"), "rb") as file:
            found = re.search(rb"tEXtPage\0([0-9a-f]{64})", file.read())
        expect_true(found and found.group(1).decode() == page_sum(),
                    f"the page has changed since the {scheme} picture was taken: run Scripts/dashboard-shots")


def needed(program, package):
    path = shutil.which(program)
    if path is None:
        raise Skipped(f"{program} is not installed (Debian package {package})")
    return path


def query(web, expression):
    """The values of an instant query."""
    url = f"http://127.0.0.1:{web}/api/v1/query?query=" + urllib.request.quote(expression)
    with urllib.request.urlopen(url, timeout=5) as answer:
        return [result["value"][1] for result in json.load(answer)["data"]["result"]]


def plain(text):
    """OpenMetrics as the older text format, which promtool reads: the lines that only OpenMetrics has are left out."""
    kept = []
    for line in text.splitlines():
        if line.startswith(("# UNIT", "# EOF")):
            continue
        words = line.split(" ")
        if words[0] == "#" and len(words) > 3:
            kind = families(text).get(words[2], "")
            words[2] += {"counter": "_total", "info": "_info"}.get(kind, "")
            if words[1] == "TYPE" and kind == "info":
                words[3] = "gauge"
            line = " ".join(words)
        kept.append(line)
    return "\n".join(kept) + "\n"


def families(text):
    """The type of each family."""
    return dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
