"""Which states may a key be in, given what was sent, what was answered, and when.

Pure logic, no I/O. A key's state is `None` (absent) or an `Entry`. `outcomes` replays the operations of one key in
every order that agrees with the clock (an operation that was answered before another was sent comes first) and with
each connection's own order, and keeps the orders that explain every answer seen. An operation without an answer may
have happened or not. This is the search of Wing and Gong for one register, kept small by the short histories between
two crashes.
"""

NEVER = float("inf")
# The reply of a noreply operation: it was carried out (a later reply on its connection proves it), but says nothing.
UNSEEN = object()
SEARCH_LIMIT = 300_000


class TooMany(Exception):
    """The history allows more orders than can be searched."""


class Entry(tuple):
    """(content, flags, ttl class). Content is a tuple of versions for values and a number for counters."""

    __slots__ = ()

    def __new__(cls, content, flags, ttl):
        return tuple.__new__(cls, (content, flags, ttl))

    content = property(lambda self: self[0])
    flags = property(lambda self: self[1])
    ttl = property(lambda self: self[2])


class Operation:
    """One command on one key. `ttl` -1 ends the entry at once; `returned` stays NEVER without an answer."""

    __slots__ = ("kind", "key", "content", "flags", "ttl", "delta", "expected", "called", "returned", "reply", "worker")

    def __init__(self, kind, key, content=None, flags=0, ttl=0, delta=0, expected=None):
        self.kind = kind
        self.key = key
        self.content = content
        self.flags = flags
        self.ttl = ttl
        self.delta = delta
        self.expected = expected
        self.called = 0.0
        self.returned = NEVER
        self.reply = None
        self.worker = 0

    def __repr__(self):
        """One line: who, from when to when (seconds of the monotonic clock), what, and the answer."""
        parts = [self.kind]
        if self.content is not None:
            parts.append(f"content={self.content}")
        if self.delta:
            parts.append(f"delta={self.delta}")
        if self.expected is not None:
            parts.append(f"expected={self.expected}")
        if self.ttl:
            parts.append(f"ttl={self.ttl}")
        reply = "none" if self.returned == NEVER else "unseen" if self.reply is UNSEEN else self.reply
        end = "never" if self.returned == NEVER else f"{self.returned % 1000:.4f}"
        return f"[{self.worker}] {self.called % 1000:.4f}..{end} {' '.join(parts)} -> {reply}"


def stored(entry):
    """The state after storing: a negative TTL leaves nothing."""
    return None if entry.ttl < 0 else entry


def apply(operation, state):
    """The state after the operation and the reply it would get."""
    kind = operation.kind
    if kind == "get":
        return state, state
    if kind == "delete":
        return (None, "DELETED") if state else (None, "NOT_FOUND")
    if kind == "flush":
        return None, "OK"
    if kind in ("incr", "decr"):
        return count(operation, state)
    if kind in ("touch", "gat"):
        if not state:
            return None, None if kind == "gat" else "NOT_FOUND"
        touched = Entry(state.content, state.flags, operation.ttl)
        return stored(touched), touched if kind == "gat" else "TOUCHED"
    if kind in ("append", "prepend"):
        if not state:
            return None, "NOT_STORED"
        joined = state.content + operation.content if kind == "append" else operation.content + state.content
        return Entry(joined, state.flags, state.ttl), "STORED"
    entry = stored(Entry(operation.content, operation.flags, operation.ttl))
    if kind == "set":
        return entry, "STORED"
    if kind == "add":
        return (state, "NOT_STORED") if state else (entry, "STORED")
    if kind == "replace":
        return (entry, "STORED") if state else (None, "NOT_STORED")
    if kind == "cas":
        if not state:
            return None, "NOT_FOUND"
        return (entry, "STORED") if state.content == operation.expected else (state, "EXISTS")
    raise ValueError(kind)


def count(operation, state):
    """incr and decr: modulo 2^64 upwards, not below zero."""
    if not state:
        return None, "NOT_FOUND"
    number = state.content
    number = (number + operation.delta) % (1 << 64) if operation.kind == "incr" else max(0, number - operation.delta)
    return Entry(number, state.flags, state.ttl), str(number)


def agrees(operation, reply):
    """Whether a reply that was seen is the one the operation would get. TTLs are not part of read replies."""
    if operation.returned == NEVER or operation.reply is UNSEEN:
        return True
    seen = operation.reply
    if operation.kind in ("get", "gat"):
        if seen is None or reply is None:
            return seen is None and reply is None
        return seen.content == reply.content and seen.flags == reply.flags
    return seen == reply


def outcomes(initial, operations, may_vanish=False):
    """All states the key may be in after `operations` (all of one key); empty when no order explains the replies.

    With `may_vanish` the entry may be dropped for room at any moment, as when the disk limit is small; and a miss says
    nothing about the next request, as when a value cannot be read whose row is still there.
    """
    by_worker = {}
    for operation in operations:
        by_worker.setdefault(operation.worker, []).append(operation)
    rows = list(by_worker.values())
    ends = tuple(len(row) for row in rows)
    finals = set()
    seen = set()
    stack = [(tuple(0 for _ in rows), initial)]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if len(seen) > SEARCH_LIMIT:
            raise TooMany
        positions, state = node
        if may_vanish and state:
            stack.append((positions, None))
        if positions == ends:
            finals.add(state)
            continue
        heads = [(index, rows[index][at]) for index, at in enumerate(positions) if at < ends[index]]
        first_return = min(operation.returned for _, operation in heads)
        for index, operation in heads:
            if operation.called > first_return:
                continue
            after = positions[:index] + (positions[index] + 1,) + positions[index + 1 :]
            new_state, reply = apply(operation, state)
            if agrees(operation, reply):
                stack.append((after, new_state))
            if may_vanish and operation.kind in ("get", "gat") and operation.reply is None:
                stack.append((after, state))
            if operation.returned == NEVER:
                stack.append((after, state))
    return finals


def verdict(initial, operations, finals, observed):
    """What kind of wrong an observed state is; `operations` in order of their call."""
    if not finals:
        return "contradiction"
    if observed is None:
        return "lost"
    if finals == {None}:
        return "resurrected"
    contents = {state.content for state in finals if state}
    if observed.content in contents:
        flags = {state.flags for state in finals if state and state.content == observed.content}
        return "wrong-ttl" if observed.flags in flags else "wrong-flags"
    known = {operation.content for operation in operations if operation.content is not None}
    if initial:
        known.add(initial.content)
    return "stale" if observed.content in known or None not in finals else "resurrected"
