// The request path of what clients send most: `get` of one key and `set` of a value that came with its line.
//
// A turn's plain requests are executed in one loop, without a step for each of them: some are read ahead, by one look
// at their bytes, and their entries approached; then each is found or stored under one shard's lock and answered into
// the worker's output. It does what `retrieve` and `store`
// do, for requests that they need not be asked about; at the first other one, or one that must wait for anything, the
// loop ends, and nothing has happened to that request. Nothing is allocated, no reference counted.

import CacheEngine
import Primitives
import Protocol

/// Counts plain requests, so that the worker's counters are touched once for all.
private struct PlainTally {
    var gets = 0
    var hits = 0
    var misses = 0
    var sets = 0

    var requests: Int { gets &+ sets }

    @inline(__always)
    func count(_ counters: Counters) {
        if gets > 0 {
            counters.add(.getCommands, gets)
            counters.add(.getHits, hits)
            counters.add(.getMisses, misses)
        }
        if sets > 0 { counters.add(.setCommands, sets) }
    }
}

/// Plain requests that were read ahead.
private struct PlainBatch {
    static let requestsMax = 16

    struct Item {
        var request = PlainRequest.none
        /// Where the line begins in the input.
        var start = 0
        var hash = KeyHash.none

        /// Where what follows the request begins.
        var end: Int {
            let lineEnd = start &+ Int(request.lineBytes)
            return request.isStore ? lineEnd &+ Int(request.valueBytes) &+ 2 : lineEnd
        }

        func key(in input: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
            let first = start &+ PlainRequest.keyStart
            return unsafe UnsafeRawBufferPointer(rebasing: input[first..<first &+ Int(request.keyBytes)])
        }

        func value(in input: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
            let first = start &+ Int(request.lineBytes)
            return unsafe UnsafeRawBufferPointer(rebasing: input[first..<first &+ Int(request.valueBytes)])
        }
    }

    private var items = InlineArray<16, Item>(repeating: Item())
    private(set) var count = 0

    subscript(index: Int) -> Item { items[index] }

    /// Reads whole plain requests from `position` on, up to the first other one, and lets their entries come closer.
    @inline(__always)
    mutating func read(
        _ input: UnsafeRawBufferPointer, from position: Int, _ parser: inout RequestParser, _ turn: borrowing Turn
    ) {
        var position = position
        while count < Self.requestsMax {
            var item = Item(start: position)
            // SAFETY: the rest of the input; the key lies within it. The cache outlives the turn.
            item.request = unsafe parser.parsePlain(UnsafeRawBufferPointer(rebasing: input[position...]))
            if item.request.lineBytes == 0 { break }
            // The value must have come, and be none that is to be noted.
            if item.request.isStore, item.end > input.count || item.request.valueBytes >= BigEntries.valueBytesMin {
                break
            }
            item.hash = unsafe turn.cacheReference._withUnsafeGuaranteedRef { cache in
                cache.hash(of: unsafe Span(_unsafeBytes: item.key(in: input)))
            }
            position = item.end
            items[count] = item
            count &+= 1
        }
        if count > 1, unsafe turn.cacheReference._withUnsafeGuaranteedRef({ $0.isWide }) { approach(turn) }
    }

    private func approach(_ turn: borrowing Turn) {
        var hashes = InlineArray<16, KeyHash>(repeating: .none)
        for index in 0..<count { hashes[index] = items[index].hash }
        turn.cache.approach(hashes.span.extracting(first: count))
    }
}

extension Session {
    /// Executes plain requests from the front of `input` as far as they go; returns how many bytes are done with.
    @inline(__always)
    mutating func executePlain(_ input: UnsafeRawBufferPointer, _ turn: inout Turn) -> Int {
        // A proof belongs to the request at the front, which is executed again.
        guard turn.isPlain, !isLimited, replies.isEmpty, proof == nil, stallBeforeNext(turn) == nil else { return 0 }
        return unsafe runPlain(input, &turn)
    }

    private mutating func runPlain(_ input: UnsafeRawBufferPointer, _ turn: inout Turn) -> Int {
        var tally = PlainTally()
        var consumed = 0
        var isFull = true
        while isFull {
            var batch = PlainBatch()
            unsafe batch.read(input, from: consumed, &parser, turn)
            isFull = batch.count == PlainBatch.requestsMax
            for index in 0..<batch.count {
                guard unsafe execute(batch[index], input, &tally, &turn) else {
                    isFull = false
                    break
                }
                consumed = batch[index].end
            }
        }
        requestCount &+= UInt32(truncatingIfNeeded: tally.requests)
        tally.count(turn.counters)
        return consumed
    }

    /// Executes one plain request; false, and nothing has happened, if that is not to be done now, or not here.
    @inline(__always)
    private mutating func execute(
        _ item: PlainBatch.Item, _ input: UnsafeRawBufferPointer, _ tally: inout PlainTally, _ turn: inout Turn
    ) -> Bool {
        // A slot opened on the way takes what is said behind it: not here.
        guard turn.requestsLeft > 0, !turn.output.isFull, replies.isEmpty else { return false }
        // SAFETY: key and value lie within the input, which stays in place during the call.
        let key = unsafe item.key(in: input)
        if item.request.isStore {
            guard unsafe storePlain(item, key, input, &turn) else { return false }
            tally.sets &+= 1
        } else {
            switch unsafe showPlain(key, item.hash, &turn) {
            case .hit: tally.hits &+= 1
            case .miss: tally.misses &+= 1
            case .unresolved: unsafe readPlain(key, item.hash, &tally, &turn)
            }
            tally.gets &+= 1
        }
        turn.requestsLeft &-= 1
        return true
    }

    /// Answers a `get` of one key from memory; nothing is said if only the disk knows.
    @inline(__always)
    private func showPlain(_ key: UnsafeRawBufferPointer, _ hash: KeyHash, _ turn: inout Turn) -> Lookup {
        let now = turn.now
        let lookup = unsafe turn.cacheReference._withUnsafeGuaranteedRef { cache in
            cache.withEntry(unsafe Span(_unsafeBytes: key), hash, now: now) { entry in
                unsafe turn.output.appendOnlyValue(key: key, entry)
            }
        }
        if lookup == .miss { turn.output.append(.end) }
        return lookup
    }

    /// Answers a `get` of one key that memory does not know.
    ///
    /// At once if the disk can be asked without waiting, else by a slot.
    @inline(never)
    private mutating func readPlain(
        _ key: UnsafeRawBufferPointer, _ hash: KeyHash, _ tally: inout PlainTally, _ turn: inout Turn
    ) {
        let lookup = turn.readAtHand(unsafe Span(_unsafeBytes: key), hash) { output, entry in
            unsafe output.appendOnlyValue(key: key, entry)
        }
        switch lookup {
        case .hit: tally.hits &+= 1
        case .miss:
            turn.output.append(.end)
            tally.misses &+= 1
        case .unresolved:
            unsafe load(key, touch: nil, includesCAS: false, turn)
            reply(.end, &turn)
        }
    }

    /// Stores the value behind the line and answers; false if that takes more than a moment.
    @inline(__always)
    private mutating func storePlain(
        _ item: PlainBatch.Item, _ key: UnsafeRawBufferPointer, _ input: UnsafeRawBufferPointer, _ turn: inout Turn
    ) -> Bool {
        guard unsafe input[item.end &- 2] == 0x0D, unsafe input[item.end &- 1] == 0x0A else { return false }
        let value = unsafe item.value(in: input)
        let deadline = turn.deadline(Expiration(exptime: Int64(item.request.exptime)))
        let now = turn.now
        let outcome = unsafe turn.cacheReference._withUnsafeGuaranteedRef { cache in
            unsafe cache.storeWhole(
                Span(_unsafeBytes: key), item.hash, Span(_unsafeBytes: value), flags: item.request.flags,
                deadline: deadline, .set, now: now)
        }
        guard case .stored = outcome else { return false }
        acknowledge(.stored, isQuiet: false, &turn)
        return true
    }
}
