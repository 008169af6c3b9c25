// Limits that a program reads and changes while the cache runs.

import Primitives
import Synchronization

extension Cache {
    /// The memory tier's limits in force.
    public var memoryLimits: MemoryOptions { memory.limits }

    /// Changes the memory tier's limits; evicts down to lowered ones before it returns.
    ///
    /// The number of shards stays as it was when the cache was opened.
    public func changeMemoryLimits(_ change: (inout MemoryOptions) -> Void) {
        var limits = memory.limits
        change(&limits)
        memory.setLimits(limits)
        memory.enforceLimits()
    }

    /// The same, but lets the background thread evict down to lowered limits: for threads that must not wait.
    public func changeMemoryLimitsInBackground(_ change: (inout MemoryOptions) -> Void) {
        var limits = memory.limits
        change(&limits)
        memory.setLimits(limits)
        background.requestLimits()
    }

    /// The disk tier's limits in force; nil without a disk tier.
    public var diskLimits: DiskLimits? { disk?.limits.withLock { $0 } }

    /// Changes the disk tier's limits; the disk writer begins at once to trim down to lowered ones.
    ///
    /// Values that are stored keep their place when the inline threshold changes.
    public func changeDiskLimits(_ change: (inout DiskLimits) -> Void) {
        guard let disk else { return }
        let limits = disk.limits.withLock { limits in
            change(&limits)
            return limits
        }
        disk.setInlineBytesMax(limits.inlineBytesMax)
        _ = disk.ask { writer in writer.trimmer.step(writer) }
    }

    /// Changes the TTL of entries stored without one, and the longest TTL; nil is unlimited.
    ///
    /// Entries that are stored already keep their deadlines.
    public func changeTimeToLive(standard: Duration?, longest: Duration?) {
        standardTTL.store(standard.map(\.milliseconds) ?? .max, ordering: .relaxed)
        longestTTL.store(longest.map(\.milliseconds) ?? .max, ordering: .relaxed)
    }

    /// Entries in a tier now.
    ///
    /// O(shards) for memory, O(1) for the disk, which is counted as of its last batch.
    public func entryCount(in tier: Tier) -> Int {
        switch tier {
        case .memory: memory.shards.reduce(0) { $0 + $1.withLock { $0.entries } }
        case .disk: disk?.report.withLock { $0.totals.entries } ?? 0
        }
    }

    /// Bytes that a tier takes now: in memory with all overhead, on disk index, log and value files.
    ///
    /// O(shards) for memory, O(1) for the disk, which is counted as of its last batch.
    public func byteCount(in tier: Tier) -> Int {
        switch tier {
        case .memory: memory.shards.reduce(0) { $0 + $1.withLock { $0.bytes } }
        case .disk: disk?.report.withLock { $0.allocatedBytes } ?? 0
        }
    }
}
