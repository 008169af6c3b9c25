// What must hold between any two turns, whatever happened: sums, tables and lists that say the same.

import Primitives
import SimulatedSystem
import TestSupport

@testable import CacheEngine

extension SimulatedDaemon {
    /// Throws what does not add up; `isThorough` looks into the index, too, whose damage can hide rows.
    func check(isThorough: Bool, isDamaged: Bool) throws {
        for shard in cache.memory.shards {
            let problem = shard.withLock { self.problem(&$0) }
            if let problem { throw Wrong(description: problem) }
        }
        guard let disk = cache.disk else { return }
        try checkPending(disk)
        if isThorough { try checkIndex(disk, isDamaged: isDamaged) }
    }

    private func problem(_ shard: inout Shard) -> String? {
        var entries = 0
        var bytes = 0
        var found = 0
        shard.forEachOldestFirst { block in
            entries += 1
            bytes += block.accountedBytes
            if shard.table.find(shard.hash(block), block.key) == block { found += 1 }
            return true
        }
        if entries != shard.entries { return "memory: \(entries) entries in the list, \(shard.entries) in the table" }
        if found != entries { return "memory: \(found) of \(entries) entries are found" }
        if bytes != shard.bytes { return "memory: \(bytes) bytes of entries, \(shard.bytes) counted" }
        if let limit = shard.limits.bytes, bytes > limit + (64 << 10) { return "memory: \(bytes) bytes of \(limit)" }
        return nil
    }

    /// Each record between tail and head has its key's pending write, or a newer one; each pending write its record.
    private func checkPending(_ disk: DiskTier) throws {
        let (tail, head, _) = disk.journal.extent
        guard disk.isServing, !disk.isGivenUp.load(ordering: .relaxed) else { return }
        if head - tail > UInt64(disk.journal.capacity) { throw Wrong(description: "journal: more than it holds") }
        var newest: [UInt64: (sequence: UInt64, position: UInt64)] = [:]
        var position = tail
        while position < head {
            position = disk.journal.normalized(position)
            if position >= head { break }
            // What is damaged is found by the next who reads it.
            guard let record = disk.journal.wholeRecord(at: position) else { return }
            if record.kind == .flush {
                if record.header.generation > 0 { newest = [:] }
            } else {
                newest[record.header.hash] = (record.header.sequence, position)
            }
            position += UInt64(record.header.recordBytes)
        }
        for (hash, record) in newest {
            let write = cache.memory.shard(hash).withLock { $0.pending.find(hash) }
            guard let write else { throw Wrong(description: "journal: record \(record.sequence) is not pending") }
            if write.kind == .barred || write.sequence == .max { continue }
            if write.sequence != record.sequence || write.position != record.position {
                throw Wrong(description: "journal: record \(record.sequence) is newest, \(write.sequence) pending")
            }
        }
        for shard in cache.memory.shards {
            var problem: String?
            shard.withLock { shard in
                shard.pending.forEach { hash, write in
                    if write.kind == .barred || write.sequence == .max || newest[hash] != nil { return }
                    problem = "journal: pending write \(write.sequence) has no record"
                }
            }
            if let problem { throw Wrong(description: problem) }
        }
    }

    /// The filter knows every row, and the totals are those of the rows.
    private func checkIndex(_ disk: DiskTier, isDamaged: Bool) throws {
        guard let index = writer?.index, index.isUsable, !isWriting, disk.isServing else { return }
        var rows: [UInt64] = []
        var totals = DiskTotals()
        do {
            var after: Int64?
            while true {
                let page = try index.hashes(after: after, limit: 512)
                rows += page
                after = page.last.map { Int64(bitPattern: $0) }
                if page.count < 512 { break }
            }
            totals = try index.recount()
        } catch {
            // Damage, or a fault: the next turn finds it.
            return
        }
        for hash in rows where !cache.memory.shard(hash).withLock({ $0.mayBeOnDisk(hash) }) {
            throw Wrong(description: "filter: a row is not in it")
        }
        if !index.isRecounting, !isDamaged, totals != index.totals {
            throw Wrong(description: "index: holds \(totals), counts \(index.totals)")
        }
        try checkFiles(disk, totals)
    }

    /// The directory keeps to its limit, but for a batch.
    private func checkFiles(_ disk: DiskTier, _ totals: DiskTotals) throws {
        let slack = Int64(disk.journal.capacity + (24 << 20))
        let limit = Int64(disk.limits.withLock { $0.bytesMax })
        if sim_used_bytes() > limit + slack { throw Wrong(description: "disk: \(sim_used_bytes()) bytes of \(limit)") }
    }
}
