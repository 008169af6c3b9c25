// Looking at entries without using them: no recency, no counters, no promotion.

import Primitives

/// What memory knows about a key that is looked at.
private enum Sighting {
    case known(EntryInfo?)
    /// The row on disk says it, but for the deadline of a touch that is still in the journal.
    case onDisk(touched: JournalHeader?)
}

/// A row that a reader thread looked up for a caller.
private struct FoundRow: Sendable {
    var metadata: EntryMetadata
    var extendedBytes: Int
    var isFile: Bool
}

extension Cache {
    // MARK: Blocking

    /// What is known about the key's entry; nil if it is in neither tier.
    ///
    /// One disk lookup if it is not in memory.
    public func info(forKey key: some CacheKey) -> EntryInfo? {
        let key = key.keyBytes
        let (hash, sighting) = look(at: key)
        guard case .onDisk(let touched) = sighting, let disk else { return Self.info(sighting) }
        let answer = Answer<FoundRow?>(nil)
        let box = Mailbox()
        guard enqueueLookup(hash, key, disk, answer, box.waiter()) else { return nil }
        _ = box.next()
        return answer.value.flatMap { info(key, $0, touched: touched) }
    }

    /// What is known about many entries, in the order of `keys`.
    public func info(forKeys keys: [some CacheKey]) -> [EntryInfo?] { keys.map { info(forKey: $0) } }

    /// Where a retrieval would find the key's value; nil if it is in neither tier.
    ///
    /// An answer about the disk is checked as a retrieval would check it, but for the sum of a value in a file.
    public func tier(ofKey key: some CacheKey) -> Tier? { info(forKey: key)?.tier }

    /// Whether a retrieval of the key would be a hit.
    public func contains(_ key: some CacheKey) -> Bool { info(forKey: key) != nil }

    // MARK: Async

    /// What is known about the key's entry; nil if it is in neither tier.
    public func info(forKey key: some CacheKey) async -> EntryInfo? {
        let key = key.keyBytes
        let (hash, sighting) = look(at: key)
        guard case .onDisk(let touched) = sighting, let disk else { return Self.info(sighting) }
        let answer = Answer<FoundRow?>(nil)
        let box = Mailbox()
        guard enqueueLookup(hash, key, disk, answer, box.waiter()) else { return nil }
        _ = await box.nextSuspending()
        return answer.value.flatMap { info(key, $0, touched: touched) }
    }

    /// Where a retrieval would find the key's value; nil if it is in neither tier.
    public func tier(ofKey key: some CacheKey) async -> Tier? { await info(forKey: key)?.tier }

    /// Whether a retrieval of the key would be a hit.
    public func contains(_ key: some CacheKey) async -> Bool { await info(forKey: key) != nil }

    // MARK: Parts

    /// Finds the info and hands it to `body`: at once if memory knows, else on a reader thread.
    func findInfo(_ key: [UInt8], _ body: @escaping @Sendable (EntryInfo?) -> Void) {
        let (hash, sighting) = look(at: key)
        guard case .onDisk(let touched) = sighting, let disk else { return body(Self.info(sighting)) }
        let isAccepted = disk.enqueue(
            .run { [self] reader in
                body(Self.findRow(hash, key, disk, reader).flatMap { info(key, $0, touched: touched) })
            })
        if !isAccepted { body(nil) }
    }

    /// The same, and where memory knows the entry, what the disk has of it, too.
    func findInfoOfBothTiers(_ key: [UInt8], _ body: @escaping @Sendable (EntryInfo?) -> Void) {
        let (hash, sighting) = look(at: key)
        guard case .known(var info?) = sighting, info.generation == nil, let disk, disk.isServing else {
            return findInfo(key, body)
        }
        let write = memory.shard(hash).withLock { shard -> (UInt64, Bool)? in
            guard let write = shard.pending.find(hash), write.kind == .entry else { return nil }
            let record = disk.journal.record(at: write.position)
            return unsafe record.key.elementsEqual(key)
                ? (record.header.generation, record.kind == .fileEntry) : nil
        }
        if let write {
            info.setCopy(write.0, isFile: write.1)
            return body(info)
        }
        let isAccepted = disk.enqueue(
            .run { [info] reader in
                var info = info
                // A row of another version is about to be replaced.
                if let row = Self.findRow(hash, key, disk, reader), row.metadata.cas == info.cas {
                    info.setCopy(row.metadata.generation, isFile: row.isFile)
                }
                body(info)
            })
        if !isAccepted { body(info) }
    }

    private static func info(_ sighting: Sighting) -> EntryInfo? {
        if case .known(let info) = sighting { info } else { nil }
    }

    /// What memory and the journal know about the key.
    private func look(at key: [UInt8]) -> (hash: UInt64, Sighting) {
        let now = clock.now()
        performDueFlush(now)
        // SAFETY: the key outlives the call; blocks and records are read under the shard's lock, which keeps them.
        return unsafe key.withUnsafeBytes { key in
            let hash = unsafe memory.hash(key)
            let sighting = memory.shard(hash).withLock { shard -> Sighting in
                if let block = unsafe shard.table.find(hash, key) {
                    return .known(block.deadline > now ? EntryInfo(block, now: now) : nil)
                }
                guard let disk, disk.isServing else { return .known(nil) }
                if let leaving = shard.flights[hash]?.demoted {
                    return .known(leaving.deadline > now ? EntryInfo(leaving, now: now) : nil)
                }
                guard let write = shard.pending.find(hash) else { return .onDisk(touched: nil) }
                switch write.kind {
                case .deletion, .barred: return .known(nil)
                case .touch, .entry: break
                }
                guard let record = disk.journal.wholeRecord(at: write.position) else { return .known(nil) }
                if write.kind == .touch { return .onDisk(touched: record.header) }
                return .known(unsafe journalled(record, key, now))
            }
            return (hash, sighting)
        }
    }

    private func journalled(_ record: JournalRecord, _ key: UnsafeRawBufferPointer, _ now: Instant) -> EntryInfo? {
        let header = record.header
        let deadline = memory.instant(WallTime(milliseconds: header.deadline))
        guard unsafe record.key.elementsEqual(key), deadline > now else { return nil }
        return EntryInfo(
            key: unsafe Array(key), EntryMetadata(header), extendedBytes: Int(header.extendedBytes),
            deadline: deadline, now: now, time: memory.storeTime(now), isFile: record.kind == .fileEntry)
    }

    /// What the row, and a touch that it does not know yet, say about the key.
    private func info(_ key: [UInt8], _ row: FoundRow, touched: JournalHeader?) -> EntryInfo? {
        var row = row
        if let touched {
            row.metadata.deadline = WallTime(milliseconds: touched.deadline)
            row.metadata.cas = touched.cas
            row.metadata.marks = EntryMarks(rawValue: touched.marks)
        }
        let now = clock.now()
        let deadline = memory.instant(row.metadata.deadline)
        guard deadline > now else { return nil }
        return EntryInfo(
            key: key, row.metadata, extendedBytes: row.extendedBytes, deadline: deadline, now: now,
            time: memory.storeTime(now), isFile: row.isFile)
    }

    /// Has a reader thread look the row up; false if the tier is stopping.
    private func enqueueLookup(
        _ hash: UInt64, _ key: [UInt8], _ disk: DiskTier, _ answer: Answer<FoundRow?>, _ waiter: Waiter
    ) -> Bool {
        disk.enqueue(
            .run { reader in
                answer.value = Self.findRow(hash, key, disk, reader)
                waiter.complete(.retry)
            })
    }

    private static func findRow(_ hash: UInt64, _ key: [UInt8], _ disk: DiskTier, _ reader: DiskReader) -> FoundRow? {
        guard let index = reader.currentIndex() else { return nil }
        var row: FoundRow?
        do throws(DiskError) {
            _ = try unsafe index.read(hash: hash, key: key.span) { metadata, extended, value in
                guard metadata.generation > disk.flushGeneration else { return }
                row = unsafe FoundRow(metadata: metadata, extendedBytes: extended.count, isFile: value == nil)
            }
        } catch {
            disk.counters.add(to: .readErrors)
            return nil
        }
        guard let found = row, found.isFile else { return row }
        do throws(ValueFileError) {
            _ = try reader.files.open(key: key.span, expecting: found.metadata)
            return found
        } catch {
            return nil
        }
    }
}

/// What a disk thread found out for a caller, who reads it after the completion.
final class Answer<Value: Sendable>: Sendable {
    private let state: Guarded<Value>

    init(_ value: Value) { state = Guarded(value, rank: .leaf) }

    func update(_ body: (inout Value) -> Void) { state.withLock { body(&$0) } }

    var value: Value {
        get { state.withLock { $0 } }
        set { state.withLock { $0 = newValue } }
    }
}
