"""Seeded random commands for the differential test, and what is known to differ between the two servers.

`Generator` makes commands that both servers must answer alike, and commands whose answers are known to differ by
version (`DIFFERENCES`). The latter carry our exact answer, use keys of their own and change nothing, so that the state
of the two servers stays the same. A request is a template: `{unique:KEY}` stands for the unique that each server gave
KEY.
"""

FORMAT = b"CLIENT_ERROR bad command line format\r\n"
DIFFERENCES = {
    "few-words": "a known command with too few words: 1.6.18 says ERROR",
    "long-key": "a storage command with a key over 250 bytes: 1.6.18 runs the data as commands",
    "bad-number": "storage with flags, exptime or unique that is no number: 1.6.18 runs the data as commands",
    "short-line": "a line of fewer than two bytes: 1.6.18 says ERROR",
    "leading-space": "a space before the command: 1.6.18 accepts it",
    "surplus-words": "two or more words too many: 1.6.18 says ERROR",
    "wide-time": "touch and gat with a time over 32 bits: 1.6.18 accepts it",
    "plus-delta": "incr with +1: 1.6.18 accepts it",
    "delete-words": "delete with surplus words: 1.6.45 ignores them, 1.6.18 has texts of its own, we refuse them",
    "verbosity": "verbosity with words that are no level: 1.6.18 answers ERROR or OK",
    "wide-length": "a length over 32 bits: 1.6.18 takes its low 32 bits",
}
NEWEST_DIFFERS = frozenset({"delete-words"})
NUMBERS = (
    b"0",
    b"1",
    b"2",
    b"7",
    b"10",
    b"99",
    b"100",
    b"1000",
    b"4294967295",
    b"4294967296",
    b"9223372036854775807",
    b"9223372036854775808",
    b"18446744073709551614",
    b"18446744073709551615",
)
BLANKS = (b"", b"", b" ", b"\r\n", b"\x00\xff")
TEXTS = (
    b"x",
    b"hello",
    b"5x",
    b"-5",
    b" 5",
    b"5 ",
    b"+7",
    b"0012",
    b"18446744073709551616",
    b"\xff\x80",
    b"a\r\nb",
    b"END",
    b"1.5",
    b"9" * 25,
)
LENGTHS = (1, 10, 100, 1000, 5000, 20479, 20480, 20481, 60000)
TIMES = (b"0", b"0", b"0", b"100", b"2592000", b"2592001", b"-1", b"-100", b"2147483647", b"-2147483648")
FLAGS = (b"0", b"1", b"65535", b"4294967295", b"4294967296", b"4294967297", b"18446744073709551615", b"007")


class Command:
    """One request and, where the two servers are known to differ, the name of the difference and our answer."""

    __slots__ = ("request", "difference", "ours", "is_last")

    def __init__(self, request, difference=None, ours=None, is_last=False):
        self.request = request
        self.difference = difference
        self.ours = ours
        self.is_last = is_last


class Generator:
    """Commands of one round, on keys that no other round uses."""

    differences = DIFFERENCES

    def __init__(self, rng, round_number):
        self.rng = rng
        prefix = b"r%d:" % round_number
        self.keys = [
            prefix + name for name in (b"a", b"b", b"c", b"d", b"n", b"m", b"Key", b"\xff\x01", b"t\tb", b"noreply")
        ]
        self.keys.append(prefix + b"k" * (250 - len(prefix)))
        # memcached reads past the end of a blank value to find a number, and ends a number at a NUL: never counted.
        self.never_counted = self.keys[2:4]
        self.unused = prefix + b"unused"
        self.read = set()

    def begin_batch(self):
        """Keys read in a batch are not counted later in it: see `count`."""
        self.read.clear()

    def key(self):
        return self.rng.choice(self.keys)

    def data(self, key):
        draw = self.rng.random()
        if draw < 0.1 and key in self.never_counted:
            return self.rng.choice(BLANKS)
        if draw < 0.5:
            return self.rng.choice(NUMBERS)
        if draw < 0.75:
            return self.rng.choice(TEXTS)
        length = self.rng.choice(LENGTHS)
        # A number of many thousand digits is no number to us, and one to memcached while it fits in a chunk.
        lowest = 33 if length <= 1000 else 58
        return bytes([self.rng.randrange(lowest, 127)]) * length

    def quiet(self):
        return b" noreply" if self.rng.random() < 0.12 else b""

    def spaces(self):
        return b" " * self.rng.choice((1, 1, 1, 1, 1, 2, 3))

    def end(self):
        return self.rng.choice((b"\r\n", b"\r\n", b"\r\n", b"\n", b" \r\n", b"  \n"))

    def line(self, *words):
        """The words with random spacing and line end."""
        return self.spaces().join(word for word in words if word) + self.end()

    def same(self):
        """A command that both servers answer alike."""
        return Command(
            self.rng.choice(
                (
                    self.store,
                    self.store,
                    self.store,
                    self.retrieve,
                    self.retrieve,
                    self.count,
                    self.count,
                    self.touch,
                    self.gat,
                    self.delete,
                    self.compare,
                    self.flush,
                    self.bad_chunk,
                    self.unknown,
                    self.bad_number_kept,
                )
            )()
        )

    def store(self):
        verb = self.rng.choice((b"set", b"set", b"set", b"add", b"replace", b"append", b"prepend"))
        key = self.key()
        data = self.data(key)
        time = self.rng.choice(TIMES) if self.rng.random() < 0.4 else b"0"
        flags = self.rng.choice(FLAGS)
        return self.line(verb, key, flags, time, b"%d" % len(data), self.quiet().strip()) + data + b"\r\n"

    def compare(self):
        key = self.key()
        data = self.data(key)
        unique = self.rng.choice((b"{unique:%s}", b"{unique:%s}", b"0", b"18446744073709551615", b"1"))
        unique = unique % key if b"%s" in unique else unique
        return self.line(b"cas", key, b"5", b"0", b"%d" % len(data), unique, self.quiet().strip()) + data + b"\r\n"

    def retrieve(self):
        verb = self.rng.choice((b"get", b"get", b"gets"))
        return self.line(verb, *self.read_keys((1, 1, 1, 1, 2, 5, 30)))

    def read_keys(self, counts):
        keys = [self.key() for _ in range(self.rng.choice(counts))]
        self.read.update(keys)
        return keys

    def gat(self):
        verb = self.rng.choice((b"gat", b"gats"))
        time = self.rng.choice(TIMES + (b"x",))
        return self.line(verb, time, *self.read_keys((1, 1, 3)))

    def count(self):
        """incr or decr. memcached pads in place only while no answer that waits to be sent holds the entry."""
        verb = self.rng.choice((b"incr", b"decr"))
        delta = self.rng.choice(NUMBERS + (b"-1", b"x", b"1.5", b"18446744073709551616", b"9" * 40, b"007"))
        keys = [key for key in self.keys if key not in self.never_counted and key not in self.read]
        key = self.rng.choice(keys or [self.unused])
        return self.line(verb, key, delta, self.quiet().strip())

    def touch(self):
        return self.line(b"touch", self.key(), self.rng.choice(TIMES + (b"x", b"1x")), self.quiet().strip())

    def delete(self):
        return self.line(b"delete", self.key(), self.rng.choice((b"", b"", b"", b"0")), self.quiet().strip())

    def flush(self):
        return self.line(b"flush_all", self.rng.choice((b"", b"0", b"-1", b"x")), self.quiet().strip())

    def bad_chunk(self):
        return b"set %s 0 0 5\r\nabcdefghijk\r\n" % self.key()

    def bad_number_kept(self):
        """A length that is none: both answer one line and drop nothing."""
        length = self.rng.choice((b"-1", b"x", b"1.5", b"2147483646", b"2147483647", b"2147483648", b"9" * 30))
        return b"%s %s 0 0 %s\r\n" % (self.rng.choice((b"set", b"add", b"append")), self.key(), length)

    def unknown(self):
        return self.line(
            self.rng.choice((b"bogus", b"GET", b"sets", b"gett", b"touchx", b"\x01\x02")),
            self.rng.choice((b"", b"a", b"a b c")),
        )

    def differing(self):
        """A command whose answers are known to differ, with ours."""
        name = self.rng.choice([name for name in DIFFERENCES if name != "wide-length"])
        return getattr(self, "differ_" + name.replace("-", "_"))(name)

    def differ_few_words(self, name):
        request = self.rng.choice(
            (
                b"get",
                b"gets",
                b"gat",
                b"gats",
                b"delete",
                b"incr",
                b"decr n",
                b"touch",
                b"touch a",
                b"set",
                b"add a",
                b"set a 0",
                b"append a 0 0",
                b"cas a 0 0",
                b"verbosity",
                b"gat 0",
            )
        )
        return Command(request + b"\r\n", name, FORMAT)

    def differ_long_key(self, name):
        verb = self.rng.choice((b"set", b"add", b"replace", b"append", b"prepend"))
        return Command(b"%s %s 0 0 2\r\nhi\r\n" % (verb, b"k" * self.rng.choice((251, 252, 1000))), name, FORMAT)

    def differ_bad_number(self, name):
        words = [b"0", b"0"]
        words[self.rng.randrange(2)] = (
            self.rng.choice((b"x", b"1x", b"", b"-", b"18446744073709551616", b"1.5")) or b"y"
        )
        return Command(b"set %s %s %s 2\r\nhi\r\n" % (self.unused, *words), name, FORMAT)

    def differ_short_line(self, name):
        return Command(self.rng.choice((b"\r\n", b"\n", b"x\r\n", b"?\n")), name, FORMAT)

    def differ_leading_space(self, name):
        return Command(b" get %s\r\n" % self.unused, name, b"ERROR\r\n")

    def differ_surplus_words(self, name):
        # The value expires at once, so that accepting it changes nothing.
        return Command(b"set %s 0 -1 2 a b c\r\nhi\r\n" % self.unused, name, b"STORED\r\n")

    def differ_wide_time(self, name):
        verb = self.rng.choice((b"touch %s %s", b"gat %s %s"))
        words = (self.unused, b"99999999999")
        line = verb % (words if verb.startswith(b"touch") else words[::-1])
        return Command(line + b"\r\n", name, b"CLIENT_ERROR invalid exptime argument\r\n")

    def differ_plus_delta(self, name):
        return Command(b"incr %s +1\r\n" % self.unused, name, b"CLIENT_ERROR invalid numeric delta argument\r\n")

    def differ_delete_words(self, name):
        return Command(
            b"delete %s %s\r\n" % (self.unused, self.rng.choice((b"1", b"x", b"a b c", b"0 1"))), name, FORMAT
        )

    def differ_verbosity(self, name):
        return Command(b"verbosity %s\r\n" % self.rng.choice((b"x", b"foo bar my", b"-1")), name, FORMAT)

    def differ_wide_length(self, name="wide-length"):
        """Ends a round: 1.6.18 is out of step after it."""
        return Command(b"set %s 0 0 4294967297\r\n" % self.unused, name, FORMAT, is_last=True)
