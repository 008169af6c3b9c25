// Values by key, async: the same operations under the same names, for tasks. What memory can answer is answered without
// suspension. See Cache+Values.swift for what each one does; in a task the compiler picks these.

extension Cache {
    // MARK: Reading

    /// The key's value, and makes the entry the most recently used; nil if it is in neither tier.
    public func value(forKey key: some CacheKey) async -> [UInt8]? { await entry(forKey: key)?.value }

    /// The key's entry with flags, version and extended data, and makes it the most recently used; nil if absent.
    public func entry(forKey key: some CacheKey) async -> CachedEntry? { await retrieve(key.keyBytes) }

    /// The key's entry, after giving it a new time to live (nil: the cache's default); nil if absent.
    public func entry(forKey key: some CacheKey, newTimeToLive: Duration?) async -> CachedEntry? {
        guard await touch(key, timeToLive: newTimeToLive) else { return nil }
        return await entry(forKey: key)
    }

    // MARK: Storing

    /// Stores a value, whatever the key holds; returns the id of the new version.
    ///
    /// - Throws: `StorageError`; each case says what the key holds then.
    @discardableResult
    public func set(
        _ value: [UInt8], forKey key: some CacheKey, timeToLive: Duration? = nil, flags: UInt32 = 0,
        extended: [UInt8] = []
    ) async throws(StorageError) -> UInt64 {
        let attributes = StoredAttributes(flags: flags, timeToLive: timeToLive, extended: extended)
        guard let id = try await put(value, key.keyBytes, .set, attributes).storedID else { throw .noRoom }
        return id
    }

    /// Stores a value if the key holds nothing; nil if it holds something.
    ///
    /// - Throws: as `set`.
    @discardableResult
    public func add(
        _ value: [UInt8], forKey key: some CacheKey, timeToLive: Duration? = nil, flags: UInt32 = 0,
        extended: [UInt8] = []
    ) async throws(StorageError) -> UInt64? {
        let attributes = StoredAttributes(flags: flags, timeToLive: timeToLive, extended: extended)
        return try await put(value, key.keyBytes, .add, attributes).storedID
    }

    /// Stores a value if the key holds something; nil if it holds nothing.
    ///
    /// - Throws: as `set`.
    @discardableResult
    public func replace(
        _ value: [UInt8], forKey key: some CacheKey, timeToLive: Duration? = nil, flags: UInt32 = 0,
        extended: [UInt8] = []
    ) async throws(StorageError) -> UInt64? {
        let attributes = StoredAttributes(flags: flags, timeToLive: timeToLive, extended: extended)
        return try await put(value, key.keyBytes, .replace, attributes).storedID
    }

    /// Stores a value if the key still holds the version `cas`.
    ///
    /// - Throws: as `set`.
    public func compareAndSet(
        _ value: [UInt8], forKey key: some CacheKey, cas: UInt64, timeToLive: Duration? = nil, flags: UInt32 = 0,
        extended: [UInt8] = []
    ) async throws(StorageError) -> CompareOutcome {
        let attributes = StoredAttributes(flags: flags, timeToLive: timeToLive, extended: extended)
        return try await put(value, key.keyBytes, .compare(cas: cas), attributes).comparison
    }

    /// Puts bytes behind the present value; nil if there is none, or the result would be too large.
    ///
    /// - Throws: `.noRoom` when the result's file cannot be written; the present value stays then.
    @discardableResult
    public func append(_ bytes: [UInt8], toValueForKey key: some CacheKey) async throws(StorageError) -> UInt64? {
        try await put(bytes, key.keyBytes, .append, .none).storedID
    }

    /// Puts bytes before the present value; nil if there is none, or the result would be too large.
    ///
    /// - Throws: as `append`.
    @discardableResult
    public func prepend(_ bytes: [UInt8], toValueForKey key: some CacheKey) async throws(StorageError) -> UInt64? {
        try await put(bytes, key.keyBytes, .prepend, .none).storedID
    }

    // MARK: Changing

    /// Removes the key's entry from both tiers; false if there was none.
    @discardableResult
    public func remove(_ key: some CacheKey) async -> Bool {
        let isRemoved = await mutate(key.keyBytes) { key, now, flight in
            delete(key, now: now, flight: flight).step { $0 == .deleted }
        }
        if isRemoved { await isCommittedSuspending() }
        return isRemoved
    }

    /// Gives the key's entry a new time to live (nil: the cache's default); false if there is none.
    @discardableResult
    public func touch(_ key: some CacheKey, timeToLive: Duration?) async -> Bool {
        let isTouched = await mutate(key.keyBytes) { key, now, flight in
            touch(key, deadline: now.advanced(by: timeToLive), now: now, flight: flight).step
        }
        if isTouched { await isCommittedSuspending() }
        return isTouched
    }

    /// Adds to the decimal number that the key holds, wrapping at 2^64; nil if the key holds nothing.
    ///
    /// - Throws: `.notNumeric`.
    @discardableResult
    public func increment(_ key: some CacheKey, by amount: UInt64 = 1) async throws(StorageError) -> UInt64? {
        try await calculate(key.keyBytes, amount, isIncrement: true)
    }

    /// Subtracts from the decimal number that the key holds, not below 0; nil if the key holds nothing.
    ///
    /// - Throws: `.notNumeric`.
    @discardableResult
    public func decrement(_ key: some CacheKey, by amount: UInt64 = 1) async throws(StorageError) -> UInt64? {
        try await calculate(key.keyBytes, amount, isIncrement: false)
    }

    private func calculate(
        _ key: [UInt8], _ amount: UInt64, isIncrement: Bool
    ) async throws(StorageError) -> UInt64? {
        let outcome = await mutate(key) { key, now, flight in
            arithmetic(key, delta: amount, isIncrement: isIncrement, now: now, flight: flight).step
        }
        if case .value = outcome, await !isCommittedSuspending() { throw .notDurable }
        return try outcome.number
    }
}
