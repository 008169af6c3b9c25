// Values by key, blocking: for programs whose threads may wait for the disk.
//
// Every operation sees both tiers as one. Those that memory can answer do not block; the others wait for one disk read,
// for room in the journal, or for a large value's file. Never call them on a thread that must not wait: an event loop
// uses the operations of Cache.swift, a task the async forms.

import Primitives

/// Where an entry is.
public enum Tier: String, Sendable, CaseIterable {
    /// In memory: a get is answered at once.
    case memory
    /// On disk only, or its value is.
    case disk
}

/// Answer of `Cache.compareAndSet`.
public enum CompareOutcome: Sendable, Equatable {
    /// Stored; the id is the new version's.
    case stored(cas: UInt64)
    /// The key holds another version by now.
    case changed
    /// The key holds nothing.
    case absent
}

extension Cache {
    // MARK: Reading

    /// The key's value, and makes the entry the most recently used; nil if it is in neither tier.
    ///
    /// O(value). A value found on disk is brought back to memory, with everything that belongs to it.
    public func value(forKey key: some CacheKey) -> [UInt8]? { entry(forKey: key)?.value }

    /// The key's entry with flags, version and extended data, and makes it the most recently used; nil if absent.
    public func entry(forKey key: some CacheKey) -> CachedEntry? { key.withKeyBytes { retrieve($0) } }

    /// Shows the key's value to `body` without a copy; nil if it is in neither tier.
    ///
    /// The value stays as it was for as long as `body` runs, whatever happens to the entry; no lock is held meanwhile.
    /// A value that is too large for the memory tier is read into memory for the call: see `readValue`.
    public func withValue<Result, Failure: Error>(
        forKey key: some CacheKey, _ body: (Span<UInt8>) throws(Failure) -> Result
    ) throws(Failure) -> Result? {
        switch key.withKeyBytes({ fetch($0) }) {
        case .absent: return nil
        case .pinned(let pinned): return try pinned.withValue(body)
        case .stream(let stream, let box):
            guard let entry = readWhole(stream, box, now: clock.now()) else { return nil }
            return try body(entry.value.span)
        }
    }

    /// Shows the key's value to `body` in pieces, in order; false if it is in neither tier.
    ///
    /// For values of any size: of one that is too large for the memory tier, one chunk of up to 256 KiB is in memory at
    /// a time. It was checked from end to end before the first chunk is shown; should its file become unreadable on the
    /// way, the answer is false, and what was shown must be dropped.
    public func readValue(forKey key: some CacheKey, _ body: (Span<UInt8>) -> Void) -> Bool {
        switch key.withKeyBytes({ fetch($0) }) {
        case .absent: return false
        case .pinned(let pinned):
            pinned.withValue(body)
            return true
        case .stream(let stream, let box):
            while !stream.isComplete {
                stream.requestNext(box.waiter())
                guard case .chunk = box.next().outcome else { return false }
                // SAFETY: the chunk is valid until the next request, and a span cannot escape the call.
                body(unsafe Span(_unsafeBytes: stream.chunk))
            }
            return true
        }
    }

    /// The key's entry, after giving it a new time to live (nil: the cache's default); nil if absent.
    public func entry(forKey key: some CacheKey, newTimeToLive: Duration?) -> CachedEntry? {
        touch(key, timeToLive: newTimeToLive) ? entry(forKey: key) : nil
    }

    // MARK: Storing

    /// Stores a value, whatever the key holds; returns the id of the new version.
    ///
    /// O(value). Returns when the value is in memory and safe as far as the cache's durability goes. `timeToLive` nil
    /// is the cache's default. `flags` and `extended` (up to `extendedBytesMax` bytes) come back with the value.
    ///
    /// - Throws: `StorageError`; each case says what the key holds then.
    @discardableResult
    public func set(
        _ value: Span<UInt8>, forKey key: some CacheKey, timeToLive: Duration? = nil, flags: UInt32 = 0,
        extended: [UInt8] = []
    ) throws(StorageError) -> UInt64 {
        let attributes = StoredAttributes(flags: flags, timeToLive: timeToLive, extended: extended)
        return try stored(try put(value, key, .set, attributes))
    }

    /// Stores a value, whatever the key holds.
    ///
    /// - Throws: as the form that takes a span.
    @discardableResult
    public func set(
        _ value: [UInt8], forKey key: some CacheKey, timeToLive: Duration? = nil, flags: UInt32 = 0,
        extended: [UInt8] = []
    ) throws(StorageError) -> UInt64 {
        try set(value.span, forKey: key, timeToLive: timeToLive, flags: flags, extended: extended)
    }

    /// Stores a value if the key holds nothing; nil if it holds something.
    ///
    /// - Throws: as `set`.
    @discardableResult
    public func add(
        _ value: [UInt8], forKey key: some CacheKey, timeToLive: Duration? = nil, flags: UInt32 = 0,
        extended: [UInt8] = []
    ) throws(StorageError) -> UInt64? {
        let attributes = StoredAttributes(flags: flags, timeToLive: timeToLive, extended: extended)
        return try put(value.span, key, .add, attributes).storedID
    }

    /// Stores a value if the key holds something; nil if it holds nothing.
    ///
    /// - Throws: as `set`.
    @discardableResult
    public func replace(
        _ value: [UInt8], forKey key: some CacheKey, timeToLive: Duration? = nil, flags: UInt32 = 0,
        extended: [UInt8] = []
    ) throws(StorageError) -> UInt64? {
        let attributes = StoredAttributes(flags: flags, timeToLive: timeToLive, extended: extended)
        return try put(value.span, key, .replace, attributes).storedID
    }

    /// Stores a value if the key still holds the version `cas`.
    ///
    /// - Throws: as `set`.
    public func compareAndSet(
        _ value: [UInt8], forKey key: some CacheKey, cas: UInt64, timeToLive: Duration? = nil, flags: UInt32 = 0,
        extended: [UInt8] = []
    ) throws(StorageError) -> CompareOutcome {
        let attributes = StoredAttributes(flags: flags, timeToLive: timeToLive, extended: extended)
        return try put(value.span, key, .compare(cas: cas), attributes).comparison
    }

    /// Puts bytes behind the present value; nil if there is none, or the result would be too large.
    ///
    /// O(both values). Flags, extended data and deadline stay.
    ///
    /// - Throws: `.noRoom` when the result's file cannot be written; the present value stays then.
    @discardableResult
    public func append(_ bytes: [UInt8], toValueForKey key: some CacheKey) throws(StorageError) -> UInt64? {
        try put(bytes.span, key, .append, .none).storedID
    }

    /// Puts bytes before the present value; nil if there is none, or the result would be too large.
    ///
    /// - Throws: as `append`.
    @discardableResult
    public func prepend(_ bytes: [UInt8], toValueForKey key: some CacheKey) throws(StorageError) -> UInt64? {
        try put(bytes.span, key, .prepend, .none).storedID
    }

    // MARK: Changing

    /// Removes the key's entry from both tiers; false if there was none.
    @discardableResult
    public func remove(_ key: some CacheKey) -> Bool {
        key.withKeyBytes { key in
            let isRemoved = mutate(key) { now, flight in
                delete(key, now: now, flight: flight).step { $0 == .deleted }
            }
            if isRemoved { isCommitted() }
            return isRemoved
        }
    }

    /// Gives the key's entry a new time to live (nil: the cache's default); false if there is none.
    @discardableResult
    public func touch(_ key: some CacheKey, timeToLive: Duration?) -> Bool {
        key.withKeyBytes { key in
            let isTouched = mutate(key) { now, flight in
                touch(key, deadline: now.advanced(by: timeToLive), now: now, flight: flight).step
            }
            if isTouched { isCommitted() }
            return isTouched
        }
    }

    /// Adds to the decimal number that the key holds, wrapping at 2^64; nil if the key holds nothing.
    ///
    /// - Throws: `.notNumeric`.
    @discardableResult
    public func increment(_ key: some CacheKey, by amount: UInt64 = 1) throws(StorageError) -> UInt64? {
        try calculate(key, amount, isIncrement: true)
    }

    /// Subtracts from the decimal number that the key holds, not below 0; nil if the key holds nothing.
    ///
    /// - Throws: `.notNumeric`.
    @discardableResult
    public func decrement(_ key: some CacheKey, by amount: UInt64 = 1) throws(StorageError) -> UInt64? {
        try calculate(key, amount, isIncrement: false)
    }

    private func calculate(
        _ key: some CacheKey, _ amount: UInt64, isIncrement: Bool
    ) throws(StorageError) -> UInt64? {
        let outcome = key.withKeyBytes { key in
            mutate(key) { now, flight in
                arithmetic(key, delta: amount, isIncrement: isIncrement, now: now, flight: flight).step
            }
        }
        if case .value = outcome, !isCommitted() { throw .notDurable }
        return try outcome.number
    }

    // MARK: Parts

    /// `put` for any kind of key: typed errors do not pass through its closure.
    private func put(
        _ value: Span<UInt8>, _ key: some CacheKey, _ mode: WriteMode, _ attributes: StoredAttributes
    ) throws(StorageError) -> StoreOutcome {
        let result = key.withKeyBytes { key -> Result<StoreOutcome, StorageError> in
            do throws(StorageError) {
                return .success(try put(value, key, mode, attributes))
            } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }

    private func stored(_ outcome: StoreOutcome) throws(StorageError) -> UInt64 {
        guard let id = outcome.storedID else { throw .noRoom }
        return id
    }
}

extension StoredAttributes {
    /// For what joins a present value.
    static var none: StoredAttributes { StoredAttributes(flags: 0, timeToLive: nil, extended: []) }
}

extension StoreOutcome {
    /// The id of the version that was stored; nil if the mode's condition did not hold.
    var storedID: UInt64? { if case .stored(let cas) = self { cas } else { nil } }

    /// As the answer of a comparison.
    var comparison: CompareOutcome {
        switch self {
        case .stored(let cas): .stored(cas: cas)
        case .notFound: .absent
        case .exists, .notStored, .noRoom, .unresolved: .changed
        }
    }
}

extension ArithmeticOutcome {
    /// The new number; nil if the key holds nothing.
    var number: UInt64? {
        get throws(StorageError) {
            switch self {
            case .value(let number): return number
            case .notFound, .exists, .unresolved: return nil
            case .notNumeric: throw .notNumeric
            }
        }
    }
}
