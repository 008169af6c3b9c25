// Which entries in memory are the hottest: those that were used last, as the LRU lists have it.
//
// Two walks through the tables in steps of some hundred entries under one shard's lock: the first counts entries by
// their idle time, the second collects hashes into the places that the counts give each class. So a list of any length
// is in order, to an eighth of the idle time, without a sort and with eight bytes an entry. Entries that change between
// the walks are left out or stand a little off. Any thread that may take its time.

import Primitives

/// Finds the hottest entries of a memory tier.
struct HotSurvey {
    private var counts = [Int](repeating: 0, count: IdleClass.count)

    /// Hashes of at most `limit` entries with their values in memory, the most recently used first.
    static func hottest(_ memory: MemoryTier, limit: Int) -> [UInt64] {
        guard limit > 0 else { return [] }
        var survey = HotSurvey()
        let now = memory.clock.now()
        Trim.forEachStep(in: memory) { shard, step in
            step.visit(shard.table) { block in
                if !block.isStub, block.deadline > now { survey.counts[IdleClass.of(block, now)] += 1 }
            }
            return Garbage()
        }
        return survey.collect(memory, limit: limit, now: now)
    }

    private func collect(_ memory: MemoryTier, limit: Int, now: Instant) -> [UInt64] {
        var next: [Int] = []
        var ends: [Int] = []
        var total = 0
        for count in counts {
            next.append(total)
            total = min(limit, total + count)
            ends.append(total)
        }
        // 0 is no hash here: an entry with that hash is not listed.
        var hashes = [UInt64](repeating: 0, count: total)
        Trim.forEachStep(in: memory) { shard, step in
            step.visit(shard.table) { block in
                let idle = IdleClass.of(block, now)
                guard next[idle] < ends[idle], !block.isStub, block.deadline > now else { return }
                hashes[next[idle]] = memory.hash(block)
                next[idle] += 1
            }
            return Garbage()
        }
        hashes.removeAll { $0 == 0 }
        return hashes
    }
}

/// Classes of idle times: seconds up to 16, then eight for each doubling.
enum IdleClass {
    static let count = 256

    /// The class of an entry; 0 is the hottest.
    static func of(_ block: EntryBlock, _ now: Instant) -> Int { of(seconds: now.bootSeconds &- block.accessed) }

    /// The class of an idle time; a time in the future, as a wrapped number, is the last.
    static func of(seconds: UInt32) -> Int {
        if seconds < 16 { return Int(seconds) }
        let octave = 31 - seconds.leadingZeroBitCount
        return 16 + (octave - 4) * 8 + Int(seconds >> (octave - 3)) & 7
    }
}
