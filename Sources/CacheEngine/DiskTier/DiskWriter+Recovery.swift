// The disk writer while the disk fails: going on without it, giving the store up, and making a new one.
//
// What crash safety rests on here: the journal's barred flag is set before the first write is acknowledged that neither
// journal nor index have, and cleared only when no row can be older than what was acknowledged. In between, a start
// quarantines the store. Runs on the writer's thread.

import Primitives
import Synchronization

extension DiskWriter {
    /// Lets writes go on without being journalled.
    ///
    /// The flag in the journal's file says so to the next start.
    func closeJournal() {
        setBarred(true)
        disk.isJournalClosed.store(true, ordering: .sequentiallyConsistent)
        // Whoever saw it open has appended when this is done.
        for shard in memory.shards { shard.withLock { _ in } }
        settleWaiters()
    }

    /// Takes writes into the journal again, after the rows of all keys that were written without it are gone.
    ///
    /// Only once the journal is empty: it may hold older writes of those keys.
    func openJournalIfClosed() {
        guard disk.isJournalClosed.load(ordering: .relaxed), disk.journal.usedBytes == 0, let index else { return }
        disk.isJournalClosed.store(false, ordering: .sequentiallyConsistent)
        var barred: [UInt64] = []
        for shard in memory.shards {
            shard.withLock { $0.pending.forEach { if $1.kind == .barred { barred.append($0) } } }
        }
        #if DEBUG
            if SeededBug.isActive(.barredRowsKept) {
                for hash in barred { memory.shard(hash).withLock { $0.pending.remove(hash, upTo: .max) } }
                barred = []
            }
        #endif
        do throws(DiskError) {
            try index.begin()
            var files: [UInt64] = []
            var changes = RowChanges()
            for hash in barred {
                let old = try index.delete(hash: hash, ifGeneration: nil)
                changes.delete(hash, old)
                if let old, old.fileBytes > 0 { files.append(old.generation) }
            }
            try index.commit()
            filters.apply(changes)
            for hash in barred {
                memory.shard(hash).withLock { shard in
                    if shard.pending.find(hash)?.kind == .barred { shard.pending.remove(hash, upTo: .max) }
                }
            }
            setBarred(false)
            removeFiles(files)
        } catch {
            index.rollback()
            disk.isJournalClosed.store(true, ordering: .sequentiallyConsistent)
            handle(error)
        }
    }

    /// Whether the index can be worked with; one that could not be opened again after a failure is tried anew.
    func indexIsReady() -> Bool {
        guard let index else { return false }
        if index.isUsable { return true }
        guard let error = reopenIndex() else { return true }
        note(error)
        return false
    }

    func handle(_ error: DiskError) {
        if disk.waitsForCommit, error.isSyncFailure { return giveUp(error) }
        let reopening = reopenIndex()
        note(reopening.map { $0.kind == .corrupt ? $0 : error } ?? error)
    }

    /// Gives the store up after a failed sync, at durability `always`.
    ///
    /// Nothing tells what is on the device then: what was written reads well and may be gone after a power loss, and
    /// the next sync succeeds without it.
    func giveUp(_ error: DiskError) {
        disk.counters.add(to: .writeErrors)
        disk.report.withLock { $0.lastError = "\(error)" }
        degrade("\(error)")
    }

    /// Counts a failure, after which the index is open, or closed and to be opened again, and decides what follows.
    private func note(_ error: DiskError) {
        disk.counters.add(to: .writeErrors)
        disk.report.withLock { $0.lastError = "\(error)" }
        failures += 1
        let now = memory.clock.now()
        failingSince = min(failingSince, now)
        switch error.kind {
        case .full:
            changeState(.full, "\(error)")
            giveRoom()
            trimmer.makeRoom(self)
            retryAt = now.advanced(byMilliseconds: min(1000, 50 << min(failures, 5)))
        case .corrupt: if index != nil { degrade("\(error)") }
        default:
            if failures >= 3 { return degrade("\(error)") }
            retryAt = now.advanced(byMilliseconds: 100)
        }
    }

    /// After a failure the outcome of the last transaction is unknown: only a new connection tells.
    ///
    /// Returns why there is none. The old one stays then, closed: a full disk can refuse even the opening.
    private func reopenIndex() -> DiskError? {
        guard let old = index else { return nil }
        filters.drop()
        old.close()
        do throws(DiskError) {
            #if DEBUG
                if let fault = disk.injected.withLock({ $0.openFault }) { throw fault }
            #endif
            index = try DiskIndex(directory: disk.directory, options: DiskStart.indexOptions(disk.options))
            return nil
        } catch {
            return error
        }
    }

    /// Gives the store up: the cache is memory only until a new one can be made.
    func degrade(_ reason: String) {
        // First: from the change of state on, writes are acknowledged that the store does not have.
        setBarred(true)
        disk.isGivenUp.store(false, ordering: .sequentiallyConsistent)
        changeState(.degraded, reason)
        index?.close()
        index = nil
        filters.drop()
        // After the change of state, under each shard's lock: no write can be journalled behind this.
        for shard in memory.shards {
            shard.withLock { shard in
                shard.pending.removeAll()
                shard.flights.removeAll()
            }
        }
        disk.callerReads.closeIdle()
        disk.releaseWaiters()
        for job in disk.space.refuseWaiting() { disk.enqueue(job) }
        retryAt = memory.clock.now()
    }

    /// Makes a new store in place of the one that was given up.
    func recoverIfDue() {
        let now = memory.clock.now()
        guard now >= retryAt else { return }
        retryAt = now.advanced(byMilliseconds: 1000)
        if !disk.barHolds.load(ordering: .relaxed) { setBarred(true) }
        do {
            if !isDirectoryInPlace {
                try disk.renewDirectory()
            } else if !hasSuccessor {
                try disk.directory.quarantine("given up while running")
            }
            hasSuccessor = true
            let index = try DiskIndex(
                directory: disk.directory, options: DiskStart.indexOptions(disk.options))
            let files = try disk.directory.valueFiles()
            disk.generations.raise(epoch: disk.directory.epoch)
            disk.store.withLock { store in
                store.number += 1
                store.location = disk.directory.location
                store.files = files
            }
            disk.journal.discardAll()
            disk.space.reset(capacity: trimmer.fileBytesMax(index, self))
            try index.begin()
            index.setSequence(disk.journal.extent.sequence)
            index.setFlush(generation: index.flushGeneration, at: disk.delayedFlush)
            try index.commit()
            self.index = index
            setBarred(false)
            disk.isJournalClosed.store(false, ordering: .sequentiallyConsistent)
            disk.counters.add(to: .quarantines)
            failures = 0
            failingSince = .never
            retryAt = now
            hasSuccessor = false
            cleanup.restart()
            changeState(.ok, "a new, empty store")
            keepDelayedFlush(index)
        } catch {
            disk.report.withLock { $0.lastError = "\(error)" }
            recoveryFailed((error as? DiskError) ?? (error as? StoreError).map { DiskError($0) })
        }
    }

    /// Who asked for a delayed flush before the change of state has not journalled it.
    private func keepDelayedFlush(_ index: DiskIndex) {
        let flush = disk.delayedFlush
        guard index.flushAt != flush else { return }
        do throws(DiskError) {
            try index.begin()
            index.setFlush(generation: index.flushGeneration, at: flush)
            try index.commit()
        } catch {
            index.rollback()
            handle(error)
        }
    }

    /// A successor that is damaged has to be moved aside, too; one without room gets that of former stores.
    private func recoveryFailed(_ error: DiskError?) {
        if error?.kind == .corrupt { hasSuccessor = false }
        guard error?.kind == .full else { return }
        do throws(StoreError) {
            _ = try disk.directory.removeOldStores(keepNewestQuarantine: false, budget: DiskCleanup.namesPerStep)
        } catch {
            disk.counters.add(to: .writeErrors)
        }
    }

    private var isDirectoryInPlace: Bool {
        do throws(StoreError) {
            try disk.directory.checkInPlace()
            return true
        } catch {
            return false
        }
    }

    /// Removes rows that readers found damaged, unless they were replaced meanwhile.
    func removeDamaged(_ rows: [(hash: UInt64, generation: UInt64)]) {
        guard let index, index.isUsable, !rows.isEmpty else { return }
        do throws(DiskError) {
            var files: [UInt64] = []
            var changes = RowChanges()
            try index.begin()
            for row in rows {
                let old = try index.delete(hash: row.hash, ifGeneration: row.generation)
                changes.delete(row.hash, old)
                if let old, old.fileBytes > 0 { files.append(old.generation) }
            }
            try index.commit()
            // What a damaged row held was in the totals; what it holds is not to be trusted.
            index.beginRecount()
            filters.apply(changes)
            removeFiles(files)
        } catch {
            index.rollback()
            handle(error)
        }
    }

    /// Says to the next start whether this store can be believed; at durability `always`, also after a power cut.
    private func setBarred(_ isBarred: Bool) {
        let isDone = disk.journal.setBarred(isBarred, syncs: disk.waitsForCommit)
        if !isDone { disk.counters.add(to: .writeErrors) }
        disk.barHolds.store(isDone || !isBarred, ordering: .releasing)
        // Who gives the store up notes it before he sets the flag, which was just cleared, perhaps.
        if !isBarred, disk.isGivenUp.load(ordering: .sequentiallyConsistent) { setBarred(true) }
    }

    func changeState(_ state: DiskState, _ reason: String) {
        guard disk.state != state else { return }
        disk.setState(state)
        disk.announce(state, reason)
    }
}
