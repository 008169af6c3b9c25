"""Seeded random meta commands for the differential test, mixed with the classic ones on the same keys.

`MetaGenerator` makes what memcached 1.6.45 and we must answer alike, `SharedMetaGenerator` only what Debian's 1.6.18
answers so too. `META_DIFFERENCES` are the known ones; their commands carry our exact answer and change nothing.
`normalized` takes out of a reply what depends on the moment or on the server: seconds and uniques.

Numbers stay below 2^63 here: memcached now and then refuses to count larger ones (`stray sign` in differential.py).
"""

import base64
import re

from differential_commands import Command, Generator

META_DIFFERENCES = {
    "minus-zero": "-0 as a value to count: memcached takes it for 0, we for no number",
    "grown-unique": "ma with E where the number grows: memcached answers E's unique and stores another, we store E's",
    "grown-ttl": "ma with T where the number grows: memcached gives T to the entry that it replaces, we to the new one",
    "won-mark": "after append, prepend, md x or a longer number memcached forgets W, Z, X and base64, we do not",
    "empty-ttl": "md x without T: in memcached the entry never ends afterwards, here it keeps its end",
    "zero-unique": "ms with C0: with I memcached answers EX and we store; it appends without comparing, we answer EX",
    "base64-vivify": "mg and ma with N b on a miss: memcached forgets that the key came as base64, we do not",
    "hit-mark": "h and me's fetch: after N made the entry memcached says 1, after a counted number grew 0",
    "order-ma-ttl": "ma with t before T: memcached answers the old time, we the new one",
    "order-ma": "ma with C on an empty or very long value: memcached says that it is no number before it compares C",
    "base64-foreign": "a base64 key with foreign bytes: memcached decodes it without them, we refuse it",
    "long-opaque-ma": "ma with an opaque over 31 bytes: memcached counts before it answers with the error",
    "me-base64": "me with a base64 key: 1.6.45 does not decode it",
    "order-mg": "mg t N on a miss: memcached answers t-1, for it has not come to N yet; we show the new entry's",
    "ttl-expired": "t beside a T or N that expires the entry at once: memcached's number wraps to 4294967240 or so",
    "short-mn": "mn with a bare LF: 1.6.45 takes it for a line too short to be a command",
    "digit-flag-ms": "ms with a flag that is no letter: memcached takes the data block for requests",
}
MET_BY_CHANCE = (
    "order-ma",
    "hit-mark",
    "order-ma-ttl",
    "won-mark",
    "zero-unique",
    "base64-vivify",
    "empty-ttl",
    "grown-ttl",
    "grown-unique",
    "minus-zero",
)  # found in the answers, or kept out by `in_common_order`
TTLS = (b"0", b"0", b"100", b"1000", b"100000", b"2592000", b"-1", b"2592001")
EXPIRED = frozenset((b"T-1", b"N-1", b"T2592001", b"N2592001"))
BAD_NUMBERS = (b"", b"x", b"1x", b"-x", b"18446744073709551616", b"99999999999999999999")
SMALL = (b"0", b"1", b"2", b"7", b"10", b"99", b"100", b"1000", b"4294967295", b"4294967296")
LARGE_UNIQUE = 1 << 50  # above what either server gives of itself
REPLIES = (b"VA", b"HD", b"EN", b"NF", b"NS", b"EX")
TTL_STEP = 10


def normalized(line, uniques):
    """A meta reply with uniques replaced by their order of appearance and seconds rounded."""
    words = line.split(b" ")
    if words[0] == b"ME":
        line = re.sub(rb" la=\d+", b" la=~", re.sub(rb" (cas|cls|size)=\d+", rb" \1=~", line))
        return re.sub(rb" exp=(\d+)", lambda match: b" exp=" + rounded(match[1]), line)
    if words[0] not in REPLIES:
        return line
    for index in range(2 if words[0] == b"VA" else 1, len(words)):
        letter, token = words[index][:1], words[index][1:]
        if letter == b"c" and token.isdigit() and token != b"0":
            words[index] = b"c#%d" % uniques.setdefault(int(token), len(uniques))
        elif letter == b"t" and token.isdigit():
            words[index] = b"t" + rounded(token)
        elif letter == b"l" and token.isdigit() and int(token) < TTL_STEP:
            words[index] = b"l~"
    return b" ".join(words)


def rounded(token):
    """Seconds left, rounded up: the two servers may be asked on either side of a tick."""
    if int(token) > 10_000_000:  # an absolute time: how much is left depends on when the test runs
        return b"far"
    return b"%d" % ((int(token) + TTL_STEP - 1) // TTL_STEP * TTL_STEP)


def without_marks(answer):
    """A reply without what an entry remembers besides its value: hit, W, Z, X and that its key came as base64."""
    answer = re.sub(rb"^ME [^ \r]+( b)?", b"ME", re.sub(rb" k[^ \r]+( b)?", b"", answer, count=1))
    return re.sub(rb"( [ZXW])+(?=\r\n)", b"", without_hit_mark(answer), count=1)


def without_hit_mark(answer):
    """A reply without what `h` and `me` tell about earlier hits."""
    return re.sub(rb" fetch=(yes|no)", b"", re.sub(rb" h[01](?=[ \r])", b"", answer, count=1))


def unique_in(line):
    """The unique that a meta reply tells, or None."""
    words = line.split(b" ")
    if words[0] in (b"VA", b"HD"):
        for word in words[2 if words[0] == b"VA" else 1 :]:
            if word[:1] == b"c" and word[1:].isdigit() and word != b"c0":
                return int(word[1:])
    return None


def in_common_order(verb, flags):
    """Without the orders of T, N, R and t that mean something of their own to memcached: `order-mg`, `order-ma-ttl`."""
    letters = {flag[:1] for flag in flags}
    dropped = b"TR" if b"N" in letters else b"R" if b"T" in letters else b""
    kept = [flag for flag in flags if flag[:1] not in dropped or not flag]
    return sorted(kept, key=lambda flag: flag[:1] == b"t") if b"N" in letters or verb == b"ma" else kept


class MetaGenerator(Generator):
    """Meta and classic commands that 1.6.45 and we answer alike."""

    differences = META_DIFFERENCES
    odds_of_error = 0.06
    letters = {
        b"mg": b"stcfkOhluvqTNRCE",
        b"ms": b"scfkOqTFMCEIN",
        b"md": b"kOqCITxE",
        b"ma": b"tckOqvTNJDMCE",
    }
    created = 0
    noise = b"PLFDJIMx"  # letters that mean nothing to mg
    classic_share = 0.25

    def same(self):
        if self.rng.random() < self.classic_share:
            return super().same()
        verb = self.rng.choice((b"mg", b"mg", b"mg", b"ms", b"ms", b"ms", b"md", b"ma", b"ma", b"mn", b"me"))
        return Command(getattr(self, verb.decode())())

    def count(self):
        verb = self.rng.choice((b"incr", b"decr"))
        return self.line(verb, self.countable(), self.rng.choice(SMALL), self.quiet().strip())

    def countable(self):
        keys = [key for key in self.keys if key not in self.never_counted and key not in self.read]
        return self.rng.choice(keys or [self.unused + b"n"])

    def data(self, key):
        data = super().data(key)
        if data.strip(b"-") == b"":  # minus-zero: a zero may be appended to it
            data = b"x" * len(data)
        return data if len(data) < 19 or not data.strip().isdigit() else b"12345"

    def name(self, key, flags):
        """The key as it is sent: now and then as base64, with the flag for that."""
        if self.rng.random() < 0.15 and len(key) < 180:
            flags.append(b"b")
            return base64.b64encode(key)
        return key

    def flags(self, verb, chance):
        """A random choice of the verb's flags, each once, in random order, now and then with an error."""
        letters = [self.letters[verb][index : index + 1] for index in range(len(self.letters[verb]))]
        chosen = [letter for letter in letters if self.rng.random() < chance]
        flags = [letter + self.token(verb, letter) for letter in chosen]
        if verb == b"mg" and self.noise and self.rng.random() < 0.1:
            letter = bytes([self.rng.choice(self.noise)])
            flags.append(letter + (b"1" if letter in (b"F", b"D", b"J") else b"S" if letter == b"M" else b""))
        if self.rng.random() < self.odds_of_error:
            flags.append(self.rng.choice((b"Q", b"z", b"k", b"q", b"q", b"T", b"Tx", b"Cx", b"O" + b"o" * 31, b"Ex")))
        if EXPIRED.intersection(flags):
            flags = [flag for flag in flags if flag[:1] != b"t"]
        self.rng.shuffle(flags)
        return in_common_order(verb, flags) if verb in (b"mg", b"ma") else flags

    def token(self, verb, letter):
        if letter in (b"T", b"N", b"R"):
            if self.rng.random() < self.odds_of_error:
                return self.rng.choice(BAD_NUMBERS)
            return self.rng.choice((b"30", b"0", b"500", b"-1") if letter == b"R" else TTLS)
        if letter == b"O":
            return b"o" * self.rng.choice((0, 1, 5, 31))
        if letter == b"F":
            return self.rng.choice((b"0", b"7", b"4294967295"))
        if letter == b"E":
            return b"%d" % (LARGE_UNIQUE + self.rng.randrange(1 << 30))
        if letter == b"C":
            return self.rng.choice((b"{unique}", b"{unique}", b"{unique}", b"0", b"18446744073709551615"))
        if letter in (b"J", b"D"):
            return self.rng.choice(SMALL)
        if letter == b"M":
            return self.rng.choice((b"I", b"D", b"+", b"-") if verb == b"ma" else (b"S", b"E", b"A", b"P", b"R"))
        return b""

    def meta(self, verb, key, chance, length=None):
        flags = self.flags(verb, chance)
        name = self.name(key, flags)
        letters = {flag[:1] for flag in flags}
        if verb in (b"mg", b"ma") and b"b" in letters:  # base64-vivify
            flags = [flag for flag in flags if flag[:1] != b"N"]
        if verb == b"md" and b"T" not in letters:  # empty-ttl
            flags = [flag for flag in flags if flag != b"x"]
        if verb == b"ma":  # grown-ttl, grown-unique
            flags = [flag for flag in flags if flag[:1] not in b"TE" or not flag]
        if verb == b"ms":  # zero-unique
            flags = [flag for flag in flags if flag != b"C0"]
        flags = [flag.replace(b"{unique}", b"{unique:%s}" % name) for flag in flags]
        size = [] if length is None else [b"%d" % length]
        return b" ".join([verb, name, *size, *flags]) + self.rng.choice((b"\r\n", b"\r\n", b"\n", b" \r\n"))

    def mg(self):
        key = self.key()
        self.read.add(key)
        return self.meta(b"mg", key, 0.3)

    def ms(self):
        key = self.key()
        data = self.data(key)
        if self.rng.random() < self.odds_of_error / 2:
            return self.meta(b"ms", key, 0.2, len(data)) + data + b"xy\r\n"
        return self.meta(b"ms", key, 0.2, len(data)) + data + b"\r\n"

    def md(self):
        return self.meta(b"md", self.key(), 0.2)

    def ma(self):
        return self.meta(b"ma", self.countable(), 0.25)

    def mn(self):
        return self.rng.choice((b"mn\r\n", b"mn x\r\n"))

    def me(self):
        return b"me %s\r\n" % self.key()

    def unknown(self):
        """Two bytes and a bare LF are too short a line for 1.6.45, as in `short-mn`."""
        request = super().unknown()
        return request if len(request) > 3 else b"bogus\r\n"

    def differing(self):
        name = self.rng.choice([name for name in self.differences if name not in MET_BY_CHANCE])
        return getattr(self, "differ_" + name.replace("-", "_"))(name)

    def differ_base64_foreign(self, name):
        return Command(b"mg Zm9v!!%s b v\r\n" % b"Zm9v", name, b"CLIENT_ERROR error decoding key\r\n")

    def differ_long_opaque_ma(self, name):
        request = b"ma %s O%s\r\n" % (self.unused, b"o" * 40)
        return Command(request, name, b"CLIENT_ERROR opaque token too long\r\n")

    def differ_me_base64(self, name):
        return Command(b"me %s b\r\n" % base64.b64encode(self.unused), name, b"EN\r\n")

    def differ_order_mg(self, name):
        """On a key of its own each time: it creates an entry."""
        self.created += 1
        return Command(b"mg %s%d t N100\r\n" % (self.unused, self.created), name, b"HD t100 W\r\n")

    def differ_ttl_expired(self, name):
        return Command(b"ma %s N-1 t\r\n" % self.unused, name, b"HD t0\r\n")

    def differ_short_mn(self, name):
        return Command(b"mn\n", name, b"MN\r\n")

    def differ_digit_flag_ms(self, name):
        return Command(b"ms %s 2 1\r\nhi\r\n" % self.unused, name, b"CLIENT_ERROR invalid flag\r\n")


class SharedMetaGenerator(MetaGenerator):
    """What 1.6.18 answers too: no E and x, no s from ms, no errors and no classic commands in between."""

    differences = {}
    odds_of_error = 0.0
    noise = b""
    letters = {b"mg": b"stcfkOhluvqTNR", b"ms": b"cfkOqTFM", b"md": b"kOq", b"ma": b"tckOvTNJDM"}

    def name(self, key, flags):
        return key

    def same(self):
        verb = self.rng.choice((b"mg", b"mg", b"mg", b"ms", b"ms", b"md", b"ma", b"mn"))
        return Command(getattr(self, verb.decode())())

    def mn(self):
        return b"mn\r\n"
