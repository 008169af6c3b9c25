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
}
