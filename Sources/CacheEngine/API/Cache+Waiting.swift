// How the blocking operations wait: the non-blocking operation is executed; while it is unresolved, its obstacle is
// overcome, and it is executed again with the flight that proves what the disk holds. `Cache+WaitingAsync.swift` is the
// same for tasks.

import Primitives

/// What one execution of a mutation came to.
enum Step<Outcome> {
    case done(Outcome)
    case unresolved(Obstacle)
}

/// A value that a retrieval found.
enum Fetched {
    case absent
    case pinned(PinnedEntry)
    /// To be read chunk by chunk, with completions that come to the mailbox.
    case stream(ValueStream, Mailbox)
}

extension PinnedEntry {
    /// Shows the value to `body`; the pin outlives the call.
    func withValue<Result, Failure: Error>(
        _ body: (Span<UInt8>) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        // SAFETY: the value lives as long as the pin, and `self` is alive until the end of the scope.
        defer { withExtendedLifetime(self) {} }
        return try unsafe body(Span(_unsafeBytes: value))
    }
}

/// What belongs to an entry that a program stores.
struct StoredAttributes {
    var flags: UInt32
    var timeToLive: Duration?
    var extended: [UInt8]
}

extension Cache {
    /// Values up to this many bytes are copied under the shard's lock, longer ones after it.
    private static var copiedUnderLockMax: Int { 16 << 10 }

    /// The key's entry in memory: copied, or pinned if it is long; nil and the lookup's answer if it is not there.
    func copyResident(_ key: Span<UInt8>, now: Instant) -> (Lookup, CachedEntry?) {
        var entry: CachedEntry?
        var pinned: PinnedEntry?
        let lookup = withEntry(key, now: now) { view in
            if view.valueBytes <= Self.copiedUnderLockMax {
                entry = CachedEntry(view, now: now)
            } else {
                pinned = view.pin()
            }
        }
        if let pinned { entry = CachedEntry(pinned, now: now) }
        return (lookup, entry)
    }

    /// The key's entry from either tier.
    func retrieve(_ key: Span<UInt8>) -> CachedEntry? {
        var mailbox: Mailbox?
        while true {
            let now = clock.now()
            let (lookup, entry) = copyResident(key, now: now)
            switch lookup {
            case .hit: return entry
            case .miss: return nil
            case .unresolved: break
            }
            var read: CachedEntry?
            switch withEntryOnDisk(key, now: now, { read = CachedEntry($0, now: now) }) {
            case .hit: return read
            case .miss: return nil
            case .unresolved: break
            }
            let box = mailbox ?? Mailbox()
            mailbox = box
            load(key, waiter: box.waiter(), here: true)
            switch box.next().outcome {
            case .absent: return nil
            case .entry(let pinned): return CachedEntry(pinned, now: now)
            case .stream(let stream): if let entry = readWhole(stream, box, now: now) { return entry }
            case .retry, .chunk, .failed: break
            }
        }
    }

    /// The key's value from either tier, not copied.
    func fetch(_ key: Span<UInt8>) -> Fetched {
        var mailbox: Mailbox?
        while true {
            var pinned: PinnedEntry?
            switch withEntry(key, now: clock.now(), { pinned = $0.pin() }) {
            case .hit: return pinned.map(Fetched.pinned) ?? .absent
            case .miss: return .absent
            case .unresolved: break
            }
            switch withEntryOnDisk(key, now: clock.now(), { pinned = $0.pin() }) {
            case .hit: return pinned.map(Fetched.pinned) ?? .absent
            case .miss: return .absent
            case .unresolved: break
            }
            let box = mailbox ?? Mailbox()
            mailbox = box
            load(key, waiter: box.waiter(), here: true)
            switch box.next().outcome {
            case .absent: return .absent
            case .entry(let pinned): return .pinned(pinned)
            case .stream(let stream): return .stream(stream, box)
            case .retry, .chunk, .failed: break
            }
        }
    }

    /// Reads a whole large value; nil if its file became unreadable on the way.
    func readWhole(_ stream: ValueStream, _ box: Mailbox, now: Instant) -> CachedEntry? {
        var entry = CachedEntry(stream, now: now)
        while !stream.isComplete {
            stream.requestNext(box.waiter())
            guard case .chunk = box.next().outcome else { return nil }
            unsafe entry.value.append(contentsOf: stream.chunk)
        }
        return entry
    }

    /// Executes a mutation of one key until it is resolved.
    func mutate<Outcome>(
        _ key: Span<UInt8>, _ attempt: (Instant, Flight?) -> Step<Outcome>
    ) -> Outcome {
        var mailbox: Mailbox?
        var flight: Flight?
        while true {
            let step = attempt(clock.now(), flight)
            if let used = flight { finish(used) }
            switch step {
            case .done(let outcome): return outcome
            case .unresolved(let obstacle):
                let box = mailbox ?? Mailbox()
                mailbox = box
                overcome(obstacle, key: key, waiter: box.waiter(), here: true)
                flight = box.next().flight
            }
        }
    }

    // MARK: Storing

    /// A draft for a value, or why there is none.
    func draft(
        _ key: Span<UInt8>, valueBytes: Int, _ attributes: StoredAttributes, now: Instant
    ) throws(StorageError) -> EntryDraft? {
        guard key.count > 0, key.count <= Self.keyBytesMax else { throw .keyLength(key.count) }
        guard attributes.extended.count <= Self.extendedBytesMax else {
            throw .extendedTooLong(bytes: attributes.extended.count)
        }
        return makeDraft(
            key: key, valueBytes: valueBytes, flags: attributes.flags,
            deadline: now.advanced(by: attributes.timeToLive),
            extended: attributes.extended.span)
    }

    /// Fills the draft with what follows `offset` in `value`; returns how many bytes it took.
    static func fill(_ draft: inout EntryDraft, with value: Span<UInt8>, from offset: Int) -> Int {
        let rest = value.extracting(offset...)
        return unsafe rest.withUnsafeBytes { unsafe draft.fill($0) }
    }

    /// Stores a small value without a draft; nil if it takes one, or the key is none.
    func storeWhole(
        _ value: Span<UInt8>, _ key: Span<UInt8>, _ mode: WriteMode, _ attributes: StoredAttributes
    ) -> StoreOutcome? {
        guard attributes.extended.isEmpty, key.count > 0 else { return nil }
        let now = clock.now()
        return storeWhole(
            key, value, flags: attributes.flags, deadline: now.advanced(by: attributes.timeToLive), mode, now: now)
    }

    /// Stores `value` and waits until that is done and, if it `commits`, durable where the cache promises so.
    func put(
        _ value: Span<UInt8>, _ key: Span<UInt8>, _ mode: WriteMode, _ attributes: StoredAttributes,
        commits: Bool = true
    ) throws(StorageError) -> StoreOutcome {
        if let outcome = storeWhole(value, key, mode, attributes) {
            if commits, case .stored = outcome, !isCommitted() { throw .notDurable }
            return outcome
        }
        guard var draft = try draft(key, valueBytes: value.count, attributes, now: clock.now()) else {
            removeRefused(key)
            throw .valueTooLarge(bytes: value.count)
        }
        var mailbox = draft.isStreamed ? Mailbox() : nil
        if let mailbox { draft.setStreamWaiter(mailbox.waiter(WaitToken.room)) }
        var filled = Self.fill(&draft, with: value, from: 0)
        while !draft.isComplete {
            _ = mailbox?.next()
            filled += Self.fill(&draft, with: value, from: filled)
        }
        var flight: Flight?
        while true {
            let outcome = store(&draft, mode, now: clock.now(), flight: flight)
            if let used = flight { finish(used) }
            guard case .unresolved(let obstacle) = outcome else {
                if case .noRoom = outcome { throw .noRoom }
                if commits, case .stored = outcome, !isCommitted() { throw .notDurable }
                return outcome
            }
            let box = mailbox ?? Mailbox()
            mailbox = box
            overcome(obstacle, draft: &draft, waiter: box.waiter(WaitToken.obstacle), here: true)
            flight = box.next(WaitToken.obstacle).flight
        }
    }

    /// A value was refused: the old one must not be taken for it.
    private func removeRefused(_ key: Span<UInt8>) {
        mutate(key) { now, flight in delete(key, isBlind: true, now: now, flight: flight).step { _ in () } }
    }

    /// Waits until everything applied so far is durable, where the cache promises so; false if it never will be.
    @discardableResult
    func isCommitted() -> Bool {
        guard waitsForCommit else { return true }
        let box = Mailbox()
        commitBarrier(box.waiter())
        if case .failed = box.next().outcome { return false }
        return true
    }
}

/// Tells completions of one mailbox apart.
enum WaitToken {
    /// The upload takes more bytes.
    static let room: UInt64 = 1
    /// The obstacle of a store is overcome.
    static let obstacle: UInt64 = 2
}

extension DeleteOutcome {
    /// As a step: what `body` makes of a final outcome.
    func step<Outcome>(_ body: (DeleteOutcome) -> Outcome) -> Step<Outcome> {
        if case .unresolved(let obstacle) = self { .unresolved(obstacle) } else { .done(body(self)) }
    }
}

extension TouchOutcome {
    /// As a step, with whether there was an entry.
    var step: Step<Bool> {
        switch self {
        case .touched: .done(true)
        case .notFound, .exists: .done(false)
        case .unresolved(let obstacle): .unresolved(obstacle)
        }
    }
}

extension ArithmeticOutcome {
    /// As a step with a final outcome.
    var step: Step<ArithmeticOutcome> {
        if case .unresolved(let obstacle) = self { .unresolved(obstacle) } else { .done(self) }
    }
}
