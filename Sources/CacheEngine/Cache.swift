// The cache: the request path across both tiers, in one file but for numbers, joined values and edits, which are made
// of the same parts (`Cache+Numbers.swift`, `Cache+Splice.swift`, `Cache+Edit.swift`), and the words to the journal
// (`Cache+Journal.swift`).
//
// Every operation is one short stay under one shard's lock:
//
//     find out what the key holds  ->  decide  ->  append to the journal  ->  change memory  ->  make room
//
// In that order, because the journal may refuse (no room), and nothing may have happened then. What an operation cannot
// know from memory (`Presence.unknown`) or do without the disk comes back as `.unresolved`; the caller overcomes the
// obstacle and executes the same operation again. Blocks that leave memory are freed after the lock was let go.
//
// The rule that keeps both tiers in step: what memory holds for a key is the newest; if memory holds nothing, the
// pending table knows whether the journal does; only if neither knows the key is the row on disk believed.

public import Primitives
import Synchronization

/// A two-tier cache: memory with LRU eviction over an optional, persistent disk tier.
///
/// Thread-safe.
///
/// The operations in this file never block on the disk, for event loops. Programs that may block, or that are
/// asynchronous, use those of `API/`.
@safe
public final class Cache: Sendable {
    /// What the cache was made with.
    public let options: CacheOptions
    /// The cache's clock: read it once per turn and pass the time to the operations of that turn.
    public let clock: any TimeSource
    let memory: MemoryTier
    let disk: DiskTier?
    // SAFETY: `disk`, not counted: the request path takes it from here.
    let diskReference: Unmanaged<DiskTier>?
    let generations: Generations
    let background: Background
    /// Nil: memory begins empty.
    let warmUp: WarmUp?
    /// What drafts hold.
    let bodies: BodyBudget
    /// When the next delayed flush is due, in ms of the boot clock; Int64.max: none.
    let flushDue: Atomic<Int64>
    /// The default and the longest TTL, in ms; Int64.max: none.
    ///
    /// `options` has those of the start.
    let standardTTL: Atomic<Int64>
    let longestTTL: Atomic<Int64>

    init(
        options: CacheOptions, clock: any TimeSource, memory: MemoryTier, disk: DiskTier?, generations: Generations,
        background: Background, flushAt: Instant, warmUp: WarmUp? = nil
    ) {
        self.warmUp = warmUp
        self.options = options
        self.clock = clock
        self.memory = memory
        self.disk = disk
        unsafe diskReference = disk.map { unsafe .passUnretained($0) }
        self.generations = generations
        self.background = background
        bodies = BodyBudget(options.memory)
        flushDue = Atomic(flushAt.milliseconds)
        standardTTL = Atomic(options.defaultTTL ?? .max)
        longestTTL = Atomic(options.maximumTTL ?? .max)
    }

    /// Whether there is a disk tier that can be asked.
    @inline(__always)
    var isDiskServing: Bool {
        guard let reference = unsafe diskReference else { return false }
        return unsafe reference._withUnsafeGuaranteedRef { $0.isServing }
    }

    // MARK: What a key holds

    // SAFETY: of the whole file. A key is a buffer of the caller's, or of a block, that outlives the call. Blocks and
    // flights are used only under the lock of their shard, which keeps them; blocks of drafts belong to the draft. The
    // journal keeps a record until its write is no longer pending, which takes the same lock. An `EntryView` is shown
    // to a closure that runs under the lock.

    /// What is known about a key under its shard's lock.
    enum Presence {
        case resident(EntryBlock)
        case absent
        case unknown
    }

    @inline(__always)
    func presence(
        _ hash: UInt64, _ key: UnsafeRawBufferPointer, _ shard: inout Shard, now: Instant, flight: Flight?,
        garbage: inout Garbage
    ) -> Presence {
        if let block = unsafe shard.table.find(hash, key) {
            if block.deadline > now { return .resident(block) }
            shard.expire(block, garbage: &garbage, log: memory.events)
            return .absent
        }
        guard isDiskServing else { return .absent }
        // On its way from memory to its file.
        if !shard.flights.isEmpty, let other = shard.flights[hash], other.isDemotion { return .unknown }
        // Before the journal is asked: a touch in it says nothing of a row that was trimmed meanwhile.
        if let flight, shard.flights[hash] === flight, unsafe flight.state.isAbsent { return .absent }
        if let write = shard.pending.find(hash), let disk {
            return unsafe restore(write, hash, key, &shard, disk, now: now, garbage: &garbage)
        }
        if shard.mayBeOnDisk(hash) { return .unknown }
        // A lookup under way may have read the row before it was trimmed: it must not bring it back after this answer.
        if !shard.flights.isEmpty { shard.flights[hash] = nil }
        return .absent
    }

    /// What the key's write in the journal says, the entry having left memory before it reached the index.
    private func restore(
        _ write: PendingWrite, _ hash: UInt64, _ key: UnsafeRawBufferPointer, _ shard: inout Shard, _ disk: DiskTier,
        now: Instant, garbage: inout Garbage
    ) -> Presence {
        switch write.kind {
        case .touch: return .unknown
        case .deletion, .barred: return .absent
        case .entry: break
        }
        guard let record = disk.journal.wholeRecord(at: write.position),
            let block = unsafe memory.makeBlock(record, key: key)
        else { return .absent }
        guard block.deadline > now else {
            garbage.add(block)
            return .absent
        }
        return .resident(shard.link(block, now: now, garbage: &garbage, log: memory.events))
    }

    // MARK: Retrieval

    /// Shows the key's entry to `body`, under the shard's lock, and makes it the most recently used.
    ///
    /// `touch` gives it a new deadline first, unless its value is in a file only: then `touch` it after `load`.
    /// `.unresolved`: the entry, or its value, is on disk, or a touch finds no room in the journal: call `load`.
    public func withEntry(
        _ key: Span<UInt8>, now: Instant, touch: Instant? = nil, _ body: (EntryView) -> Void
    ) -> Lookup {
        withEntry(key, hash(of: key), now: now, touch: touch, body)
    }

    /// The same for a key whose hash is known.
    @inline(__always)
    public func withEntry(
        _ key: Span<UInt8>, _ hash: KeyHash, now: Instant, touch: Instant? = nil, _ body: (EntryView) -> Void
    ) -> Lookup {
        performDueFlush(now)
        return unsafe key.withUnsafeBytes { key in
            let hash = hash.value
            let reference = unsafe memory.reference(hash)
            var garbage = Garbage()
            let lookup = memory.withShard(hash) { shard -> Lookup in
                let expirations = shard.counters.expirations
                switch unsafe presence(hash, key, &shard, now: now, flight: nil, garbage: &garbage) {
                case .resident(let block):
                    // A stub is touched when its value is at hand: a deadline that is past would end it before.
                    if block.isStub { return .unresolved }
                    if let touch, unsafe !setDeadline(touch, of: block, key, &shard) { return .unresolved }
                    body(unsafe EntryView(block: block, shard: reference))
                    shard.bump(block, now: now)
                    shard.counters.memoryHits += 1
                    return .hit
                case .absent:
                    shard.counters.misses += 1
                    shard.counters.expiredLookups += shard.counters.expirations &- expirations
                    shard.noteMiss(hash)
                    return .miss
                case .unknown:
                    return .unresolved
                }
            }
            garbage.free()
            return lookup
        }
    }

    // MARK: Storage

    /// Stores a complete draft.
    ///
    /// The draft is spent, unless the outcome is `.unresolved`.
    public func store(
        _ draft: inout EntryDraft, _ mode: WriteMode, now: Instant, flight: Flight? = nil
    ) -> StoreOutcome {
        invariant(draft.isComplete, "a draft is stored before it is complete")
        performDueFlush(now)
        draft.mode = mode
        switch mode {
        case .append, .prepend: return splice(&draft, isAppend: mode == .append, now: now, flight: flight)
        case .set, .add, .replace, .compare: break
        }
        if draft.waitsForFile(writableDisk), admitsFile(of: draft, now: now) { return .unresolved(.valueFile) }
        let outcome = commit(&draft, mode, now: now, flight: flight)
        if case .unresolved = outcome { return outcome }
        draft.spend()
        return outcome
    }

    private func commit(
        _ draft: inout EntryDraft, _ mode: WriteMode, now: Instant, flight: Flight?
    ) -> StoreOutcome {
        let hash = draft.hash
        var garbage = Garbage()
        let outcome = memory.withShard(hash) { shard -> StoreOutcome in
            let block = draft.block
            var old: EntryBlock?
            if mode == .set, draft.terms.compare == nil {
                old = unsafe shard.table.find(hash, block.key)
            } else {
                switch unsafe presence(hash, block.key, &shard, now: now, flight: flight, garbage: &garbage) {
                case .unknown: return .unresolved(.entryOnDisk)
                case .resident(let present): old = present
                case .absent: break
                }
                if let refusal = Self.refusal(mode, draft.terms, old) { return refusal }
            }
            return place(&draft, insteadOf: old, &shard, now: now, garbage: &garbage)
        }
        garbage.free()
        return outcome
    }

    /// Why `mode` and `terms` do not let a draft take the place of `present`; nil if they do.
    static func refusal(_ mode: WriteMode, _ terms: StoreTerms, _ present: EntryBlock?) -> StoreOutcome? {
        if case .compare(let cas) = mode {
            guard let present else { return .notFound }
            return present.cas == cas ? nil : .exists
        }
        if mode == .add { return present == nil ? nil : .notStored }
        if let cas = terms.compare {
            guard let present else { return .notFound }
            // An id of 0 is no id: it never matches.
            let isOlder = terms.marksStaleIfOlder && cas > 0 && cas < present.cas
            return present.cas == cas || isOlder ? nil : .exists
        }
        return mode == .replace && present == nil ? .notStored : nil
    }

    /// Gives the draft's block what its terms ask for, given the entry that it replaces.
    private func fulfil(_ terms: StoreTerms, _ block: EntryBlock, over old: EntryBlock?) {
        block.cas = terms.explicitCAS ?? generations.next()
        if terms.hasBinaryKey { block.marks.insert(.binaryKey) }
        guard terms.marksStaleIfOlder, let old, let cas = terms.compare, cas < old.cas else { return }
        block.marks.insert(.stale)
        if old.marks.contains(.won) { block.marks.insert(.won) }
        block.deadline = old.deadline
    }

    /// Journals the draft's entry, then links it in place of `old`.
    func place(
        _ draft: inout EntryDraft, insteadOf old: EntryBlock?, _ shard: inout Shard, now: Instant,
        garbage: inout Garbage
    ) -> StoreOutcome {
        let block = draft.block
        if let generation = draft.generation, let disk, generation <= disk.flushGeneration {
            return placeAfterFlush(&draft)
        }
        if let file = draft.file, file.hasFailed {
            return placeWithoutFile(&draft, insteadOf: old, &shard, now: now, garbage: &garbage)
        }
        let generation = draft.generation ?? generations.next()
        fulfil(draft.terms, block, over: old)
        block.stamp(now)
        guard journalStore(block, generation: generation, file: draft.finishedFile, &shard, now: now) else {
            return .unresolved(.journalFull)
        }
        return .stored(cas: install(draft.take(), insteadOf: old, &shard, now: now, garbage: &garbage).cas)
    }

    /// Links a loose block in place of `old`; returns the entry's block from now on.
    @discardableResult
    func install(
        _ loose: EntryBlock, insteadOf old: EntryBlock?, _ shard: inout Shard, now: Instant, garbage: inout Garbage
    ) -> EntryBlock {
        if let old {
            memory.events.record(.replaced, old)
            shard.unlink(old, into: &garbage)
        }
        shard.counters.stores += 1
        return shard.link(loose, now: now, garbage: &garbage, log: memory.events)
    }

    /// The value's file could not be written: the entry stays in memory if it fits there, and in either case what the
    /// disk has for the key is gone.
    private func placeWithoutFile(
        _ draft: inout EntryDraft, insteadOf old: EntryBlock?, _ shard: inout Shard, now: Instant,
        garbage: inout Garbage
    ) -> StoreOutcome {
        let block = draft.block
        guard unsafe journalDeletion(draft.hash, block.key, &shard) else { return .unresolved(.journalFull) }
        if block.isStub {
            if let old { shard.unlink(old, into: &garbage) }
            return .noRoom
        }
        fulfil(draft.terms, block, over: old)
        block.stamp(now)
        return .stored(cas: install(draft.take(), insteadOf: old, &shard, now: now, garbage: &garbage).cas)
    }

    /// A flush came between the writing of the draft's file and its storing; the file's generation is flushed.
    ///
    /// An unconditional set is taken as having come before the flush: what the key holds came after that, and stays. A
    /// condition was judged after it, so the file is written again; a value that only streamed by cannot be, and is
    /// refused.
    private func placeAfterFlush(_ draft: inout EntryDraft) -> StoreOutcome {
        if draft.mode == .set, draft.terms.compare == nil { return .stored(cas: generations.next()) }
        return draft.takeBackBlock() ? .unresolved(.valueFile) : .noRoom
    }

    // MARK: Deletion

    /// Removes the key's entry from both tiers.
    ///
    /// With `isBlind` the caller does not ask whether there was one: never `.unresolved(.entryOnDisk)`, and `.deleted`
    /// where only the disk knows. With `cas` only an entry with that id is removed.
    public func delete(
        _ key: Span<UInt8>, isBlind: Bool = false, cas: UInt64? = nil, now: Instant, flight: Flight? = nil
    ) -> DeleteOutcome {
        performDueFlush(now)
        return unsafe key.withUnsafeBytes { key in
            let hash = unsafe memory.hash(key)
            var garbage = Garbage()
            let outcome = memory.withShard(hash) { shard -> DeleteOutcome in
                let found = unsafe presence(hash, key, &shard, now: now, flight: flight, garbage: &garbage)
                var present: EntryBlock?
                switch found {
                case .absent: return .notFound
                case .unknown where !isBlind || cas != nil: return .unresolved(.entryOnDisk)
                case .unknown: break
                case .resident(let block):
                    if let cas, cas != block.cas { return .exists }
                    present = block
                }
                guard unsafe journalDeletion(hash, key, &shard) else { return .unresolved(.journalFull) }
                if let present {
                    memory.events.record(.deleted, present)
                    shard.unlink(present, into: &garbage)
                }
                return .deleted
            }
            garbage.free()
            return outcome
        }
    }

    // MARK: Deadlines

    /// Gives the key's entry a new deadline; with `version`, only if it still is that version.
    public func touch(
        _ key: Span<UInt8>, deadline: Instant, version: EntryVersion? = nil, now: Instant, flight: Flight? = nil
    ) -> TouchOutcome {
        performDueFlush(now)
        return unsafe key.withUnsafeBytes { key in
            let hash = unsafe memory.hash(key)
            var garbage = Garbage()
            let outcome = memory.withShard(hash) { shard -> TouchOutcome in
                switch unsafe presence(hash, key, &shard, now: now, flight: flight, garbage: &garbage) {
                case .absent: return .notFound
                case .unknown: return .unresolved(.entryOnDisk)
                case .resident(let block):
                    if let version, !version.isVersion(of: block) { return .exists }
                    guard unsafe setDeadline(deadline, of: block, key, &shard) else {
                        return .unresolved(.journalFull)
                    }
                    shard.bump(block, now: now)
                    return .touched
                }
            }
            garbage.free()
            return outcome
        }
    }

    /// Journals and sets a deadline; false if the journal has no room.
    private func setDeadline(
        _ deadline: Instant, of block: EntryBlock, _ key: UnsafeRawBufferPointer, _ shard: inout Shard
    ) -> Bool {
        let before = block.deadline
        block.deadline = capped(deadline)
        if journalTouch(block, &shard) { return true }
        block.deadline = before
        return false
    }
}
