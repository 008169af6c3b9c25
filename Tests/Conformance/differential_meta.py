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
    "empty-ttl": "md x without T: in memcached the entry never ends afterwards, here it keeps its end",
    "base64-vivify": "mg and ma with N b on a miss: memcached forgets that the key came as base64, we do not",
    "base64-anew": "after append, prepend, md x or a longer number memcached forgets the same, we do not",
    "order-ma-ttl": "ma with t before T: memcached answers the old time, we the new one",
    "base64-foreign": "a base64 key with foreign bytes: memcached decodes it without them, we refuse it",
    "long-opaque-ma": "ma with an opaque over 31 bytes: memcached counts before it answers with the error",
    "me-base64": "me with a base64 key: 1.6.45 does not decode it",
    "order-mg": "mg t N on a miss: memcached answers t-1, for it has not come to N yet; we show the new entry's",
    "ttl-expired": "t beside a T or N that expires the entry at once: memcached's number wraps to 4294967240 or so",
    "short-mn": "mn with a bare LF: 1.6.45 takes it for a line too short to be a command",
}
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

    def __init__(self, rng, round_number):
        super().__init__(rng, round_number)
        self.as_base64 = self.keys[4:6]  # base64-anew: only these are stored so, and they are never made anew

    def store(self):
        while True:
            request = super().store()
            if request.split(b" ")[0] not in (b"append", b"prepend") or request.split()[1] not in self.as_base64:
                return request

    def same(self):
        if self.rng.random() < self.classic_share:
            return super().same()
        verb = self.rng.choice((b"mg", b"mg", b"mg", b"ms", b"ms", b"ms", b"md", b"ma", b"ma", b"mn", b"me"))
        return Command(getattr(self, verb.decode())())

    def count(self):
        verb = self.rng.choice((b"incr", b"decr"))
        return self.line(verb, self.countable(), self.rng.choice(SMALL), self.quiet().strip())

    def countable(self):
        kept_out = (*self.never_counted, *self.as_base64)
        keys = [key for key in self.keys if key not in kept_out and key not in self.read]
        return self.rng.choice(keys or [self.unused + b"n"])

    def data(self, key):
        data = super().data(key)
        if data.strip(b"-") == b"":  # minus-zero: a zero may be appended to it
            data = b"x" * len(data)
        return data if len(data) < 19 or not data.strip().isdigit() else b"12345"

    def name(self, verb, key, flags):
        """The key as it is sent: now and then as base64, with the flag for that."""
        if verb == b"ms" and key not in self.as_base64:
            return key
        if self.rng.random() < (0.5 if key in self.as_base64 else 0.15) and len(key) < 180:
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
        name = self.name(verb, key, flags)
        letters = {flag[:1] for flag in flags}
        if verb in (b"mg", b"ma") and b"b" in letters:  # base64-vivify
            flags = [flag for flag in flags if flag[:1] != b"N"]
        if verb == b"md" and (b"T" not in letters or key in self.as_base64):  # empty-ttl, base64-anew
            flags = [flag for flag in flags if flag != b"x"]
        if verb == b"ms" and key in self.as_base64:  # base64-anew
            flags = [flag for flag in flags if flag not in (b"MA", b"MP")]
        if verb == b"ma":  # grown-ttl, grown-unique
            flags = [flag for flag in flags if flag[:1] not in b"TE" or not flag]
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
        name = self.rng.choice(list(self.differences))
        return getattr(self, "differ_" + name.replace("-", "_"))(name)

    def fresh(self):
        """A key of its own, for a difference that stores something."""
        self.created += 1
        return b"%s%d" % (self.unused, self.created)

    def differ_minus_zero(self, name):
        answer = b"HD\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\n"
        key = self.fresh()
        return Command(b"ms %s 2\r\n-0\r\nma %s v\r\n" % (key, key), name, answer)

    def differ_grown_unique(self, name):
        key = self.fresh()
        request = b"ms %s 1\r\n9\r\nma %s E777\r\nms %s 1 C777\r\n5\r\n" % (key, key, key)
        return Command(request, name, b"HD\r\nHD\r\nHD\r\n")

    def differ_grown_ttl(self, name):
        key = self.fresh()
        return Command(
            b"ms %s 1\r\n9\r\nma %s T100\r\nmg %s t\r\n" % (key, key, key), name, b"HD\r\nHD\r\nHD t100\r\n"
        )

    def differ_empty_ttl(self, name):
        key = self.fresh()
        return Command(
            b"ms %s 1 T100 F7\r\n9\r\nmd %s x\r\nmg %s t f s\r\n" % (key, key, key),
            name,
            b"HD\r\nHD\r\nHD t100 f0 s0\r\n",
        )

    def differ_base64_vivify(self, name):
        key = self.fresh()
        coded = base64.b64encode(key)
        verb = self.rng.choice((b"mg %s b N0 u", b"ma %s b N0"))
        answer = b"%s\r\nHD k%s b%s\r\n" % ((b"HD W", coded, b" Z") if verb[:2] == b"mg" else (b"HD", coded, b""))
        return Command(verb % coded + b"\r\nmg %s k\r\n" % key, name, answer)

    def differ_base64_anew(self, name):
        key = self.fresh()
        coded = base64.b64encode(key)
        anew = self.rng.choice(
            (b"append %s 0 0 1\r\n5", b"prepend %s 0 0 1\r\n5", b"md %s x T0", b"ma %s", b"incr %s 1")
        )
        answer = {b"a": b"STORED", b"p": b"STORED", b"m": b"HD", b"i": b"10"}[anew[:1]]
        request = b"ms %s 1 b\r\n9\r\n%s\r\nmg %s k\r\n" % (coded, anew % key, key)
        return Command(request, name, b"HD\r\n%s\r\nHD k%s b\r\n" % (answer, coded))

    def differ_order_ma_ttl(self, name):
        key = self.fresh()
        return Command(
            b"ms %s 1 T1000\r\n1\r\nma %s t T100\r\n" % (key, key), name, b"HD\r\nHD t100\r\n"
        )

    def differ_base64_foreign(self, name):
        return Command(b"mg Zm9v!!%s b v\r\n" % b"Zm9v", name, b"CLIENT_ERROR error decoding key\r\n")

    def differ_long_opaque_ma(self, name):
        key = self.fresh()
        request = b"ms %s 1\r\n5\r\nma %s O%s\r\nmg %s v\r\n" % (key, key, b"o" * 40, key)
        return Command(request, name, b"HD\r\nCLIENT_ERROR opaque token too long\r\nVA 1\r\n5\r\n")

    def differ_me_base64(self, name):
        key = self.fresh()
        answer = b"HD\r\nME %s exp=-1 la=~ cas=~ fetch=no cls=~ size=~\r\n" % key
        return Command(b"ms %s 1\r\n5\r\nme %s b\r\n" % (key, base64.b64encode(key)), name, answer)

    def differ_order_mg(self, name):
        return Command(b"mg %s t N100\r\n" % self.fresh(), name, b"HD t100 W\r\n")

    def differ_ttl_expired(self, name):
        return Command(b"ma %s N-1 t\r\n" % self.unused, name, b"HD t0\r\n")

    def differ_short_mn(self, name):
        return Command(b"mn\n", name, b"MN\r\n")


class SharedMetaGenerator(MetaGenerator):
    """What 1.6.18 answers too: no E and x, no s from ms, no errors and no classic commands in between."""

    differences = {}
    odds_of_error = 0.0
    noise = b""
    letters = {b"mg": b"stcfkOhluvqTNR", b"ms": b"cfkOqTFM", b"md": b"kOq", b"ma": b"tckOvTNJDM"}

    def name(self, verb, key, flags):
        return key

    def same(self):
        verb = self.rng.choice((b"mg", b"mg", b"mg", b"ms", b"ms", b"md", b"ma", b"mn"))
        return Command(getattr(self, verb.decode())())

    def mn(self):
        return b"mn\r\n"
