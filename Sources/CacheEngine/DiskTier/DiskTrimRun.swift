// A trim of the disk that a program asked for, in slices on the writer's thread.

import Primitives

/// How far a trim has come.
///
/// A value: it travels between the caller and the writer's thread.
struct DiskTrimRun: Sendable {
    private let goal: TrimGoal
    /// Where a walk through all rows goes on.
    private var row: Int64 = 0
    private(set) var removed = 0
    private(set) var isDone = false

    init(_ goal: TrimGoal) { self.goal = goal }

    /// One slice.
    ///
    /// A disk error ends the trim: the tier's own error handling has taken note.
    mutating func step(_ writer: DiskWriter) {
        guard !isDone, let index = writer.index else {
            isDone = true
            return
        }
        do throws(DiskError) {
            removed += try slice(index, writer)
            writer.publishReport()
        } catch {
            index.rollback()
            writer.disk.counters.add(to: .writeErrors)
            isDone = true
        }
    }

    private mutating func slice(_ index: DiskIndex, _ writer: DiskWriter) throws(DiskError) -> Int {
        let now = writer.memory.clock.now()
        switch goal {
        case .entries(let entries):
            return try leastRecent(index, writer, entries: index.totals.entries - max(0, entries), bytes: 0)
        case .bytes(let bytes):
            return try leastRecent(
                index, writer, entries: 0, bytes: DiskTrimmer.usedBytes(index) - max(0, bytes))
        case .age(let age, let base):
            return try before(writer.memory.storeTime(now.advanced(bySubtracting: age)), base, index, writer)
        case .date(let seconds, let base):
            let border = writer.memory.instant(civil: .seconds(seconds))
            return try before(writer.memory.storeTime(border), base, index, writer)
        case .valueBytes(let bytes):
            return try walk(try index.larger(than: bytes, after: row, limit: DiskTrimmer.walkRows), index, writer)
        case .unexpired:
            let victims = try writer.trimmer.expired(index, writer)
            isDone = victims.count < DiskTrimmer.sliceRows
            return try writer.trimmer.delete(victims, index, writer, countAs: .expirations)
        }
    }

    private mutating func leastRecent(
        _ index: DiskIndex, _ writer: DiskWriter, entries: Int, bytes: Int
    ) throws(DiskError) -> Int {
        guard entries > 0 || bytes > 0 else {
            isDone = true
            return 0
        }
        let (removed, hasMore) = try writer.trimmer.evict(entries: entries, bytes: bytes, index, writer)
        isDone = !hasMore
        return removed
    }

    private mutating func before(
        _ border: WallTime, _ base: AgeBase, _ index: DiskIndex, _ writer: DiskWriter
    ) throws(DiskError) -> Int {
        switch base {
        case .access:
            let (removed, hasMore) = try writer.trimmer.evict(accessedBefore: border, index, writer)
            isDone = !hasMore
            return removed
        case .write:
            return try walk(try index.writtenBefore(border, after: row, limit: DiskTrimmer.walkRows), index, writer)
        }
    }

    private mutating func walk(_ page: TrimPage, _ index: DiskIndex, _ writer: DiskWriter) throws(DiskError) -> Int {
        row = page.next ?? row
        isDone = page.next == nil
        return try writer.trimmer.delete(page.candidates, index, writer, countAs: .evictions)
    }
}
