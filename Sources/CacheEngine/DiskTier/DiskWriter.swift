// The disk writer: the one thread that commits and checkpoints.
//
// Its loop: wait for work, bring one batch of journal records into the index in one transaction, forget them (pending
// tables, journal tail), remove the files that they replaced, then do one slice of trimming. The order within a batch
// is what crash safety rests on:
//
//     rows commit -> pending writes are forgotten -> journal's tail moves -> replaced files are unlinked -> barriers
//
// A kill between any two steps leaves work done twice, or an orphaned file, never a lost or an old value. Of several
// records of one key only the newest is applied: a newer record always says everything about its key.

import Primitives
import Synchronization

/// Confined to its thread.
final class DiskWriter {
    let disk: DiskTier
    var memory: MemoryTier { disk.memory }
    /// nil while the tier is degraded.
    var index: DiskIndex? {
        didSet {
            index?.commitCount = disk.commitCount
            index?.hints = disk.hints
        }
    }
    let trimmer = DiskTrimmer()
    let cleanup: DiskCleanup
    let filters: FilterKeeper
    var failures = 0
    /// Since when commits have failed; stands still until one succeeds.
    var failingSince = Instant.never
    /// When, on the boot clock, a failed commit may be tried again.
    var retryAt = Instant(milliseconds: 0)
    private var nextTrim = Instant(milliseconds: 0)
    /// Since when the journal has been without room for somebody.
    private var roomMissingSince: Instant?
    /// Whether the store that was given up has been moved aside, and its successor is there, if only in part.
    var hasSuccessor = false

    /// How long a batch may gather before it is committed, in ms.
    ///
    /// Longer batches cost less per write, and leave out more that is overwritten soon. In steps, because nobody tells
    /// how much there is.
    private static let gatherStep: Int64 = 10
    private static let gatherSteps = 25
    /// A batch with this much in it is not kept waiting.
    private static let gatherBytesMax = 16 << 20
    /// How long a client waits for room in the journal before its write goes on without the disk, and for a commit that
    /// fails before it is told so, in ms.
    private static let patience: Int64 = 2000

    init(_ disk: DiskTier) {
        self.disk = disk
        filters = FilterKeeper(disk.memory)
        cleanup = DiskCleanup(replayedUpTo: disk.journal.extent.sequence)
    }

    func run(_ index: DiskIndex) {
        begin(index)
        while turn(wait()) {}
        close()
    }

    // The parts of `run`, for whoever is in the thread's place: the simulation takes a turn whenever it likes, as a
    // thread may at any time after a wait that timed out.

    func begin(_ index: DiskIndex) {
        self.index = index
        if index.flushGeneration > 0 { trimmer.beginFlushSweep() }
    }

    /// One turn of the loop, with what was taken out of the inbox; false when there is to be no other.
    func turn(_ inbox: DiskTier.Inbox) -> Bool {
        perform(inbox)
        serveJournal(inbox)
        if inbox.isStopping, isDrained { return false }
        housekeep()
        return true
    }

    // MARK: Waiting

    private var trimInterval: Int64 { disk.limits.withLock { $0.trimInterval } }

    private func wait() -> DiskTier.Inbox {
        let isBusy = disk.journal.usedBytes > 0
        let isAwaited = disk.space.hasWaiting
        if isBusy && memory.clock.now() >= retryAt {
            // Something is there: gather a little more, unless somebody waits.
            if !isAwaited { gather() }
            return take()
        }
        if !isBusy && !disk.journal.declareIdle() { return take() }
        let isCounting = index?.isRecounting ?? false
        let hasWork = trimmer.hasMore || cleanup.hasMore || filters.hasMore || isCounting
        let hasChores = isAwaited || index != nil && hasWork
        let timeout = hasChores ? 1 : (isBusy ? 100 : min(trimInterval, 1000))
        _ = disk.inbox.wait(milliseconds: timeout) { inbox in
            inbox.isAwake || inbox.isUrgent || inbox.isStopping || !inbox.doomedFiles.isEmpty ? () : nil
        }
        return take()
    }

    private func gather() {
        let enough = min(Self.gatherBytesMax, disk.journal.capacity / 4)
        for _ in 0..<Self.gatherSteps where disk.journal.usedBytes < enough {
            let step = disk.inbox.wait(milliseconds: Self.gatherStep) { $0.isUrgent || $0.isStopping ? true : nil }
            if step == true { return }
        }
    }

    /// Takes everything out of the inbox but the wish to stop and the waiters whose time has not come.
    func take() -> DiskTier.Inbox {
        disk.inbox.withLock { inbox in
            let taken = inbox
            inbox.isAwake = false
            inbox.isUrgent = false
            inbox.doomedFiles = []
            inbox.damagedRows = []
            inbox.requests = []
            return taken
        }
    }

    private var isDrained: Bool { disk.journal.usedBytes == 0 || index == nil || memory.clock.now() < retryAt }

    // MARK: The journal

    private func serveJournal(_ inbox: DiskTier.Inbox) {
        if index == nil {
            disk.releaseWaiters()
            return recoverIfDue()
        }
        if memory.clock.now() >= retryAt, indexIsReady() { drain(inbox) }
        settleWaiters()
    }

    private func drain(_ inbox: DiskTier.Inbox) {
        let end = disk.journal.extent.head
        while let batch = JournalBatch(disk.journal, upTo: end) {
            if batch.isDamaged { return degrade("a record of the journal is damaged") }
            do throws(DiskError) {
                try commit(batch)
            } catch {
                return handle(error)
            }
            failures = 0
            failingSince = .never
            if disk.state == .full { changeState(.ok, "space") }
            settleWaiters()
            trimmer.step(self)
            // The trim may have found that the store cannot be trusted.
            if index == nil { return }
            giveRoom()
        }
        openJournalIfClosed()
    }

    private func commit(_ batch: JournalBatch) throws(DiskError) {
        guard let index else { return }
        var replaced: [UInt64] = batch.supersededFiles
        var changes = RowChanges()
        var writtenBytes = 0
        var files: [UInt64] = []
        #if DEBUG
            if SeededBug.isActive(.tailBeforeCommit) || SeededBug.isActive(.forgottenBeforeCommit) {
                if SeededBug.isActive(.tailBeforeCommit) {
                    disk.journal.advance(to: batch.end, sequence: batch.sequence)
                }
                forgetPending(batch)
                SeededBug.wait()
            }
        #endif
        do throws(DiskError) {
            try index.begin()
            #if DEBUG
                if let fault = disk.injected.withLock({ $0.commitFault }) { throw fault }
            #endif
            index.accessSlack = disk.limits.withLock { RecencyRule.rewriteSlack($0) }
            var passage = JournalPassage(disk.journal, from: batch.positions.first ?? 0)
            for position in batch.positions {
                passage.reach(position)
                let record = disk.journal.record(at: position)
                if record.kind == .inlineEntry || record.kind == .fileEntry {
                    writtenBytes += Int(record.header.valueBytes)
                }
                if record.kind == .fileEntry { files.append(record.header.generation) }
                if let old = try apply(record, to: index, &changes) { replaced.append(old) }
            }
            if let flush = batch.flush { applyFlush(flush, to: index) }
            index.setSequence(batch.sequence)
            try tellRecency(index)
            try index.commit()
        } catch {
            index.rollback()
            throw error
        }
        filters.apply(changes)
        forget(batch)
        removeFiles(replaced)
        disk.space.settle(files, committedBytes: index.totals.fileBytes)
        disk.counters.add(to: .commits)
        disk.counters.add(writtenBytes, to: .writtenBytes)
        disk.counters.add(batch.recordCount, to: .committedWrites)
        disk.counters.add(batch.recordCount - batch.positions.count, to: .coalescedWrites)
        publishReport()
    }

    /// Brings one record into the index; returns the generation of a file that it replaced.
    private func apply(
        _ record: JournalRecord, to index: DiskIndex, _ changes: inout RowChanges
    ) throws(DiskError) -> UInt64? {
        let header = record.header
        // SAFETY: the record is not before the journal's tail, which only this thread moves, after the batch; the index
        // keeps no pointer.
        let key = unsafe Span<UInt8>(_unsafeBytes: record.key)
        let metadata = EntryMetadata(header)
        // Most of what comes and goes has no row: nothing needs to be looked for then.
        let isNew = !memory.shard(header.hash).withLock { $0.mayBeOnDisk(header.hash) }
        var old: Replaced?
        switch record.kind {
        case .inlineEntry:
            old = try unsafe index.putInline(
                hash: header.hash, key: key, metadata: metadata, extended: Span(_unsafeBytes: record.extended),
                value: Span(_unsafeBytes: record.value), isNew: isNew)
            changes.put(header.hash, insteadOf: old)
        case .fileEntry:
            old = try unsafe index.putFile(
                hash: header.hash, key: key, metadata: metadata, extended: Span(_unsafeBytes: record.extended),
                fileBytes: Int(header.fileKiB) << 10, isNew: isNew)
            changes.put(header.hash, insteadOf: old)
        case .deletion:
            if isNew { return nil }
            old = try index.delete(hash: header.hash, key: key)
            changes.delete(header.hash, old)
        case .touch:
            #if DEBUG
                if SeededBug.isActive(.touchNotCommitted) { return nil }
            #endif
            if isNew { return nil }
            _ = try index.touch(
                hash: header.hash, key: key, deadline: metadata.deadline, marks: metadata.marks, cas: metadata.cas,
                accessed: metadata.written)
        case .flush, nil:
            invariant(false, "a flush is not applied as a row")
        }
        guard let old, old.fileBytes > 0, old.generation != header.generation else { return nil }
        return old.generation
    }

    private func applyFlush(_ flush: JournalBatch.Flush, to index: DiskIndex) {
        #if DEBUG
            if SeededBug.isActive(.flushNotCommitted) { return }
        #endif
        index.setFlush(generation: max(flush.generation, index.flushGeneration), at: flush.at)
        trimmer.beginFlushSweep()
    }

    /// The batch is in the index: lookups need not ask the journal for it any more, and its room is free.
    private func forget(_ batch: JournalBatch) {
        do throws(StoreError) {
            try disk.directory.writeAnchor(sequence: batch.sequence, clean: false, sync: disk.waitsForCommit)
        } catch {
            disk.counters.add(to: .writeErrors)
        }
        forgetPending(batch)
        disk.journal.advance(to: batch.end, sequence: batch.sequence)
    }

    /// Lookups need not ask the journal for the batch's writes any more.
    private func forgetPending(_ batch: JournalBatch) {
        for hash in batch.hashes {
            memory.shard(hash).withLock { shard in
                // A lookup under way may have read the row before the touch, and would not find the touch any more.
                if shard.pending.find(hash)?.kind == .touch { shard.flights[hash] = nil }
                shard.pending.remove(hash, upTo: batch.sequence)
            }
        }
    }

    /// Completes barriers whose writes are durable, and lets those go on who waited for room.
    ///
    /// A quarter of the journal is room for any entry, and a few batches away: who waited for more would wait for a
    /// second of a busy writer's work.
    func settleWaiters() {
        let (tail, head, _) = disk.journal.extent
        let committed = index?.sequence ?? 0
        let isClosed = disk.isJournalClosed.load(ordering: .relaxed)
        let hasRoom = isClosed || Int(head - tail) <= disk.journal.capacity / 4 * 3
        let now = memory.clock.now()
        let (ready, goes, waits): ([Waiter], [Waiter], Bool) = disk.inbox.withLock { inbox in
            let ready = inbox.barriers.filter { $0.sequence <= committed }.map(\.waiter)
            inbox.barriers.removeAll { $0.sequence <= committed }
            let goes = hasRoom ? inbox.roomWaiters : []
            if hasRoom { inbox.roomWaiters = [] }
            return (ready, goes, !inbox.roomWaiters.isEmpty)
        }
        // With the journal closed, a write is safe if the bar is: its own sequence says nothing.
        let isSafe = disk.barHolds.load(ordering: .relaxed)
        for waiter in ready { waiter.complete(isSafe ? .retry : .failed) }
        for waiter in goes { waiter.complete(.retry) }
        if now >= failingSince.advanced(byMilliseconds: Self.patience) { disk.failBarriers() }
        if !waits {
            roomMissingSince = nil
        } else if let since = roomMissingSince {
            if now >= since.advanced(byMilliseconds: Self.patience) { closeJournal() }
        } else {
            roomMissingSince = now
        }
    }

    // MARK: Between batches

    private func perform(_ inbox: DiskTier.Inbox) {
        removeFiles(inbox.doomedFiles)
        removeDamaged(inbox.damagedRows)
        for request in inbox.requests { request(self) }
    }

    private func housekeep() {
        let now = memory.clock.now()
        if disk.space.hasWaiting { giveRoom() }
        guard let index, index.isUsable else { return }
        do throws(DiskError) {
            try filters.step(index)
            try index.recountStep(limit: DiskTrimmer.walkRows)
        } catch {
            return handle(error)
        }
        cleanup.step(self)
        guard now >= nextTrim || trimmer.hasMore || disk.space.hasWaiting else { return }
        if now >= nextTrim { checkDirectory() }
        nextTrim = now.advanced(byMilliseconds: trimInterval)
        trimmer.step(self)
        publishReport()
        giveRoom()
    }

    /// Tells what value files may take by now, and lets those go on who have waited for that.
    func giveRoom() {
        if let index, index.isUsable {
            // What room a full file system has belongs to the index.
            let capacity = disk.state == .full ? 0 : trimmer.fileBytesMax(index, self)
            disk.space.update(capacity: capacity, committedBytes: index.totals.fileBytes)
        }
        for job in disk.space.takeReady(now: memory.clock.now()) { disk.enqueue(job) }
    }

    /// The directory may have been removed, renamed or unmounted under us.
    private func checkDirectory() {
        do throws(StoreError) { try disk.directory.checkIntact() } catch { degrade("\(error)") }
    }

    func publishReport() {
        guard let index else { return }
        disk.counters.add(index.takeWrittenBytes(), to: .deviceBytes)
        var news = DiskReport(index, lastError: nil)
        news.underWayBytes = disk.space.underWayBytes
        disk.report.withLock { report in
            news.lastError = report.lastError
            report = news
        }
    }

    func close() {
        guard let index else { return }
        for shard in memory.shards { shard.withLock { $0.noteAccessesOfNewest() } }
        do {
            try index.begin()
            try tellRecency(index)
            try index.commit()
            try index.sync()
            let isClean = disk.journal.usedBytes == 0 && !disk.isJournalClosed.load(ordering: .relaxed)
            let sequence = index.sequence
            index.close()
            try disk.directory.writeAnchor(sequence: sequence, clean: isClean, sync: true)
        } catch {
            index.close()
        }
    }
}
