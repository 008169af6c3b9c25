// Increment and decrement: the number that a key holds, changed by one client at a time.
//
// The path is that of a store: find out what the key holds, journal the new entry, install it in place of the old one,
// all under one stay under the shard's lock. The new number is a block of its own, because readers may have the old one
// pinned. What counts as a number is `DecimalValue`'s business. Any thread.

public import Primitives

extension Cache {
    /// Adds to, or subtracts from, the decimal number that the key holds, and shows the entry to `body` afterwards.
    ///
    /// As memcached: additions wrap at 2^64, subtractions stop at 0, and a result that is not longer than the old value
    /// is padded with spaces to its length.
    public func arithmetic(
        _ key: Span<UInt8>, delta: UInt64, isIncrement: Bool, terms: NumberTerms = NumberTerms(), now: Instant,
        flight: Flight? = nil, _ body: (EntryView) -> Void = { _ in }
    ) -> ArithmeticOutcome {
        performDueFlush(now)
        // SAFETY: the key outlives the call. Blocks are used only under the shard's lock, which keeps them, and so is
        // the view that `body` gets; a new block is ours alone until it is installed.
        return unsafe key.withUnsafeBytes { key in
            let hash = unsafe memory.hash(key)
            let reference = unsafe memory.reference(hash)
            var garbage = Garbage()
            let outcome = memory.withShard(hash) { shard -> ArithmeticOutcome in
                let result: UInt64
                let fresh: EntryBlock?
                var old: EntryBlock?
                switch unsafe presence(hash, key, &shard, now: now, flight: flight, garbage: &garbage) {
                case .unknown: return .unresolved(.entryOnDisk)
                case .absent:
                    guard let initial = terms.initial else { return .notFound }
                    result = initial
                    fresh = unsafe makeNumber(initial, terms, hash, key)
                case .resident(let block):
                    // In memcached's order: nothing is never a number, and that comes before the comparison.
                    if block.valueBytes == 0 { return .notNumeric }
                    if let cas = terms.compare, cas != block.cas { return .exists }
                    if mayBeNumber(inFile: block) { return .unresolved(.valueOnDisk) }
                    guard !block.isStub, let number = unsafe DecimalValue.parse(block.value) else { return .notNumeric }
                    result = isIncrement ? number &+ delta : (number > delta ? number - delta : 0)
                    fresh = changeNumber(result, terms, of: block)
                    old = block
                }
                guard let fresh else { return .notNumeric }
                fresh.cas = terms.explicitCAS ?? generations.next()
                fresh.stamp(now)
                guard journalStore(fresh, generation: generations.next(), file: nil, &shard, now: now) else {
                    fresh.free()
                    return .unresolved(.journalFull)
                }
                let block = install(fresh, insteadOf: old, &shard, now: now, garbage: &garbage)
                body(unsafe EntryView(block: block, shard: reference))
                return .value(result)
            }
            garbage.free()
            return outcome
        }
    }

    /// Whether the entry is a stub of a value that could be a number, and may be brought to memory.
    private func mayBeNumber(inFile block: EntryBlock) -> Bool {
        block.isStub && block.valueBytes <= min(DecimalValue.valueBytesMax, memory.valueBytesMax)
    }

    private func makeNumber(
        _ number: UInt64, _ terms: NumberTerms, _ hash: UInt64, _ key: UnsafeRawBufferPointer
    ) -> EntryBlock? {
        // SAFETY: the caller keeps the key; the block is new, so nobody else uses it.
        let block = unsafe EntryBlock.make(
            key: Span(_unsafeBytes: key), extended: Span(), storedValueBytes: DecimalValue.storedBytes(number, over: 0),
            hash: hash)
        guard let block else { return nil }
        unsafe DecimalValue.write(number, to: block.stored)
        block.deadline = capped(terms.initialDeadline)
        if terms.hasBinaryKey { block.marks.insert(.binaryKey) }
        return block
    }

    private func changeNumber(_ number: UInt64, _ terms: NumberTerms, of block: EntryBlock) -> EntryBlock? {
        guard let fresh = block.copy(valueBytes: DecimalValue.storedBytes(number, over: block.valueBytes)) else {
            return nil
        }
        // SAFETY: the block is new, so nobody else uses it.
        unsafe DecimalValue.write(number, to: fresh.stored)
        // As in memcached, a number that gets longer is a new entry.
        if fresh.valueBytes > block.valueBytes { fresh.forgetHistory() }
        if let deadline = terms.deadline { fresh.deadline = capped(deadline) }
        return fresh
    }
}
