"""Reads a wire script: a text file of what is sent and what must come back.

    # One sentence that says what the script shows.
    needs restart              header: skip the script on a server without it (disk, restart, meta),
                               on a memcached (ours) or on 1.6.18 (newest)
    value-limit 1m             header: start the server with this -I (memcached's notation)
    > set a 0 0 1              send the text and CRLF
    >> get a                   send the text alone
    < STORED                   the next line of the reply, which must end in CRLF
    <~ VALUE a 0 1 (?P<u>\\d+)  a regular expression for the next line; its groups become $u for later lines
    <new ERROR                 what the newest memcached (1.6.45) answers instead of the `<` lines just above
    <old ERROR                 what Debian's memcached (1.6.18) answers instead; `(nothing)` stands for no line
    closed                     the server closes the connection now, without another byte
    reconnect                  end this connection (nothing may be left to read) and open another one
    on NAME                    go on with the connection of that name, opening it at first use
    restart / kill             stop the server with SIGTERM / SIGKILL, start it again, reconnect
    sleep 1.5                  seconds
    eventually 4               repeat the next exchange until it matches, for at most this many seconds
    greater b a / equal b a    compare two captured numbers
    repeat 100 ... end         the lines between, with $i from 1 to 100

Text may hold \\xNN, \\t, \\r, \\n, \\s (a space) and \\\\, `{250*x}` for 250 times x, `{1..9 k$i}` for `k1 k2 ... k9`.
A line that begins with # is a comment. Parsing is pure: no sockets here.
"""

import re

SENDS = (">", ">>")
REPLIES = ("<", "<~", "<new", "<old")
WORDS = {
    "closed": 0,
    "reconnect": 0,
    "restart": 0,
    "kill": 0,
    "on": 1,
    "sleep": 1,
    "eventually": 1,
    "greater": 2,
    "equal": 2,
}
HEADERS = ("needs", "value-limit")


class ScriptError(Exception):
    """The script itself is wrong; the text begins with file:line."""


class Step:
    """One action. `kind` is `send`, `reply` or a word of `WORDS`."""

    __slots__ = ("kind", "line", "arguments", "text", "wanted", "is_raw")

    def __init__(self, kind, line, arguments=(), text=None, is_raw=False):
        self.kind = kind
        self.line = line
        self.arguments = arguments
        self.text = text
        self.is_raw = is_raw
        # For a reply: dialect -> list of (is_pattern, text, line); `None` is the answer of all others.
        self.wanted = {}

    def lines_for(self, dialect):
        return self.wanted.get(dialect, self.wanted.get(None, []))


class Script:
    """A parsed script: title, needs, value limit and steps."""

    def __init__(self, path, text):
        self.path = path
        self.name = path.rsplit("/", 1)[-1]
        self.needs = []
        self.value_limit = None
        self.steps = []
        lines = text.split("\n")
        if not lines[0].startswith("# ") or not lines[0].rstrip().endswith((".", "?")):
            raise ScriptError(f"{self.name}:1: the first line must be one sentence after `# `")
        self.title = lines[0][2:].strip()
        for number, line in unrolled(self.name, lines):
            self.add(number, line)

    def add(self, number, line):
        if not line.strip() or line.startswith("#"):
            return
        word, _, rest = line.partition(" ")
        if word in SENDS:
            self.steps.append(Step("send", number, text=rest, is_raw=word == ">>"))
        elif word in REPLIES:
            self.add_reply(number, word, rest)
        elif word in HEADERS:
            self.add_header(number, word, rest.split())
        elif word in WORDS:
            arguments = rest.split()
            if len(arguments) != WORDS[word]:
                raise ScriptError(f"{self.name}:{number}: `{word}` takes {WORDS[word]} arguments")
            self.steps.append(Step(word, number, arguments))
        else:
            raise ScriptError(f"{self.name}:{number}: unknown word `{word}`")

    def add_header(self, number, word, arguments):
        if self.steps:
            raise ScriptError(f"{self.name}:{number}: `{word}` belongs above the first step")
        if word == "needs":
            self.needs += arguments
        else:
            self.value_limit = arguments[0]

    def add_reply(self, number, word, rest):
        dialect = {"<": None, "<~": None, "<new": "new", "<old": "old"}[word]
        last = self.steps[-1] if self.steps else None
        begins = last is None or last.kind != "reply" or (dialect is None and len(last.wanted) > 1)
        if begins:
            if dialect is not None:
                raise ScriptError(f"{self.name}:{number}: `{word}` needs a `<` line above it")
            last = Step("reply", number)
            self.steps.append(last)
        block = last.wanted.setdefault(dialect, [])
        if rest != "(nothing)":
            block.append((word == "<~" or (dialect and rest.startswith("~ ")), rest, number))


def unrolled(name, lines):
    """The lines with every `repeat` written out, each with its number in the file."""
    result, block, count, start = [], None, 0, 0
    for number, line in enumerate(lines, 1):
        words = line.split()
        if words[:1] == ["repeat"]:
            if block is not None:
                raise ScriptError(f"{name}:{number}: `repeat` within `repeat`")
            block, count, start = [], int(words[1]), number
        elif words == ["end"] and block is not None:
            for i in range(1, count + 1):
                result += [(at, inner.replace("$i", str(i))) for at, inner in block]
            block = None
        else:
            (result if block is None else block).append((number, line))
    if block is not None:
        raise ScriptError(f"{name}:{start}: `repeat` without `end`")
    return result


ESCAPES = {"t": b"\t", "r": b"\r", "n": b"\n", "s": b" ", "\\": b"\\", "{": b"{", "$": b"$"}
TOKEN = re.compile(r"\\x([0-9a-f]{2})|\\(.)|\{(\d+)\*([^}]*)\}|\{(\d+)\.\.(\d+) ([^}]*)\}|\$([a-z][a-z0-9]*)")


def expanded(text, variables):
    """The bytes that a script text stands for."""
    parts, position = [], 0
    for match in TOKEN.finditer(text):
        parts.append(text[position : match.start()].encode())
        position = match.end()
        code, escape, count, repeated, low, high, listed, variable = match.groups()
        if code:
            parts.append(bytes([int(code, 16)]))
        elif escape:
            parts.append(ESCAPES[escape])
        elif count:
            parts.append(expanded(repeated, variables) * int(count))
        elif low:
            words = (listed.replace("$i", str(i)) for i in range(int(low), int(high) + 1))
            parts.append(b" ".join(expanded(word, variables) for word in words))
        else:
            parts.append(variables[variable])
    parts.append(text[position:].encode())
    return b"".join(parts)


def pattern(text, variables):
    """The compiled regular expression of a `<~` line; `$name` stands for a captured value, taken literally."""
    text = text[2:] if text.startswith("~ ") else text
    filled = re.sub(r"\$([a-z][a-z0-9]*)", lambda match: re.escape(variables[match[1]].decode("latin-1")), text)
    return re.compile(filled.encode("latin-1"))
