"""Plays the scripts of Tests/Wire against the server; each script is one check.

All scripts share one server, which is flushed before each of them; a script that asks for a restart or for a value
limit gets a server of its own. The dialect of the server picks the expected lines where memcached's versions differ.
"""

import os
import time

from connection import Closed
from report import Mismatch, Skipped, brief
from server import ROOT
from wire_script import Script, expanded, pattern

SCRIPTS = os.path.join(ROOT, "Tests", "Wire")


def run(context):
    scripts = []
    for name in sorted(os.listdir(SCRIPTS)):
        chosen = context.options.script
        if name.endswith(".wire") and (not chosen or any(part in name for part in chosen)):
            with open(os.path.join(SCRIPTS, name), encoding="utf-8") as file:
                scripts.append(Script(os.path.join(SCRIPTS, name), file.read()))
    if not scripts:
        raise Mismatch(f"no script in {SCRIPTS}")
    with context.target() as shared:
        for script in scripts:
            with context.report.case(f"{script.name}: {script.title}"):
                play_on_fitting_server(context, script, shared)


def play_on_fitting_server(context, script, shared):
    if "ours" in script.needs and shared.dialect != "ours":
        raise Skipped("shows what only our daemon does")
    if "newest" in script.needs and shared.dialect == "old":
        raise Skipped("1.6.18 differs too much in this")
    if "meta" in script.needs and not speaks_meta(shared):
        raise Skipped("the server does not speak the meta commands")
    missing = [need for need in script.needs if need not in ("ours", "newest", "meta") and need not in shared.capable]
    if missing:
        raise Skipped(f"needs {missing[0]}, which {shared.name} does not offer here")
    if script.value_limit and context.options.server:
        raise Skipped(f"needs a server with -I {script.value_limit}")
    if script.value_limit or "restart" in script.needs:
        with context.target(max_value=script.value_limit) as own:
            Player(script, own).play()
    else:
        with shared.connect() as connection:
            connection.command(b"flush_all")
        Player(script, shared).play()


def speaks_meta(server):
    with server.connect() as connection:
        return connection.command(b"mg absent") == b"EN"


class Player:
    """One run of one script: its connections by name and its captured values."""

    def __init__(self, script, server):
        self.script = script
        self.server = server
        self.connections = {}
        self.current = "main"
        self.variables = {}
        self.unsent = bytearray()

    def connection(self):
        if self.current not in self.connections:
            self.connections[self.current] = self.server.connect()
        return self.connections[self.current]

    def fail(self, line, text):
        raise Mismatch(f"line {line}: {text}")

    def play(self):
        index = 0
        steps = self.script.steps
        try:
            while index < len(steps):
                if steps[index].kind == "eventually":
                    index = self.play_eventually(index)
                else:
                    self.play_step(steps[index])
                    index += 1
            self.flush()
            for name in list(self.connections):
                self.current = name
                self.finish(steps[-1].line)
        finally:
            for connection in self.connections.values():
                connection.close()

    def play_step(self, step):
        if step.kind == "send":
            self.unsent += expanded(step.text, self.variables)
            if not step.is_raw:
                self.unsent += b"\r\n"
            return
        self.flush()
        if step.kind == "reply":
            self.expect_lines(step)
        elif step.kind == "closed":
            self.expect_closed(step)
        elif step.kind == "sleep":
            time.sleep(float(step.arguments[0]))
        elif step.kind == "on":
            self.current = step.arguments[0]
        elif step.kind == "reconnect":
            self.finish(step.line)
        elif step.kind in ("restart", "kill"):
            self.restart(step)
        else:
            self.compare(step)

    def flush(self):
        """Sends the gathered lines in one piece: lines that follow each other in a script are pipelined."""
        if self.unsent:
            pipelined, self.unsent = bytes(self.unsent), bytearray()
            self.connection().send(pipelined)

    def expect_lines(self, step):
        for is_pattern, text, number in step.lines_for(self.server.dialect):
            try:
                line = self.connection().line()
            except TimeoutError:
                self.fail(number, f"expected {brief(text)}, no reply came")
            except Closed as closed:
                self.fail(number, f"expected {brief(text)}, {closed}")
            if is_pattern:
                match = pattern(text, self.variables).fullmatch(line)
                if not match:
                    self.fail(number, f"expected a line like {brief(text)}, got {brief(line)}")
                self.variables.update(match.groupdict())
            elif line != expanded(text, self.variables):
                self.fail(number, f"expected {brief(expanded(text, self.variables))}, got {brief(line)}")

    def expect_closed(self, step):
        rest = self.connection().rest()
        if rest:
            self.fail(step.line, f"expected the connection to be closed, got {brief(rest)}")
        self.connections.pop(self.current).close()

    def finish(self, line):
        """Ends the current connection; nothing may be left to read on it."""
        connection = self.connections.pop(self.current, None)
        if connection is None:
            return
        try:
            connection.finish_sending()
            rest = connection.rest()
        except OSError as error:
            self.fail(line, f"the connection does not end: {error}")
        finally:
            connection.close()
        if rest:
            self.fail(line, f"unexpected reply {brief(rest)}")

    def restart(self, step):
        for name in list(self.connections):
            self.connections.pop(name).close()
        if step.kind == "kill":
            self.server.kill()
        else:
            status = self.server.terminate()
            if status != 0:
                self.fail(step.line, f"exit status {status} after SIGTERM")
        self.server.start()

    def compare(self, step):
        left, right = (int(self.variables[name]) for name in step.arguments)
        if step.kind == "greater" and not left > right:
            self.fail(step.line, f"{left} is not greater than {right}")
        if step.kind == "equal" and left != right:
            self.fail(step.line, f"{left} is not {right}")

    def play_eventually(self, index):
        """Plays the next exchange (sends, then a reply) until it matches; returns the index after it."""
        steps = self.script.steps
        end = index + 1
        while steps[end].kind == "send":
            end += 1
        deadline = time.monotonic() + float(steps[index].arguments[0])
        while True:
            try:
                for step in steps[index + 1 : end + 1]:
                    self.play_step(step)
                return end + 1
            except Mismatch:
                if time.monotonic() > deadline:
                    raise
                self.connections.pop(self.current).close()
                time.sleep(0.05)
