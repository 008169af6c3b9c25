// Many keys in one call. Disk reads of a batch run at the same time, a bounded number of them.

import Primitives

extension Cache {
    /// The values of many keys, in the order of `keys`; nil where a key is in neither tier.
    ///
    /// Each found entry becomes the most recently used. The whole answer is in memory: choose batches accordingly.
    public func values(forKeys keys: [some CacheKey]) -> [[UInt8]?] {
        entries(forKeys: keys).map { $0?.value }
    }

    /// The entries of many keys, in the order of `keys`; nil where a key is in neither tier.
    public func entries(forKeys keys: [some CacheKey]) -> [CachedEntry?] {
        let box = Mailbox()
        var batch = BatchRetrieval(keys.map(\.keyBytes))
        batch.begin(self, box)
        while !batch.isDone { batch.take(box.next(), self, box) }
        return batch.entries
    }

    /// The values of many keys, in the order of `keys`; nil where a key is in neither tier.
    public func values(forKeys keys: [some CacheKey]) async -> [[UInt8]?] {
        await entries(forKeys: keys).map { $0?.value }
    }

    /// The entries of many keys, in the order of `keys`; nil where a key is in neither tier.
    public func entries(forKeys keys: [some CacheKey]) async -> [CachedEntry?] {
        let box = Mailbox()
        var batch = BatchRetrieval(keys.map(\.keyBytes))
        batch.begin(self, box)
        while !batch.isDone { batch.take(await box.nextSuspending(), self, box) }
        return batch.entries
    }

    /// Stores many values, one after the other, with one time to live.
    ///
    /// At durability `always` all of them wait for one commit together.
    ///
    /// - Throws: as `set`, at the first value that is refused; those before it are stored.
    public func set(
        _ values: [(key: some CacheKey, value: [UInt8])], timeToLive: Duration? = nil
    ) throws(StorageError) {
        let attributes = StoredAttributes(flags: 0, timeToLive: timeToLive, extended: [])
        for (key, value) in values {
            let key = key.keyBytes
            _ = try put(value.span, key.span, .set, attributes, commits: false)
        }
        if !isCommitted() { throw .notDurable }
    }

    /// Removes many keys from both tiers, whether they hold anything or not.
    ///
    /// Reads nothing from disk: O(1) for each key.
    public func remove(_ keys: [some CacheKey]) {
        for key in keys {
            key.withKeyBytes { key in
                // A longer key cannot hold anything, and must not reach the journal.
                guard key.count <= Self.keyBytesMax else { return }
                mutate(key) { now, flight in
                    delete(key, isBlind: true, now: now, flight: flight).step { _ in () }
                }
            }
        }
        isCommitted()
    }
}

/// A retrieval of many keys in progress.
///
/// The blocking and the async form feed it completions; tokens are key numbers.
struct BatchRetrieval {
    private static let openMax = 64

    private let keys: [[UInt8]]
    private(set) var entries: [CachedEntry?]
    private var streams: [Int: ValueStream] = [:]
    /// The first key that was not looked at yet.
    private var next = 0
    /// Keys that wait for the disk.
    private var open = 0

    init(_ keys: [[UInt8]]) {
        self.keys = keys
        entries = Array(repeating: nil, count: keys.count)
    }

    var isDone: Bool { next == keys.count && open == 0 }

    /// Looks keys up until enough wait for the disk.
    mutating func begin(_ cache: Cache, _ box: Mailbox) {
        while next < keys.count, open < Self.openMax {
            lookUp(next, cache, box)
            next += 1
        }
    }

    private mutating func lookUp(_ number: Int, _ cache: Cache, _ box: Mailbox) {
        let key = keys[number]
        let (lookup, entry) = cache.copyResident(key.span, now: cache.clock.now())
        entries[number] = entry
        guard lookup == .unresolved else { return }
        open += 1
        cache.load(key.span, waiter: box.waiter(UInt64(number)))
    }

    /// Takes one completion in and goes on.
    mutating func take(_ completion: Completion, _ cache: Cache, _ box: Mailbox) {
        let number = Int(completion.token)
        let now = cache.clock.now()
        open -= 1
        switch completion.outcome {
        case .absent: break
        case .entry(let pinned): entries[number] = CachedEntry(pinned, now: now)
        case .stream(let stream):
            entries[number] = CachedEntry(stream, now: now)
            streams[number] = stream
            goOn(number, box)
        case .chunk:
            // SAFETY: the chunk is valid until the next request, and copied here.
            if let stream = streams[number] { unsafe entries[number]?.value.append(contentsOf: stream.chunk) }
            goOn(number, box)
        case .retry, .failed:
            streams[number] = nil
            lookUp(number, cache, box)
        }
        begin(cache, box)
    }

    /// Asks for the next chunk of a large value, unless that was the last.
    private mutating func goOn(_ number: Int, _ box: Mailbox) {
        guard let stream = streams[number] else { return }
        if stream.isComplete {
            streams[number] = nil
        } else {
            open += 1
            stream.requestNext(box.waiter(UInt64(number)))
        }
    }
}
