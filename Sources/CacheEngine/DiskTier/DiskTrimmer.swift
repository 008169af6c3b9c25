// What leaves the disk, and when: expired entries first, then over the byte limit, over the entry limit, too old, and
// for the file system's free space.
//
// Works in slices between the writer's batches: a slice deletes at most a few hundred rows in one transaction, so a
// client's write never waits for a long trim. Victims are the least recently used rows; one whose entry has been used
// in memory since is not deleted, its row is told of that use instead.

import Primitives

/// Confined to the writer's thread.
final class DiskTrimmer {
    /// Rows that are deleted in one slice, at most.
    static let sliceRows = 256
    /// Rows that are looked at in one slice of a walk through all rows.
    static let walkRows = 1024
    /// Trimming over a limit goes on until the use is below this share of it.
    private static let lowWatermark = 0.97
    private static let vacuumPagesPerStep = 256
    /// What the directory takes besides journal, index and values: 256 subdirectories of a block each, and small files.
    private static let smallBytes = 256 * ValueFiles.blockBytes + (64 << 10)

    private enum Walk {
        case none
        case at(Int64)
    }

    private var flushWalk = Walk.none
    private var writtenWalk = Walk.none
    /// Whether the last step stopped for its slice, not because there was nothing to do.
    private(set) var hasMore = false

    /// Whether pages were given back that the file still has.
    private var isShrinking = false

    /// Where `removeSomeFiles` goes on.
    private var nextDirectory = 0
    /// What it frees at a time: more than opening the index takes.
    private static let freedBytesMin = 1 << 20

    /// Rows of flushed generations that were deleted since the last flush.
    private var sweptRows = 0

    /// How long accesses may wait for a write that takes them along: what a kill can make the index forget.
    private static let recencyMilliseconds: Int64 = 60_000
    private var recencyDue = Instant(milliseconds: 0)

    /// Rows of flushed generations are to be deleted.
    func beginFlushSweep() {
        flushWalk = .at(0)
        sweptRows = 0
    }

    /// One slice of trimming.
    func step(_ writer: DiskWriter) {
        guard let index = writer.index else { return }
        do throws(DiskError) {
            try tellRecency(index, writer)
            hasMore = try trimExpired(index, writer)
            if try trimOverLimits(index, writer) { hasMore = true }
            if try trimOld(index, writer) { hasMore = true }
            if try sweepFlushed(index, writer) { hasMore = true }
            if try giveSpaceBack(index, writer) { hasMore = true }
        } catch {
            index.rollback()
            writer.filters.drop()
            writer.disk.counters.add(to: .writeErrors)
            if error.kind == .corrupt { writer.degrade("\(error)") }
            if writer.disk.waitsForCommit, error.isSyncFailure { writer.giveUp(error) }
        }
    }

    /// Frees what can be freed after the file system reported that it is full.
    ///
    /// Files go before their rows: the log needs room for the deletion of rows, too. A row without its file is a miss.
    func makeRoom(_ writer: DiskWriter) {
        guard let index = writer.index else { return }
        guard index.isUsable else { return removeSomeFiles(writer) }
        do throws(DiskError) {
            let victims = try index.leastRecent(limit: Self.sliceRows)
            writer.removeFiles(victims.filter { $0.fileBytes > 0 }.map(\.generation))
            try checkpoint(.truncate, index, writer)
            try delete(victims, index, writer, countAs: .evictions)
        } catch {
            index.rollback()
            writer.filters.drop()
        }
    }

    /// Removes old value files without asking the index, which a full file system does not let be opened.
    ///
    /// Generations are spread evenly over the subdirectories, so the oldest file of each is among the oldest of all.
    private func removeSomeFiles(_ writer: DiskWriter) {
        let files = writer.disk.store.withLock { $0.files }
        var freed = 0
        for _ in 0..<ValueFiles.directories where freed < Self.freedBytesMin {
            do throws(ValueFileError) {
                freed += try files.removeOldest(inDirectory: nextDirectory)
            } catch {
                writer.disk.counters.add(to: .writeErrors)
            }
            nextDirectory = (nextDirectory + 1) % ValueFiles.directories
        }
    }

    /// Tells the index of accesses, once a minute: a cache that is only read has no writes that would.
    private func tellRecency(_ index: DiskIndex, _ writer: DiskWriter) throws(DiskError) {
        let now = writer.memory.clock.now()
        guard now >= recencyDue else { return }
        recencyDue = now.advanced(byMilliseconds: Self.recencyMilliseconds)
        try writer.tellRecencyNow(index)
    }

    // MARK: Reasons

    private func trimExpired(_ index: DiskIndex, _ writer: DiskWriter) throws(DiskError) -> Bool {
        let victims = try expired(index, writer)
        try delete(victims, index, writer, countAs: .expirations)
        return victims.count == Self.sliceRows
    }

    /// Some rows whose time is over.
    func expired(_ index: DiskIndex, _ writer: DiskWriter) throws(DiskError) -> [TrimCandidate] {
        let now = writer.memory.storeTime(writer.memory.clock.now())
        // The journal may hold a touch that gives the entry more time, or the entry again, with the same file.
        return try index.expired(before: now, limit: Self.sliceRows).filter { candidate in
            writer.memory.shard(candidate.hash).withLock { $0.pending.find(candidate.hash) == nil }
        }
    }

    private func trimOverLimits(_ index: DiskIndex, _ writer: DiskWriter) throws(DiskError) -> Bool {
        let limits = writer.disk.limits.withLock { $0 }
        let excessBytes = excess(index, writer, limits)
        let excessEntries = limits.entriesMax.map { index.totals.entries - $0 } ?? 0
        guard excessBytes > 0 || excessEntries > 0 else { return false }
        return try evict(entries: excessEntries, bytes: excessBytes, index, writer).hasMore
    }

    /// Deletes some of the least recently used rows, no more than asked for.
    func evict(
        entries: Int, bytes: Int, _ index: DiskIndex, _ writer: DiskWriter
    ) throws(DiskError) -> (removed: Int, hasMore: Bool) {
        try writer.tellRecencyNow(index)
        let candidates = try index.leastRecent(limit: Self.sliceRows)
        var victims: [TrimCandidate] = []
        var freed = 0
        try index.begin()
        for candidate in candidates where freed < bytes || victims.count < entries {
            if try spare(candidate, index, writer) { continue }
            victims.append(candidate)
            freed += max(candidate.fileBytes, candidate.valueBytes + 128)
        }
        let removed = try deleteAndCommit(victims, index, writer, countAs: .evictions)
        return (removed, !candidates.isEmpty)
    }

    /// Bytes of the index that hold something, and of the value files.
    static func usedBytes(_ index: DiskIndex) -> Int {
        index.pageBytes - index.freePages * index.pageSize + index.totals.fileBytes
    }

    /// What the directory has besides index, log and value files.
    private static func otherBytes(_ disk: DiskTier) -> Int { disk.journal.capacity + disk.hotListBytes }

    /// What index and value files together may take within the limit, given what the directory has besides.
    private static func bytesMax(_ limits: DiskLimits, otherBytes: Int) -> Int {
        max(0, limits.bytesMax - otherBytes - walBytesMax(limits) - smallBytes)
    }

    /// What value files may take: the limit less everything else.
    static func fileBytesMax(_ index: DiskIndex, _ limits: DiskLimits, otherBytes: Int) -> Int {
        bytesMax(limits, otherBytes: otherBytes) - index.pageBytes
    }

    /// What value files may take by now, given the file system's free space, too.
    func fileBytesMax(_ index: DiskIndex, _ writer: DiskWriter) -> Int {
        let disk = writer.disk
        let limits = disk.limits.withLock { $0 }
        let most = Self.fileBytesMax(index, limits, otherBytes: Self.otherBytes(disk))
        guard let freeMin = limits.freeBytesMin, let available = availableBytes(disk) else { return most }
        return min(most, index.totals.fileBytes + disk.space.underWayBytes + available - freeMin)
    }

    private func availableBytes(_ disk: DiskTier) -> Int? {
        do throws(StoreError) {
            return try disk.directory.availableBytes()
        } catch {
            disk.counters.add(to: .readErrors)
            return nil
        }
    }

    /// Bytes to get rid of: what is used, or waited for, beyond the limit, down to the low watermark; more if the file
    /// system is short.
    private func excess(_ index: DiskIndex, _ writer: DiskWriter, _ limits: DiskLimits) -> Int {
        let space = writer.disk.space
        let wanted = space.takeWanted()
        let kept = min(index.freePages * index.pageSize, Self.freeBytesKept(index, limits))
        let used = Self.usedBytes(index) + kept + space.underWayBytes + wanted
        let limit = Self.bytesMax(limits, otherBytes: Self.otherBytes(writer.disk))
        var excess = used > limit ? used - Int(Double(limit) * Self.lowWatermark) : 0
        if let freeMin = limits.freeBytesMin, let available = availableBytes(writer.disk) {
            excess = max(excess, freeMin + wanted - available)
        }
        return excess
    }

    /// Free pages are kept for the next writes up to this; the rest is given back a little at a time.
    private static func freeBytesKept(_ index: DiskIndex, _ limits: DiskLimits) -> Int {
        max(min(8 << 20, limits.bytesMax / 16), index.pageBytes / 16)
    }

    /// Whether the entry has been used in memory after its row says; then the row is told.
    private func spare(
        _ victim: TrimCandidate, _ index: DiskIndex, _ writer: DiskWriter
    ) throws(DiskError) -> Bool {
        let memory = writer.memory
        guard let accessed = memory.shard(victim.hash).withLock({ $0.table.lastAccess(victim.hash) }) else {
            return false
        }
        let time = memory.storeTime(bootSeconds: accessed)
        let news = Int64(RecencyRule.granularityMinutes) * 60_000
        guard time.milliseconds >= victim.accessed.milliseconds + news else { return false }
        try index.setAccessed(hash: victim.hash, time)
        return true
    }

    private func trimOld(_ index: DiskIndex, _ writer: DiskWriter) throws(DiskError) -> Bool {
        let limits = writer.disk.limits.withLock { $0 }
        guard let ageMax = limits.ageMax else { return false }
        let now = writer.memory.storeTime(writer.memory.clock.now())
        let border = WallTime(milliseconds: now.milliseconds - ageMax)
        switch limits.ageBase {
        case .access:
            return try evict(accessedBefore: border, index, writer).hasMore
        case .write:
            let start: Int64 = if case .at(let row) = writtenWalk { row } else { 0 }
            let page = try index.writtenBefore(border, after: start, limit: Self.walkRows)
            try delete(page.candidates, index, writer, countAs: .expirations)
            writtenWalk = page.next.map(Walk.at) ?? .none
            return page.next != nil
        }
    }

    /// Deletes some of the rows that were last used before `border`.
    func evict(
        accessedBefore border: WallTime, _ index: DiskIndex, _ writer: DiskWriter
    ) throws(DiskError) -> (removed: Int, hasMore: Bool) {
        try writer.tellRecencyNow(index)
        let candidates = try index.idle(accessedBefore: border, limit: Self.sliceRows)
        if candidates.isEmpty { return (0, false) }
        var victims: [TrimCandidate] = []
        try index.begin()
        for candidate in candidates where try !spare(candidate, index, writer) { victims.append(candidate) }
        let removed = try deleteAndCommit(victims, index, writer, countAs: .expirations)
        return (removed, candidates.count == Self.sliceRows)
    }

    private func sweepFlushed(_ index: DiskIndex, _ writer: DiskWriter) throws(DiskError) -> Bool {
        guard case .at(let start) = flushWalk else { return false }
        let page = try index.flushed(upTo: index.flushGeneration, after: start, limit: Self.walkRows)
        sweptRows += try delete(page.candidates, index, writer, countAs: nil)
        flushWalk = page.next.map(Walk.at) ?? .none
        writer.disk.chores.withLock { chores in
            chores.isRemovingFlushed = page.next != nil
            chores.flushedRowsRemoved = sweptRows
        }
        return page.next != nil
    }

    /// One slice of the removal of flushed rows, for a caller who waits for it: rows removed since the flush, and rows
    /// still to be looked at (0: done).
    func sweepStep(_ writer: DiskWriter) -> (removed: Int, left: Int) {
        guard let index = writer.index else { return (sweptRows, 0) }
        do throws(DiskError) {
            let hasMore = try sweepFlushed(index, writer)
            writer.publishReport()
            return (sweptRows, hasMore ? max(1, index.totals.entries) : 0)
        } catch {
            index.rollback()
            writer.disk.counters.add(to: .writeErrors)
            return (sweptRows, 0)
        }
    }

    // MARK: Doing it

    /// The write-ahead log is checkpointed when it has grown beyond this.
    private static func walBytesMax(_ limits: DiskLimits) -> Int { min(16 << 20, limits.bytesMax / 16) }

    /// Deletes rows and their files; returns how many rows were still there.
    @discardableResult
    func delete(
        _ victims: [TrimCandidate], _ index: DiskIndex, _ writer: DiskWriter, countAs counter: DiskCounters.Name?
    ) throws(DiskError) -> Int {
        guard !victims.isEmpty else { return 0 }
        try index.begin()
        return try deleteAndCommit(victims, index, writer, countAs: counter)
    }

    /// Deletes rows in the open transaction, commits it, then removes their files.
    private func deleteAndCommit(
        _ victims: [TrimCandidate], _ index: DiskIndex, _ writer: DiskWriter, countAs counter: DiskCounters.Name?
    ) throws(DiskError) -> Int {
        var files: [UInt64] = []
        var changes = RowChanges()
        var removedBytes = 0
        for victim in victims {
            guard let old = try index.deleteRow(victim.rowID, ifGeneration: victim.generation) else { continue }
            changes.delete(victim.hash, old)
            removedBytes += victim.valueBytes
            if old.fileBytes > 0 { files.append(old.generation) }
        }
        let removed = changes.removed.count
        try index.commit()
        writer.filters.apply(changes)
        writer.removeFiles(files)
        if let counter { writer.disk.counters.add(removed, to: counter) }
        if counter == .evictions { writer.disk.counters.add(removedBytes, to: .evictedBytes) }
        return removed
    }

    /// Copies the log into the database when it has grown.
    ///
    /// The log's file stays, to be written over, which costs the file system less than new blocks; one that has become
    /// much too large is cut.
    private func copyLog(_ index: DiskIndex, _ limits: DiskLimits, _ writer: DiskWriter) throws(DiskError) {
        let most = Self.walBytesMax(limits)
        if index.walBytes > 2 * most {
            try checkpoint(.truncate, index, writer)
        } else if index.usedLogBytes > most {
            try checkpoint(.passive, index, writer)
        }
    }

    private func checkpoint(_ mode: CheckpointMode, _ index: DiskIndex, _ writer: DiskWriter) throws(DiskError) {
        _ = try writer.disk.callerReads.withoutSnapshots { () throws(DiskError) in try index.checkpoint(mode) }
    }

    /// Gives some free pages back to the file system; whether there are more.
    ///
    /// The file itself becomes shorter at a checkpoint: the last step makes one.
    private func giveSpaceBack(_ index: DiskIndex, _ writer: DiskWriter) throws(DiskError) -> Bool {
        let limits = writer.disk.limits.withLock { $0 }
        try copyLog(index, limits, writer)
        if index.freePages * index.pageSize > Self.freeBytesKept(index, limits) {
            try index.incrementalVacuum(pages: Self.vacuumPagesPerStep)
            isShrinking = true
            return true
        }
        if isShrinking { try checkpoint(.truncate, index, writer) }
        isShrinking = false
        return false
    }
}
