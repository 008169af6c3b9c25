"""Replays every example session of docs/PROTOCOL.md against a fresh daemon: the printed replies must be the real ones.

A session is a fenced block whose lines all begin with `> ` (sent) or `< ` (answered). Lines that are sent one after the
other are sent in one piece. Other blocks show samples of log lines and dumps and are not replayed. The last checks
replay altered sessions, each of which must fail: a replay that cannot fail shows nothing.
"""

import os
import re

from connection import Closed
from report import Mismatch, brief, expect_true
from server import ROOT

DOCUMENT = os.path.join(ROOT, "docs", "PROTOCOL.md")
FEWEST_EVENTS = 25  # what a reader of the sources that finds too little would not reach
FEWEST_SESSIONS = 25  # what a reader that finds no fences any more would not reach


class Session:
    """One example: where it stands and its lines, each (number, is_sent, text)."""

    def __init__(self, heading, number):
        self.heading = heading
        self.number = number
        self.lines = []

    def altered(self, index, text):
        """A copy whose line `index` says something else, or is missing if `text` is None."""
        copy = Session(self.heading, self.number)
        copy.lines = list(self.lines)
        number, is_sent, _ = self.lines[index]
        copy.lines[index : index + 1] = [] if text is None else [(number, is_sent, text)]
        return copy


def run(context):
    with open(DOCUMENT, encoding="utf-8", newline="") as file:
        sessions = sessions_of(file.read())
    with context.report.case(f"PROTOCOL.md holds at least {FEWEST_SESSIONS} example sessions"):
        expect_true(len(sessions) >= FEWEST_SESSIONS, f"sessions found: {len(sessions)}")
    for session in sessions:
        with context.report.case(f"line {session.number}, {session.heading}: the replies are as printed"):
            replay_afresh(context, session)
    with context.report.case("every event of the log is in OPERATIONS.md, and every event there is in the code"):
        log_events()
    with context.report.case("an altered, a missing or a surplus reply is noticed in every session"):
        seeded_errors(context, sessions)


def log_events():
    """What an operator may find in the log, by the sources and by the document."""
    logged, sources = set(), ""
    for folder, _, names in os.walk(os.path.join(ROOT, "Sources", "CacheDaemon")):
        for name in names:
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                text = file.read()
            sources += text
            # The level may be an expression, of which no part is a string with a comma behind it.
            logged |= set(re.findall(r"""(?:\blog\.write|\blog)\(\s*[^;]{0,90}?,\s*"([^"\\]+)"[,)]""", text))
    expect_true(len(logged) >= FEWEST_EVENTS, f"events found: {sorted(logged)}")
    with open(os.path.join(ROOT, "docs", "OPERATIONS.md"), encoding="utf-8") as file:
        section = re.search(r"\n## Log lines\n(.*?)\n## ", file.read(), re.DOTALL).group(1)
    told = set(re.findall(r"`([^`]+)`", " ".join(re.findall(r"^\| (.*?) \|", section, re.MULTILINE))))
    told |= set(re.findall(r"`([^`]+)`", section.rpartition("The others tell")[2].partition("A `connection`")[0]))
    missing = [event for event in logged if not any(text.startswith(event) for text in told)]
    expect_true(not missing, f"not in OPERATIONS.md: {sorted(missing)}")
    surplus = [text for text in told if not any(text.startswith(event) for event in logged)
               and f'"{text}"' not in sources]
    expect_true(not surplus, f"in no source: {sorted(surplus)}")


def sessions_of(text):
    """All sessions of a document."""
    sessions, heading, block = [], "", None
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("```"):
            if block is not None and block.lines:
                sessions.append(block)
            block = Session(heading, number + 1) if block is None else None
        elif block is None:
            if line.startswith("#"):
                heading = line.lstrip("# ")
        elif line[:2] in ("> ", "< ") or line in (">", "<"):
            block.lines.append((number, line[0] == ">", line[2:].encode()))
        elif block.lines:
            raise Mismatch(f"line {number} of {DOCUMENT} stands in a session and is neither sent nor answered")
    return sessions


def replay_afresh(context, session):
    with context.daemon(memory="64MiB", disk="256MiB") as server:
        replay(server, session)


def replay(server, session):
    """Sends the lines and compares the replies; nothing may be left over."""
    last_sent = max(index for index, line in enumerate(session.lines) if line[1])
    with server.connect(timeout=5) as connection:
        unsent = bytearray()
        for index, (number, is_sent, text) in enumerate(session.lines):
            if not is_sent:
                require_line(connection, number, text)
                continue
            unsent += text + b"\r\n"
            if index == last_sent or not session.lines[index + 1][1]:
                connection.send(bytes(unsent))
                unsent.clear()
            # With nothing more to send, a reply that is missing ends the connection instead of keeping us waiting.
            if index == last_sent:
                connection.finish_sending()
        rest = connection.rest()
        if rest:
            raise Mismatch(f"line {session.lines[-1][0]}: surplus reply {brief(rest)}")


def require_line(connection, number, text):
    try:
        line = connection.line()
    except (Closed, TimeoutError) as error:
        raise Mismatch(f"line {number}: printed {brief(text)}, got no such line ({error})") from None
    if line != text:
        raise Mismatch(f"line {number}: printed {brief(text)}, got {brief(line)}")


def seeded_errors(context, sessions):
    """Alters the last reply of each session in three ways. One daemon serves them all: they need not be right."""
    with context.daemon(memory="64MiB", disk="256MiB") as server:
        for session in sessions:
            replies = [index for index, line in enumerate(session.lines) if not line[1]]
            if not replies:
                continue
            last = replies[-1]
            text = session.lines[last][2]
            for altered in (
                session.altered(last, text + b"x"),
                session.altered(last, None),
                session.altered(last, text + b"\r\n" + text),
            ):
                require_failure(server, altered)


def require_failure(server, session):
    with server.connect() as connection:
        connection.command(b"flush_all")
        connection.command(b"lru_crawler enable")
    try:
        replay(server, session)
    except Mismatch:
        return
    raise Mismatch(f"line {session.number}: an altered session was accepted")
