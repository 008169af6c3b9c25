// get, gets, gat, gats: the request path of a read, from the parsed line to the bytes of the reply.
//
// A key found in memory is rendered at once. One that only the disk knows becomes a slot of the reply queue, and the
// next keys, and further retrievals, go on meanwhile: their replies queue up behind the slot.

import CacheEngine
import Primitives
import Protocol

extension Session {
    /// Answers the keys of a retrieval; `input` begins with `lineBytes` of line.
    ///
    /// A full output stops it between two keys. What was answered is consumed then, and `phase` keeps the rest.
    @inline(__always)
    mutating func retrieve(
        _ retrieval: Retrieval, lineBytes: Int, _ input: UnsafeRawBufferPointer, _ turn: inout Turn,
        isResumed: Bool
    ) -> Step {
        let touch = retrieval.expiration.map { turn.deadline($0) }
        if touch != nil {
            if !isResumed, replies.openReads > 0 { return .stalled(.slots) }
            if turn.waitsForCommit { openCommit() }
        }
        var tally = RetrievalTally()
        var keys = unsafe KeyIterator(input, retrieval.keys)
        while let range = keys.next() {
            // The first key of a line is paid for and admitted with its request.
            if tally.keys > 0 || isResumed {
                if let stall = stallBeforeNext(turn) {
                    tally.count(turn.counters, isTouch: touch != nil)
                    return pause(retrieval, lineBytes: lineBytes, before: range.start, stall)
                }
                turn.requestsLeft &-= 1
            }
            if tally.keys % Self.keysAhead == 0, retrieval.keyCount > 1, turn.cache.isWide {
                unsafe approach(range, keys, input, turn)
            }
            tally.keys &+= 1
            let key = unsafe input[range]
            var found = unsafe lookUp(key, touch: touch, includesCAS: retrieval.includesCAS, &turn)
            if found == .unresolved, touch == nil {
                found = unsafe readAtHand(key, includesCAS: retrieval.includesCAS, &turn)
            }
            switch found {
            case .hit: tally.hits += 1
            case .miss: tally.misses += 1
            case .unresolved: unsafe load(key, touch: touch, includesCAS: retrieval.includesCAS, turn)
            }
        }
        tally.count(turn.counters, isTouch: touch != nil)
        phase = .command
        reply(.end, &turn)
        return .done(lineBytes)
    }

    private static var keysAhead: Int { 16 }

    /// Lets the entries of the next keys come closer.
    private func approach(
        _ first: ByteRange, _ keys: KeyIterator, _ input: UnsafeRawBufferPointer, _ turn: borrowing Turn
    ) {
        var hashes = InlineArray<16, KeyHash>(repeating: .none)
        var keys = keys
        var next = Optional(first)
        var count = 0
        while count < Self.keysAhead, let range = next {
            // SAFETY: hashing reads the key during the call only.
            hashes[count] = turn.cache.hash(of: unsafe Span(_unsafeBytes: input[range]))
            count += 1
            next = keys.next()
        }
        turn.cache.approach(hashes.span.extracting(first: count))
    }

    /// Finds a key in memory and renders it where the next reply goes.
    @inline(__always)
    private mutating func lookUp(
        _ key: UnsafeRawBufferPointer, touch: Instant?, includesCAS: Bool, _ turn: inout Turn
    ) -> Lookup {
        let (cache, now) = (turn.cache, turn.now)
        // SAFETY: the span does not outlive this call, and the input stays in place during it.
        let span = unsafe Span<UInt8>(_unsafeBytes: key)
        if let last = replies.last {
            return cache.withEntry(span, now: now, touch: touch) { entry in
                unsafe last.following.appendValue(key: key, entry, includesCAS: includesCAS)
            }
        }
        return cache.withEntry(span, now: now, touch: touch) { entry in
            unsafe turn.output.appendValue(key: key, entry, includesCAS: includesCAS)
        }
    }

    /// Finds a key on disk, if that can be asked without waiting, and renders it where the next reply goes.
    @inline(never)
    private mutating func readAtHand(
        _ key: UnsafeRawBufferPointer, includesCAS: Bool, _ turn: inout Turn
    ) -> Lookup {
        // SAFETY: the span does not outlive this call, and the input stays in place during it.
        let span = unsafe Span<UInt8>(_unsafeBytes: key)
        let last = replies.last
        return turn.readAtHand(span, turn.cache.hash(of: span)) { output, entry in
            if let last {
                unsafe last.following.appendValue(key: key, entry, includesCAS: includesCAS)
            } else {
                unsafe output.appendValue(key: key, entry, includesCAS: includesCAS)
            }
        }
    }

    /// Opens a slot for a value that is on disk, and asks for it.
    mutating func load(
        _ key: UnsafeRawBufferPointer, touch: Instant?, includesCAS: Bool, _ turn: borrowing Turn
    ) {
        let slot = Slot(.value(key: unsafe Array(key), includesCAS: includesCAS, touch: touch), asked: turn.began)
        let number = replies.append(slot)
        turn.cache.load(unsafe Span(_unsafeBytes: key), waiter: waiter(number, turn), touches: touch != nil)
    }

    /// Remembers the rest of a retrieval from the key at `position` on.
    private mutating func pause(
        _ retrieval: Retrieval, lineBytes: Int, before position: Int, _ stall: Stall
    ) -> Step {
        var rest = retrieval
        rest.keys = ByteRange(start: 0, count: retrieval.keys.end - position)
        phase = .keys(rest, lineBytes: lineBytes - position)
        return Step(consumed: position, stall: stall)
    }
}

/// Counts one retrieval, so that its counters are touched once and not for each key.
private struct RetrievalTally {
    var keys = 0
    var hits = 0
    var misses = 0

    /// `gat` counts as touch, everything else as get; hits and misses of slots are counted when they are answered.
    @inline(__always)
    func count(_ counters: Counters, isTouch: Bool) {
        counters.add(isTouch ? .touchCommands : .getCommands, keys)
        if hits > 0 { counters.add(isTouch ? .touchHits : .getHits, hits) }
        if misses > 0 { counters.add(isTouch ? .touchMisses : .getMisses, misses) }
    }
}
