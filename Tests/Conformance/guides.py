"""The guides' snippets at work: Django, PHP sessions, nginx, WordPress, and the contributed dashboards and rules.

Each snippet is taken from its guide in docs/guides, with the port of the daemon under test put in, and used by the
unmodified software; what is not installed is skipped, with a line that says so.
"""

import http.server
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
import urllib.request

import clients_more
import server
from report import Skipped, expect, expect_true

# Not there while nothing went wrong.
NOT_STATISTICS = {"disk_last_error"}
GUIDES = os.path.join(server.ROOT, "docs", "guides")
CONTRIB = os.path.join(server.ROOT, "contrib")
NGINX_MODULE = "/usr/lib/nginx/modules/ngx_http_memc_module.so"

DJANGO = """
import django
from django.conf import settings
{snippet}
settings.configure(CACHES=CACHES, SESSION_ENGINE=SESSION_ENGINE)
django.setup()
from django.core.cache import cache
from importlib import import_module
cache.set("a", {{"b": [1, 2]}}, 60)
assert cache.get("a") == {{"b": [1, 2]}}
assert cache.add("a", 1) is False and cache.add("n", 1) is True
assert cache.incr("n") == 2 and cache.touch("n", 100) is True
assert cache.get_many(["a", "n", "x"]) == {{"a": {{"b": [1, 2]}}, "n": 2}}
cache.set_many({{"p": "q" * 500000, "r": None}})
assert len(cache.get("p")) == 500000
cache.delete_many(["a", "n"])
assert cache.get("a") is None
session = import_module(SESSION_ENGINE).SessionStore()
session["user"] = 7
session.save()
assert import_module(SESSION_ENGINE).SessionStore(session.session_key)["user"] == 7
print("fine")
"""
PHP = "session_id('s1'); session_start(); $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1; echo $_SESSION['n'];"


# Loads WordPress' own functions around the drop-in, as its wp-settings.php does, without a database.
WORDPRESS = """<?php
error_reporting(E_ALL & ~E_DEPRECATED);
define('ABSPATH', '{core}/');
define('WPINC', 'wp-includes');
define('WP_CONTENT_DIR', '{content}');
{snippet}
require ABSPATH . WPINC . '/plugin.php';
require ABSPATH . WPINC . '/load.php';
require ABSPATH . WPINC . '/functions.php';
wp_start_object_cache();
assert_that('the drop-in is in use', wp_using_ext_object_cache());
function assert_that($what, $holds) {{ if (!$holds) {{ echo "$what\\n"; exit(1); }} }}
{body}
echo 'fine';
"""
WORDPRESS_FIRST = """
assert_that('set', wp_cache_set('a', array('b' => 1), 'posts', 60) && wp_cache_get('a', 'posts') === array('b' => 1));
assert_that('add', !wp_cache_add('a', 2, 'posts') && wp_cache_add('n', 5, 'posts'));
assert_that('incr', wp_cache_incr('n', 3, 'posts') === 8 && wp_cache_decr('n', 10, 'posts') === 0);
assert_that('replace', !wp_cache_replace('none', 1) && wp_cache_replace('n', 7, 'posts'));
wp_cache_set('false', false);
wp_cache_flush_runtime();
assert_that('false is a value', wp_cache_get('false', '', false, $found) === false && $found);
assert_that('a miss', wp_cache_get('nothing', '', false, $found) === false && !$found);
assert_that('many', wp_cache_get_multiple(array('a', 'n', 'x'), 'posts')
    === array('a' => array('b' => 1), 'n' => 7, 'x' => false));
wp_cache_set(str_repeat('long ', 100), 'kept');
wp_cache_flush_runtime();
assert_that('a long key', wp_cache_get(str_repeat('long ', 100)) === 'kept');
wp_cache_add_non_persistent_groups('counts');
wp_cache_set('c', 1, 'counts');
wp_cache_flush_runtime();
assert_that('a group of this page alone', wp_cache_get('c', 'counts') === false);
assert_that('delete', wp_cache_delete('n', 'posts') && wp_cache_get('n', 'posts') === false);
$page = wp_cache_get('a', 'posts', true);
assert_that('forced', $page === array('b' => 1));
"""
WORDPRESS_AGAIN = """
assert_that('after the restart', wp_cache_get('a', 'posts') === array('b' => 1));
assert_that('flush', wp_cache_flush() && wp_cache_get('a', 'posts') === false);
wp_cache_set('a', 'new', 'posts');
wp_cache_flush_runtime();
assert_that('after the flush', wp_cache_get('a', 'posts') === 'new');
"""
WORDPRESS_ALONE = """
assert_that('without a server', wp_cache_set('k', 1) && wp_cache_get('k') === 1 && !wp_cache_add('k', 2));
assert_that('a flush without a server', wp_cache_flush() && wp_cache_get('k') === false);
"""


def run(context):
    report = context.report
    report.suite = "guides"
    if not context.daemon_path:
        report.line("skip guides: no daemon")
        return
    with server.Daemon(context.daemon_path) as daemon:
        for name, check in (
                ("django", django), ("php", php), ("nginx", nginx), ("wordpress", wordpress)):
            with report.case(f"{name}: the snippet of its guide works, across a restart of the daemon"):
                check(daemon)
    with report.case("kubernetes: the manifests are well-formed, the daemon takes their arguments, the probes exist"):
        kubernetes(context)
    with report.case("every statistic and option that a guide names exists"):
        with server.Daemon(context.daemon_path) as daemon:
            names(daemon)
    with report.case("alert rules and Grafana panels use metrics that exist, and are well-formed"):
        contributed()


def snippet(guide, language, daemon):
    """The first block of the language in the guide, with the daemon's port."""
    with open(os.path.join(GUIDES, f"{guide}.md"), encoding="utf-8") as file:
        block = re.search(rf"```{language}\n(.*?)```", file.read(), re.DOTALL).group(1)
    return block.replace("11211", str(daemon.address[1]))


def restart(daemon):
    expect(daemon.terminate(), 0, "the exit status")
    port = daemon.address[1]
    daemon.options = ["--listen", f"127.0.0.1:{port}"]
    daemon.launch()
    daemon.address = ("127.0.0.1", port)
    daemon.wait_ready()


def django(daemon):
    python = clients_more.environment(["django", "pymemcache"], "django-python")
    program = DJANGO.format(snippet=snippet("django", "python", daemon))
    for _ in range(2):
        done = subprocess.run([python, "-c", program], capture_output=True, text=True, timeout=60)
        expect_true(done.stdout == "fine\n", done.stderr[-600:])
        with daemon.connect() as client:
            expect_true(client.stats()[b"curr_items"] != b"0", "entries")
            client.command(b"flush_all")
        restart(daemon)


def php(daemon):
    program = needed("php", "php-cli")
    folder = tempfile.mkdtemp(prefix="php-")
    try:
        with open(os.path.join(folder, "sessions.ini"), "w", encoding="utf-8") as file:
            file.write(snippet("php", "ini", daemon))
        scan = subprocess.run([program, "--ini"], capture_output=True, text=True, check=True).stdout
        usual = re.search(r"Scan for additional .ini files in: (\S+)", scan)
        environment = {**os.environ, "PHP_INI_SCAN_DIR": f"{usual.group(1) if usual else ''}:{folder}"}

        def visit():
            done = subprocess.run(
                [program, "-r", PHP], capture_output=True, text=True, timeout=30, env=environment)
            if "memcached" not in subprocess.run([program, "-m"], capture_output=True, text=True).stdout:
                raise Skipped("PHP has no memcached extension (Debian package php-memcached)")
            return done.stdout + done.stderr

        expect([visit(), visit()], ["1", "2"], "visits")
        restart(daemon)
        expect(visit(), "3", "the visit after the restart")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


LOAD_YAML = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(sys.stdin))))"


def kubernetes(context):
    with open(os.path.join(GUIDES, "kubernetes.md"), encoding="utf-8") as file:
        text = re.search(r"```yaml\n(.*?)```", file.read(), re.DOTALL).group(1)
    python = clients_more.environment(["pyyaml"], "yaml")
    done = subprocess.run([python, "-c", LOAD_YAML], input=text, capture_output=True, text=True, timeout=60)
    expect(done.returncode, 0, done.stderr[-300:])
    stateful, service = json.loads(done.stdout)
    pod = stateful["spec"]["template"]
    container = pod["spec"]["containers"][0]
    expect((stateful["kind"], service["kind"], service["spec"]["selector"]),
           ("StatefulSet", "Service", pod["metadata"]["labels"]), "kinds and labels")
    with open(os.path.join(server.ROOT, "Dockerfile"), encoding="utf-8") as file:
        image = file.read()
    entry = json.loads(re.search(r"^ENTRYPOINT (.*)$", image, re.MULTILINE).group(1))
    exposed = set(re.search(r"^EXPOSE (.*)$", image, re.MULTILINE).group(1).split())
    expect({str(port["containerPort"]) for port in container["ports"]}, exposed, "ports of manifest and image")
    mount = container["volumeMounts"][0]["mountPath"]
    expect_true(f"VOLUME {mount}\n" in image, f"the image has no volume {mount}")
    arguments = [*entry[1:], *container["args"]]
    done = subprocess.run([context.daemon_path, "--check-config", *arguments], capture_output=True, text=True,
                          env={"CACHE_DIRECTORY": mount}, timeout=30)
    expect(done.returncode, 0, done.stderr)
    port = server.free_port()
    with server.Daemon(context.daemon_path, options=["--admin", f"127.0.0.1:{port}"]):
        for probe in ("readinessProbe", "livenessProbe"):
            path = container[probe]["httpGet"]["path"]
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
                expect(answer.status, 200, path)


def names(daemon):
    """Words in backticks that look like a statistic or an option of ours are one."""
    with daemon.connect() as client:
        known = {name.decode() for group in (b"", b"settings", b"options") for name in client.stats(group)}
    with open(os.path.join(server.ROOT, "docs", "METRICS.md"), encoding="utf-8") as file:
        known |= set(re.findall(r"^\| `(\w+)` \|", file.read(), re.MULTILINE))
    seen = set()
    for guide in sorted(os.listdir(GUIDES)):
        with open(os.path.join(GUIDES, guide), encoding="utf-8") as file:
            text = re.sub(r"```.*?```", "", file.read(), flags=re.DOTALL)
        for word in re.findall(r"`([a-z]+(?:[._][a-z_]+)+)`", text):
            if word in known or re.match(r"(memory|disk|ttl|log|auth|tls)\.|(disk|memory|curr|get|cmd)_", word):
                seen.add((guide, word))
    expect_true(len(seen) > 15, f"names in the guides: {len(seen)}")
    wrong = {(guide, word) for guide, word in seen if word not in known and word not in NOT_STATISTICS}
    expect(wrong, set(), "names that do not exist")


def wordpress(daemon):
    """The drop-in inside WordPress' own code, from Debian's package, which is not installed."""
    program = needed("php", "php-cli")
    if "memcached" not in subprocess.run([program, "-m"], capture_output=True, text=True).stdout:
        raise Skipped("PHP has no memcached extension (Debian package php-memcached)")
    core = wordpress_core()
    with tempfile.TemporaryDirectory(prefix="wordpress-") as content:
        shutil.copy(os.path.join(CONTRIB, "wordpress", "object-cache.php"), content)

        def page(body):
            text = WORDPRESS.format(
                core=core, content=content, snippet=snippet("wordpress", "php", daemon), body=body)
            path = os.path.join(content, "page.php")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            done = subprocess.run([program, path], capture_output=True, text=True, timeout=30)
            expect((done.stdout, done.stderr), ("fine", ""), "what the page says")

        with daemon.connect() as client:
            client.set(b"of-somebody-else", b"kept")
        page(WORDPRESS_FIRST)
        restart(daemon)
        page(WORDPRESS_AGAIN)
        with daemon.connect() as client:
            expect(client.get(b"of-somebody-else").data, b"kept", "what others keep there, after the flush")
            expect(client.stats()[b"binary_rejected"], b"0", "connections with the binary protocol")
        daemon.terminate()
        try:
            page(WORDPRESS_ALONE)
        finally:
            daemon.launch()
            daemon.wait_ready()


def wordpress_core():
    """Where WordPress' files are: unpacked from Debian's package into .build, once."""
    folder = os.path.join(server.ROOT, ".build", "wordpress")
    core = os.path.join(folder, "usr", "share", "wordpress")
    if not os.path.exists(os.path.join(core, "wp-includes", "load.php")):
        with tempfile.TemporaryDirectory(prefix="wordpress-package-") as home:
            for command in (["apt-get", "download", "wordpress"],
                            ["sh", "-c", f"dpkg-deb -x wordpress_*.deb {folder}"]):
                done = subprocess.run(command, cwd=home, capture_output=True, text=True, timeout=120)
                if done.returncode != 0:
                    raise Skipped(f"WordPress cannot be fetched from Debian: {done.stderr[-100:]}")
    return core


class Application(http.server.BaseHTTPRequestHandler):
    """The application behind nginx; it stores nothing."""

    def do_GET(self):
        body = b"from the application"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def nginx(daemon):
    program = shutil.which("nginx") or "/usr/sbin/nginx"
    if not os.access(program, os.X_OK) or not os.path.exists(NGINX_MODULE):
        raise Skipped("nginx with its memc module is not installed (nginx-light, libnginx-mod-http-memc)")
    folder = tempfile.mkdtemp(prefix="nginx-")
    application = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Application)
    threading.Thread(target=application.serve_forever, daemon=True).start()
    port = server.free_port()
    text = snippet("nginx", "nginx", daemon).replace("listen 8080", f"listen 127.0.0.1:{port}")
    text = text.replace("127.0.0.1:8000", f"127.0.0.1:{application.server_port}")
    modules = "".join(f"load_module {path};\n" for path in ndk_modules())
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    paths = "".join(f"{kind}_temp_path {folder}/{kind};\n" for kind in kinds)
    with open(os.path.join(folder, "nginx.conf"), "w", encoding="utf-8") as file:
        file.write(f"{modules}daemon off;\npid {folder}/pid;\nerror_log {folder}/log;\nevents {{}}\n"
                   f"http {{\naccess_log off;\n{paths}{text}\n}}\n")
    process = subprocess.Popen([program, "-p", folder, "-c", os.path.join(folder, "nginx.conf")],
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}/page?x=1"
        expect(fetch(url), b"from the application", "a page that is not cached")
        with daemon.connect() as client:
            client.set(f"http://127.0.0.1/page?x=1".encode(), b"from the cache " * 5000)
        expect(fetch(url), b"from the cache " * 5000, "a page that is cached, in a file of the disk tier")
        restart(daemon)
        expect(fetch(url), b"from the cache " * 5000, "the page after the restart")
    finally:
        process.terminate()
        process.wait(10)
        application.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


def ndk_modules():
    folder = os.path.dirname(NGINX_MODULE)
    return [path for path in (os.path.join(folder, "ndk_http_module.so"), NGINX_MODULE) if os.path.exists(path)]


def fetch(url):
    deadline = time.monotonic() + 10
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.read()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def contributed():
    with open(os.path.join(server.ROOT, "docs", "METRICS.md"), encoding="utf-8") as file:
        known = set(re.findall(r"^\| `(\w+)` \|", file.read(), re.MULTILINE))
    with open(os.path.join(CONTRIB, "grafana", "cache-daemon.json"), encoding="utf-8") as file:
        board = json.load(file)
    with open(os.path.join(CONTRIB, "prometheus", "cache-daemon.rules.yml"), encoding="utf-8") as file:
        rules = file.read()
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    expressions += re.findall(r"expr: (?:\|\n)?((?:.|\n)*?)(?:for:|labels:)", rules)
    used = {name for text in expressions for name in re.findall(r"\b(?:cache_daemon|process)_\w+", text)}
    plain = {re.sub(r"_(total|info|bucket)$", "", name) for name in used}
    expect_true(len(used) > 20 and plain <= known, f"unknown: {plain - known}")
    tool = shutil.which("promtool")
    if tool is None:
        raise Skipped("promtool is not installed (Debian package prometheus)")
    path = os.path.join(CONTRIB, "prometheus", "cache-daemon.rules.yml")
    done = subprocess.run([tool, "check", "rules", path], capture_output=True, text=True, timeout=30)
    expect(done.returncode, 0, done.stdout + done.stderr)


def needed(program, package):
    path = shutil.which(program)
    if path is None:
        raise Skipped(f"{program} is not installed (Debian package {package})")
    return path
