// The two tiers in `stats`: our names, and the disk tier once more under the names of memcached's extstore, so that
// dashboards and exporters that know extstore show it.

import CacheEngine
import Primitives
import Protocol

extension StatsReport {
    /// Appends the disk tier under extstore's names; those about its pages and their compaction have no counterpart.
    func appendExtstore(_ engine: CacheStatistics, _ reply: inout ByteBuffer) {
        guard let disk = engine.disk else { return }
        reply.appendStatistic("get_extstore", UInt64(engine.diskHits))
        reply.appendStatistic("badcrc_from_extstore", UInt64(disk.readErrors))
        reply.appendStatistic("extstore_objects_evicted", UInt64(disk.evictions))
        reply.appendStatistic("extstore_objects_read", UInt64(engine.diskHits))
        reply.appendStatistic("extstore_objects_written", UInt64(disk.committedWrites))
        reply.appendStatistic("extstore_objects_used", UInt64(disk.entries))
        reply.appendStatistic("extstore_bytes_evicted", UInt64(disk.evictedBytes))
        reply.appendStatistic("extstore_bytes_written", UInt64(disk.writtenBytes))
        reply.appendStatistic("extstore_bytes_read", UInt64(disk.readBytes))
        reply.appendStatistic("extstore_bytes_used", UInt64(disk.allocatedBytes))
        reply.appendStatistic("extstore_bytes_fragmented", UInt64(disk.freeIndexBytes))
        reply.appendStatistic("extstore_limit_maxbytes", UInt64(disk.bytesMax))
        reply.appendStatistic("extstore_io_queue", UInt64(max(0, disk.queuedJobs)))
    }

    /// Appends both tiers under our names.
    func appendTiers(_ engine: CacheStatistics, _ reply: inout ByteBuffer) {
        reply.appendStatistic("memory_entries", UInt64(engine.memoryEntries))
        reply.appendStatistic("memory_bytes", UInt64(engine.memoryBytes))
        if let limit = engine.memoryBytesMax { reply.appendStatistic("memory_limit_bytes", UInt64(limit)) }
        reply.appendStatistic("body_bytes", UInt64(engine.bodyBytes))
        reply.appendStatistic("body_waits", UInt64(engine.bodyWaits))
        reply.appendStatistic("memory_hits", UInt64(engine.memoryHits))
        reply.appendStatistic("disk_hits", UInt64(engine.diskHits))
        reply.appendStatistic("misses", UInt64(engine.misses))
        reply.appendStatistic("promotions", UInt64(engine.promotions))
        reply.appendStatistic("expirations", UInt64(engine.expirations))
        guard let disk = engine.disk else { return reply.appendStatistic("disk_state", "off") }
        reply.appendStatistic("disk_state", "\(disk.state)")
        reply.appendStatistic("disk_entries", UInt64(disk.entries))
        reply.appendStatistic("disk_bytes", UInt64(disk.allocatedBytes))
        reply.appendStatistic("disk_limit_bytes", UInt64(disk.bytesMax))
        reply.appendStatistic("disk_value_bytes", UInt64(disk.valueBytes))
        reply.appendStatistic("disk_file_entries", UInt64(disk.fileEntries))
        reply.appendStatistic("disk_file_bytes", UInt64(disk.fileBytes))
        reply.appendStatistic("disk_index_bytes", UInt64(disk.indexBytes))
        reply.appendStatistic("disk_wal_bytes", UInt64(disk.walBytes))
        reply.appendStatistic("journal_bytes", UInt64(disk.journalBytes))
        reply.appendStatistic("journal_used_bytes", UInt64(disk.journalUsedBytes))
        reply.appendStatistic("disk_evictions", UInt64(disk.evictions))
        reply.appendStatistic("disk_expirations", UInt64(disk.expirations))
        reply.appendStatistic("disk_write_errors", UInt64(disk.writeErrors))
        reply.appendStatistic("disk_read_errors", UInt64(disk.readErrors))
        reply.appendStatistic("disk_admitted", UInt64(disk.admittedEntries))
        reply.appendStatistic("disk_admitted_bytes", UInt64(disk.admittedBytes))
        reply.appendStatistic("disk_not_admitted_policy", UInt64(disk.notAdmittedByPolicy))
        reply.appendStatistic("disk_not_admitted_budget", UInt64(disk.notAdmittedByBudget))
        reply.appendStatistic("disk_not_admitted_room", UInt64(disk.notAdmittedForRoom))
        reply.appendStatistic("disk_file_waits", UInt64(disk.fileWaits))
        reply.appendStatistic("disk_file_refusals", UInt64(disk.fileRefusals))
        reply.appendStatistic("disk_recency_writes", UInt64(disk.recencyWrites))
        reply.appendStatistic("disk_device_bytes", UInt64(disk.deviceBytes))
        reply.appendStatistic("disk_quarantines", UInt64(disk.quarantines))
        reply.appendStatistic("disk_sweep_percent", UInt64(disk.chores.sweepPercent))
        reply.appendStatistic("disk_orphans_removed", UInt64(disk.chores.orphansRemoved))
        reply.appendStatistic("disk_flushed_removed", UInt64(disk.chores.flushedRowsRemoved))
        appendWarmUp(engine.warmUp, &reply)
        if let error = disk.lastError { reply.appendStatistic("disk_last_error", Self.oneWord(error)) }
    }

    private func appendWarmUp(_ warmUp: WarmUpProgress?, _ reply: inout ByteBuffer) {
        guard let warmUp else { return reply.appendStatistic("warm_up_state", "off") }
        reply.appendStatistic("warm_up_state", warmUp.stage.rawValue)
        reply.appendStatistic("warm_up_listed", UInt64(warmUp.listed))
        reply.appendStatistic("warm_up_looked_up", UInt64(warmUp.looked))
        reply.appendStatistic("warm_up_loaded", UInt64(warmUp.loaded))
        reply.appendStatistic("warm_up_loaded_bytes", UInt64(warmUp.loadedBytes))
        reply.appendStatistic("warm_up_ms", UInt64(max(0, warmUp.milliseconds)))
        reply.appendStatistic("hot_list_writes", UInt64(warmUp.saves))
        reply.appendStatistic("hot_list_errors", UInt64(warmUp.saveErrors))
    }

    /// Text as one word: many clients take the third word of a line for the value, or refuse a fourth.
    private static func oneWord(_ text: String) -> String {
        String(text.map { $0.isWhitespace ? "_" : $0 })
    }
}

extension DiskChores {
    /// How much of the directory was looked through for orphans; 100: done.
    var sweepPercent: Int { isSweeping ? min(99, sweptDirectories * 100 / 256) : 100 }
}

extension CacheStatistics {
    /// The same with counters since `earlier`; sizes stay as they are.
    func since(_ earlier: CacheStatistics) -> CacheStatistics {
        var rest = self
        rest.memoryHits -= earlier.memoryHits
        rest.diskHits -= earlier.diskHits
        rest.misses -= earlier.misses
        rest.promotions -= earlier.promotions
        rest.evictions -= earlier.evictions
        rest.evictedUnfetched -= earlier.evictedUnfetched
        rest.expirations -= earlier.expirations
        rest.expiredUnfetched -= earlier.expiredUnfetched
        rest.sweptExpirations -= earlier.sweptExpirations
        rest.expiredLookups -= earlier.expiredLookups
        rest.flushedLookups -= earlier.flushedLookups
        rest.mortalEvictions -= earlier.mortalEvictions
        rest.stores -= earlier.stores
        rest.bodyWaits -= earlier.bodyWaits
        if let disk, let before = earlier.disk {
            rest.disk?.evictions = disk.evictions - before.evictions
            rest.disk?.expirations = disk.expirations - before.expirations
            rest.disk?.readErrors = disk.readErrors - before.readErrors
            rest.disk?.writeErrors = disk.writeErrors - before.writeErrors
            rest.disk?.committedWrites = disk.committedWrites - before.committedWrites
            rest.disk?.readBytes = disk.readBytes - before.readBytes
            rest.disk?.writtenBytes = disk.writtenBytes - before.writtenBytes
            rest.disk?.evictedBytes = disk.evictedBytes - before.evictedBytes
            rest.disk?.admittedEntries = disk.admittedEntries - before.admittedEntries
            rest.disk?.admittedBytes = disk.admittedBytes - before.admittedBytes
            rest.disk?.notAdmittedByPolicy = disk.notAdmittedByPolicy - before.notAdmittedByPolicy
            rest.disk?.notAdmittedByBudget = disk.notAdmittedByBudget - before.notAdmittedByBudget
            rest.disk?.notAdmittedForRoom = disk.notAdmittedForRoom - before.notAdmittedForRoom
            rest.disk?.fileWaits = disk.fileWaits - before.fileWaits
            rest.disk?.fileRefusals = disk.fileRefusals - before.fileRefusals
            rest.disk?.recencyWrites = disk.recencyWrites - before.recencyWrites
            rest.disk?.deviceBytes = disk.deviceBytes - before.deviceBytes
        }
        return rest
    }
}
