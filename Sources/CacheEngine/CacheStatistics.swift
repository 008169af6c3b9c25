// A snapshot of what a cache holds and has done. Counts are since the cache was opened; sizes are in bytes.

import Primitives

/// What a cache holds and has done.
public struct CacheStatistics: Sendable, Equatable {
    /// Entries in memory.
    public var memoryEntries = 0
    /// Bytes of the entries in memory, with headers, table and allocator overhead.
    public var memoryBytes = 0
    /// The memory tier's byte limit; nil: unlimited.
    public var memoryBytesMax: Int?
    /// Retrievals answered from memory.
    public var memoryHits = 0
    /// Retrievals answered from disk.
    public var diskHits = 0
    /// Retrievals of keys in neither tier.
    public var misses = 0
    /// Entries brought from disk to memory.
    public var promotions = 0
    /// Promotions given up because the key was written meanwhile.
    public var promotionsDropped = 0
    /// Entries that left memory to make room.
    public var evictions = 0
    /// Of those, entries that were never read.
    public var evictedUnfetched = 0
    /// Entries that left memory because their time was over.
    public var expirations = 0
    /// Of those, entries that were never read.
    public var expiredUnfetched = 0
    /// Of the expirations, those found by a sweep and not on the way of a client.
    public var sweptExpirations = 0
    /// Of the misses, lookups that found an entry whose time was over.
    public var expiredLookups = 0
    /// Of the misses, lookups of entries that the last flush had removed; only the most recently used are remembered.
    public var flushedLookups = 0
    /// Of the evictions, entries that would have expired one day.
    public var mortalEvictions = 0
    /// Seconds since the last use of the entry that was evicted last, at that time.
    public var lastEvictionIdleSeconds = 0
    /// Seconds since the last use of the entry in memory that was not used for the longest time.
    public var oldestIdleSeconds = 0
    /// Entries stored, by whatever operation.
    public var stores = 0
    /// Writes that could not be journalled: in memory only, with the copy on disk barred.
    public var barredWrites = 0
    /// Bytes that values on their way in hold, outside the memory tier's limit.
    public var bodyBytes = 0
    /// Times that a value had to wait until others had been received.
    public var bodyWaits = 0
    /// The disk tier; nil without one.
    public var disk: DiskStatistics?
    /// How far the warm-up is; nil without one.
    public var warmUp: WarmUpProgress?

    /// Nothing held, nothing done.
    public init() {}
}

/// What a disk tier holds and has done.
public struct DiskStatistics: Sendable, Equatable {
    /// What the tier is doing.
    public var state = DiskState.ok
    /// Entries on disk.
    public var entries = 0
    /// Bytes of their values.
    public var valueBytes = 0
    /// Entries whose value is in a file of its own.
    public var fileEntries = 0
    /// Allocated bytes of the value files.
    public var fileBytes = 0
    /// Size of the index.
    public var indexBytes = 0
    /// Of that, unused pages.
    public var freeIndexBytes = 0
    /// Size of the index's write-ahead log.
    public var walBytes = 0
    /// Size of the journal.
    public var journalBytes = 0
    /// Of that, writes that are not in the index yet.
    public var journalUsedBytes = 0
    /// Allocated bytes of the whole directory.
    public var allocatedBytes = 0
    /// The tier's byte limit.
    public var bytesMax = 0
    /// Lookups done.
    public var reads = 0
    /// Jobs that wait for a reader thread.
    public var queuedJobs = 0
    /// Bytes of the values read.
    public var readBytes = 0
    /// Bytes of the values written.
    public var writtenBytes = 0
    /// Entries that went to disk.
    public var admittedEntries = 0
    /// Bytes of their values.
    public var admittedBytes = 0
    /// Entries that left memory without having been on disk, because the rules of admission did not want them.
    public var notAdmittedByPolicy = 0
    /// The same, because the write budget was used up.
    public var notAdmittedByBudget = 0
    /// The same, because the journal or the way to it was full.
    public var notAdmittedForRoom = 0
    /// Values that waited for room for their file within the limit.
    public var fileWaits = 0
    /// Values whose file was not written, because the limit had no room for it in time.
    public var fileRefusals = 0
    /// Access times brought to the index, so that trims know what was used.
    public var recencyWrites = 0
    /// Bytes handed to the file system: journal, index, log and value files.
    public var deviceBytes = 0
    /// Bytes of the values deleted to make room.
    public var evictedBytes = 0
    /// Reads that failed or found damage.
    public var readErrors = 0
    /// Writes that failed.
    public var writeErrors = 0
    /// Transactions.
    public var commits = 0
    /// Writes taken from the journal.
    public var committedWrites = 0
    /// Of those, writes of keys that were overwritten before they reached the index.
    public var coalescedWrites = 0
    /// Entries deleted to make room.
    public var evictions = 0
    /// Entries deleted because their time was over.
    public var expirations = 0
    /// Stores given up and replaced by empty ones.
    public var quarantines = 0
    /// How far the removal of leftovers is.
    public var chores = DiskChores()
    /// The last error, in words.
    public var lastError: String?

    /// Nothing held, nothing done.
    public init() {}
}

extension Cache {
    /// Counts and sizes now.
    ///
    /// Locks each shard for a moment.
    public func statistics() -> CacheStatistics {
        var total = CacheStatistics()
        let now = clock.now().bootSeconds
        var lastEvictionAt: UInt32 = 0
        var admission = ShardCounters()
        for shard in memory.shards {
            shard.withLock { shard in
                total.memoryEntries += shard.entries
                total.memoryBytes += shard.bytes
                total.add(shard.counters)
                admission.addAdmissions(shard.counters)
                if let oldest = shard.oldest {
                    total.oldestIdleSeconds = max(total.oldestIdleSeconds, Int(now) - Int(oldest.accessed))
                }
                if shard.counters.lastEvictionAt > lastEvictionAt {
                    lastEvictionAt = shard.counters.lastEvictionAt
                    total.lastEvictionIdleSeconds = shard.counters.lastEvictionIdle
                }
            }
        }
        total.memoryBytesMax = memory.limits.bytesMax
        total.bodyBytes = bodies.usedBytes
        total.bodyWaits = bodies.waits
        total.disk = disk?.statistics(admission)
        total.warmUp = warmUp?.progress
        return total
    }
}

extension CacheStatistics {
    fileprivate mutating func add(_ counters: ShardCounters) {
        memoryHits += counters.memoryHits
        diskHits += counters.diskHits
        misses += counters.misses
        promotions += counters.promotions
        promotionsDropped += counters.promotionsDropped
        evictions += counters.evictions
        evictedUnfetched += counters.evictedUnfetched
        expirations += counters.expirations
        expiredUnfetched += counters.expiredUnfetched
        sweptExpirations += counters.sweptExpirations
        expiredLookups += counters.expiredLookups
        flushedLookups += counters.flushedLookups
        mortalEvictions += counters.mortalEvictions
        stores += counters.stores
        barredWrites += counters.barredWrites
    }
}

extension DiskTier {
    /// Counts and sizes as of the last batch.
    fileprivate func statistics(_ admission: ShardCounters) -> DiskStatistics {
        let report = report.withLock { $0 }
        var statistics = DiskStatistics()
        statistics.state = state
        statistics.entries = report.totals.entries
        statistics.valueBytes = report.totals.valueBytes
        statistics.fileEntries = report.totals.fileEntries
        statistics.fileBytes = report.totals.fileBytes
        statistics.indexBytes = report.indexBytes
        statistics.freeIndexBytes = report.freeIndexBytes
        statistics.walBytes = report.walBytes
        statistics.journalBytes = journal.capacity
        statistics.journalUsedBytes = journal.usedBytes
        statistics.allocatedBytes = report.allocatedBytes + journal.capacity + hotListBytes
        statistics.bytesMax = limits.withLock { $0.bytesMax }
        statistics.lastError = report.lastError
        statistics.reads = counters[.reads]
        statistics.queuedJobs = queuedJobs
        statistics.readBytes = counters[.readBytes]
        statistics.writtenBytes = counters[.writtenBytes]
        statistics.evictedBytes = counters[.evictedBytes]
        statistics.readErrors = counters[.readErrors]
        statistics.writeErrors = counters[.writeErrors]
        statistics.commits = counters[.commits]
        statistics.committedWrites = counters[.committedWrites]
        statistics.coalescedWrites = counters[.coalescedWrites]
        statistics.evictions = counters[.evictions]
        statistics.expirations = counters[.expirations]
        statistics.quarantines = counters[.quarantines]
        statistics.chores = chores.withLock { $0 }
        statistics.admittedEntries = admission.admittedEntries
        statistics.admittedBytes = admission.admittedBytes
        statistics.notAdmittedByPolicy = admission.notAdmittedByPolicy
        statistics.notAdmittedByBudget = admission.notAdmittedByBudget
        statistics.notAdmittedForRoom = admission.notAdmittedForRoom
        statistics.fileWaits = counters[.fileWaits]
        statistics.fileRefusals = counters[.fileRefusals]
        statistics.recencyWrites = counters[.recencyWrites]
        statistics.deviceBytes = counters[.deviceBytes] + journal.appendedBytes
        return statistics
    }
}

extension ShardCounters {
    fileprivate mutating func addAdmissions(_ other: ShardCounters) {
        admittedEntries += other.admittedEntries
        admittedBytes += other.admittedBytes
        notAdmittedByPolicy += other.notAdmittedByPolicy
        notAdmittedByBudget += other.notAdmittedByBudget
        notAdmittedForRoom += other.notAdmittedForRoom
    }
}
