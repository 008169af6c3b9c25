"""From the package to a watched service, by docs/OPERATIONS.md alone, in a Debian that was booted for it.

A minimal Debian with systemd as its first process is booted in a container (systemd-nspawn, as root, with a mirror in
reach the first time). There every command of the section "From the package to a watched service" is executed as it
stands, and then what an operator relies on: restarts, a kill, a hang, sockets that outlive the daemon, removal. Skipped
without a package from `make deb`, or where a container cannot be booted. The network is a private one.
"""

import glob
import os
import re
import shutil
import subprocess
import tempfile

import package
import server
from report import Skipped, expect, expect_true

BOOTED = os.path.join(server.ROOT, ".build", "booted-root")
SECONDS = 240

UNIT = """[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/bin/bash -c 'bash /srv/walk.sh > /srv/walk.out 2>&1; echo $? > /srv/walk.status; systemctl poweroff'
[Install]
WantedBy=multi-user.target
"""
# What comes before each command, and what follows the commands of the document.
BEFORE = """set -e
export HOME=/srv DEBIAN_FRONTEND=noninteractive LANG=C SYSTEMD_PAGER= SYSTEMD_COLORS=0
cd /srv
apt() { apt-get -y -q --no-install-recommends "$@"; }
say() { echo; echo "== $1"; }
ask() { exec 3<>/dev/tcp/127.0.0.1/11211; printf "$1" >&3; head -n "${2:-1}" <&3; exec 3>&-; }
until_active() { for _ in $(seq 200); do systemctl is-active -q cache-daemon && break; sleep 0.1; done; }
"""
AFTER = r"""
say restart
ask 'set kept 0 0 5\r\nvalue\r\n'
systemctl restart cache-daemon
ask 'get kept\r\n' 3
say kill
systemctl reset-failed cache-daemon
kill -9 $(systemctl show -P MainPID cache-daemon)
for _ in $(seq 200); do test "$(systemctl show -P NRestarts cache-daemon)" -ge 1 && break; sleep 0.1; done
until_active
ask 'get kept\r\n' 3
say hang
mkdir -p /etc/systemd/system/cache-daemon.service.d
printf '[Service]\nWatchdogSec=2\n' > /etc/systemd/system/cache-daemon.service.d/watchdog.conf
systemctl daemon-reload
systemctl restart cache-daemon
systemctl reset-failed cache-daemon
before=$(systemctl show -P MainPID cache-daemon)
kill -STOP $before
for _ in $(seq 300); do test "$(systemctl show -P MainPID cache-daemon)" = $before || break; sleep 0.1; done
until_active
journalctl -u cache-daemon | grep -c 'Watchdog timeout'
ask 'get kept\r\n' 3
say needs-restart
systemctl reset-failed cache-daemon
sed -i '1i threads = 3' /etc/cache-daemon.conf
systemctl reload cache-daemon
for _ in $(seq 50); do systemctl status cache-daemon | grep -q 'needs a restart' && break; sleep 0.1; done
systemctl status cache-daemon | grep 'needs a restart'
say user
ps -o user= -p $(systemctl show -P MainPID cache-daemon)
stat -L -c '%a %F' /var/cache/cache-daemon
say security
systemd-analyze security --no-pager cache-daemon | tail -1
say socket
systemctl stop cache-daemon
systemctl enable --now cache-daemon.socket
ask 'get kept\r\n' 3
systemctl restart cache-daemon
ask 'get kept\r\n' 3
say remove
dpkg -r cache-daemon
systemctl is-active cache-daemon || true
test ! -e /usr/bin/cache-daemon
dpkg -P cache-daemon
test ! -e /var/cache/cache-daemon -a ! -e /var/cache/private/cache-daemon -a ! -e /etc/cache-daemon.conf
say end
"""


def run(context):
    report = context.report
    report.suite = "newcomer"
    found = sorted(glob.glob(os.path.join(server.ROOT, ".build", "cache-daemon_*.deb")))
    if not found:
        report.line("skip newcomer: no package is built; make deb")
        return
    with report.case("by OPERATIONS.md alone from the package to a watched service, under systemd"):
        walk(found[-1])


def commands():
    """The document's commands, each announced by itself."""
    with open(os.path.join(server.ROOT, "docs", "OPERATIONS.md"), encoding="utf-8") as file:
        section = re.search(r"\n## From the package.*?\n(.*?)\n## ", file.read(), re.DOTALL).group(1)
    blocks = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    expect_true(len(blocks) == 4, f"{len(blocks)} blocks of commands")
    return blocks


def booted_root():
    """A copy of a Debian that can be booted, with what the package depends on at hand and curl installed."""
    if os.geteuid() != 0 or shutil.which("systemd-nspawn") is None:
        raise Skipped("needs root and systemd-nspawn (Debian package systemd-container)")
    if not os.path.exists(os.path.join(BOOTED, "made")):
        shutil.rmtree(BOOTED, ignore_errors=True)
        os.rename(package.clean_root(), BOOTED)
        package.inside(
            BOOTED, "apt-get", "install", "-y", "-q", "--no-install-recommends", "systemd", "systemd-sysv", "dbus",
            "curl", "procps")
        open(os.path.join(BOOTED, "made"), "w", encoding="utf-8").close()
    home = tempfile.mkdtemp(prefix="booted-root-")
    package.output("cp", "-a", "--reflink=auto", BOOTED + "/.", home)
    return home


def walk(built):
    home = booted_root()
    try:
        shutil.copy(built, os.path.join(home, "srv"))
        # A fresh machine fetches these from Debian; here they are fetched before it has no network any more.
        package.inside(home, "sh", "-c", "apt-get install -y -q --download-only --no-install-recommends /srv/*.deb")
        steps = [f"say block-{number}\nset -x\n{block}set +x\n" for number, block in enumerate(commands())]
        put(home, "srv/walk.sh", BEFORE + "".join(steps) + "set -x\n" + AFTER)
        put(home, "etc/systemd/system/walk.service", UNIT)
        package.inside(home, "systemctl", "enable", "walk.service")
        done = subprocess.run(
            ["systemd-nspawn", "-D", home, "--boot", "--register=no", "--keep-unit", "--private-network", "--quiet"],
            capture_output=True, stdin=subprocess.DEVNULL, timeout=SECONDS)
        if not os.path.exists(os.path.join(home, "srv/walk.out")):
            raise Skipped(f"a container cannot be booted here: {done.stderr[-200:]}")
        judge(read(home, "srv/walk.out"), read(home, "srv/walk.status").strip())
    finally:
        shutil.rmtree(home, ignore_errors=True)


def put(home, path, text):
    with open(os.path.join(home, path), "w", encoding="utf-8") as file:
        file.write(text)


def read(home, path):
    with open(os.path.join(home, path), encoding="utf-8", errors="replace") as file:
        return file.read()


def judge(text, status):
    parts = dict(part.split("\n", 1) for part in re.split(r"\n== ", text)[1:])
    expect((status, "end" in parts), ("0", True), f"the end of the walk: {text[-800:]}")
    for part, wanted in (
        ("block-0", r"Active: active \(running\)"),
        ("block-0", r'Status: "serving 0 clients; memory .*; disk ok'),
        ("block-0", r"get +0"),
        ("block-1", r"configuration is valid"),
        ("block-2", r"CACHE OK"),
        ("block-2", r"ready|disk ok"),
        ("block-2", r"cache_daemon_memory_limit_bytes 268435456\b"),
        ("block-3", r"memory\.limit +512MiB"),
        ("restart", r"STORED[\s\S]*VALUE kept 0 5\s+value"),
        ("kill", r"VALUE kept 0 5\s+value"),
        ("hang", r"^[1-9]\d*$"),
        ("hang", r"VALUE kept 0 5\s+value"),
        ("needs-restart", r"needs a restart: threads"),
        ("user", r"^cache-d"),
        ("user", r"700 directory"),
        ("security", r"level for cache-daemon\.service: 0\.\d|level for cache-daemon\.service: 1\.0"),
        ("socket", r"(VALUE kept 0 5\s+value[\s\S]*){2}"),
    ):
        expect_true(re.search(wanted, parts[part], re.MULTILINE), f"{part} has no {wanted!r}: {parts[part][-900:]}")
    expect_true(not re.search(r"<[0-4]>|error|warning", parts["block-0"]), f"complaints: {parts['block-0']}")
