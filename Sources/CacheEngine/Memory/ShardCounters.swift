// Counts of one shard, kept under its lock; `CacheStatistics` adds them up.

/// Plain counters of a shard since start.
struct ShardCounters {
    var memoryHits = 0
    var diskHits = 0
    var misses = 0
    var promotions = 0
    /// Promotions given up because the key was written meanwhile.
    var promotionsDropped = 0
    var evictions = 0
    var evictedUnfetched = 0
    var expirations = 0
    var expiredUnfetched = 0
    /// Entries stored, by any command.
    var stores = 0
    /// Writes that could not be journalled: memory only, disk copy barred.
    var barredWrites = 0
    /// Of the expirations, those found by a sweep and not on the way of a client.
    var sweptExpirations = 0
    /// Entries that went to disk, by whatever operation, and the bytes of their values.
    var admittedEntries = 0
    var admittedBytes = 0
    /// Entries that left memory without ever having been on disk: not wanted by the rules, over the budget, or because
    /// journal or demotion had no room.
    var notAdmittedByPolicy = 0
    var notAdmittedByBudget = 0
    var notAdmittedForRoom = 0
    /// Of the misses, lookups that found an entry whose time was over.
    var expiredLookups = 0
    /// Of the misses, lookups of entries that a flush had removed, as far as it is remembered.
    var flushedLookups = 0
    /// Of the evictions, entries that would have expired one day.
    var mortalEvictions = 0
    /// Seconds since the last use of the entry that was evicted last, at that time.
    var lastEvictionIdle = 0
    /// When the last eviction was, in boot seconds.
    var lastEvictionAt: UInt32 = 0

    /// Counts a retrieval by the tier that it had to ask.
    mutating func countHit(isOfDisk: Bool) {
        if isOfDisk { diskHits += 1 } else { memoryHits += 1 }
    }
}
