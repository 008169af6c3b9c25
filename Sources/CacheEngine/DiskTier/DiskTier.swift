// The disk tier as the rest of the engine sees it: the journal, the queues of its threads, and its state.
//
// Reads: a few reader threads take jobs from a bounded-by-semaphore queue, each with its own read-only connection.
// Writes: one writer thread drains the journal into the index (`DiskWriter`). Nothing here blocks its caller, except
// `stop`. The state machine:
//
//     ok <-> full        no space: the journal keeps what it can, trims and retries go on
//     ok  -> degraded    the index cannot be trusted or reached: memory only; a new store is tried again and again
//     degraded -> ok     with a new, empty store: what was missed meanwhile cannot be stale
//
// While the tier does not serve, memory is the whole truth: lookups that miss it are misses.

import Glibc
import Primitives
import Synchronization

/// What the disk tier is doing.
public enum DiskState: UInt8, Sendable {
    /// Reading and writing.
    case ok = 0
    /// Reading; writes wait for space.
    case full = 1
    /// Out of use: the cache is memory only.
    case degraded = 2
}

/// The disk side of one cache.
///
/// Thread-safe.
final class DiskTier: Sendable {
    /// What the writer is asked for, besides draining the journal.
    struct Inbox {
        var isAwake = false
        var isUrgent = false
        var isStopping = false
        var barriers: [(sequence: UInt64, waiter: Waiter)] = []
        var roomWaiters: [Waiter] = []
        var doomedFiles: [UInt64] = []
        var damagedRows: [(hash: UInt64, generation: UInt64)] = []
        var requests: [@Sendable (DiskWriter) -> Void] = []
    }

    /// What is replaced as a whole when a store is quarantined.
    struct Store: Sendable {
        var number = 0
        var location: IndexLocation
        var files: ValueFiles
    }

    let options: DiskOptions
    let memory: MemoryTier
    /// For the writer's thread only, from when the cache was opened until that thread ended.
    // SAFETY: written by that thread alone.
    nonisolated(unsafe) private var confinedDirectory: Confined<StoreDirectory>
    var directory: StoreDirectory { unsafe confinedDirectory.value }
    let journal: Journal
    let generations: Generations
    let counters = DiskCounters()
    /// Which entries are written, and when.
    let policy: AdmissionPolicy
    /// Limits that may change at run time.
    let limits: Guarded<DiskLimits>
    /// Guards the writer's inbox.
    ///
    /// The writer waits on it.
    let inbox: Monitor<Inbox>
    /// What the reader threads are to do.
    let jobs = JobQueue()
    /// One for each job that may be under way, on reader threads and on those of callers.
    let permits: Primitives.Semaphore
    let callerReads = CallerReads()
    /// How old snapshots of the index are.
    let commitCount = CommitCount()
    /// Where the rows of the index are likely to be.
    let hints: RowHints
    /// Room for value files.
    let space: FileSpace
    /// Guards which store is in use.
    ///
    /// Rank leaf: read by readers holding nothing else.
    let store: Guarded<Store>
    private let rawState: Atomic<UInt8>
    /// Entries of generations up to this one were flushed.
    private let flushed: Atomic<UInt64>
    /// When a delayed flush falls due, in ms of the store's clock; 0: none.
    ///
    /// For a store that takes the place of one that was given up: the record of the flush went with that.
    private let flushAt = Atomic<Int64>(0)
    /// Set while the journal does not take writes: they are acknowledged without it and their rows barred.
    let isJournalClosed = Atomic<Bool>(false)
    /// Whether every start, at durability `always` also one after a power loss, would see that the store is barred.
    ///
    /// While it would not, nothing may be acknowledged that the store does not have.
    let barHolds = Atomic<Bool>(true)
    /// Whether the writer was asked to give the store up, and has not done so yet: the bar must stay.
    let isGivenUp = Atomic<Bool>(false)
    private let inlineMax: Atomic<Int>
    /// What the hot list takes while the next one is written beside it.
    private let hotBytes = Atomic<Int>(0)
    /// Guards how far the writer's background work is.
    let chores = Guarded(DiskChores(), rank: .leaf)
    /// Guards the writer's last report of sizes and totals.
    let report: Guarded<DiskReport>
    private let threads: Guarded<[OSThread]>
    #if DEBUG
        /// Faults that tests inject.
        struct Injected: Sendable {
            /// What every transaction of journalled writes fails with.
            var commitFault: DiskError?
            /// What every opening of the index after a failure fails with.
            var openFault: DiskError?
            /// What every lookup fails with.
            var readFault: DiskError?
            /// What every value file that is to be made fails with.
            var fileFault: ValueFileError?
            /// Runs on the reader's thread between a lookup and its landing.
            var beforeLanding: (@Sendable () -> Void)?
        }
        let injected = Guarded(Injected(), rank: .leaf)
    #endif

    /// What opening the store found, in words.
    let startReport: String
    private let onState: @Sendable (DiskState, String) -> Void

    init(
        _ start: DiskStart, options: DiskOptions, memory: MemoryTier,
        onState: @escaping @Sendable (DiskState, String) -> Void
    ) {
        self.options = options
        self.onState = onState
        startReport = start.report
        self.memory = memory
        unsafe confinedDirectory = start.confinedDirectory
        generations = start.generations
        permits = Primitives.Semaphore(permits: UInt32(max(1, options.readers)))
        hints = RowHints(bytes: options.indexCacheBytes / 4)
        policy = AdmissionPolicy(options, shards: memory.shards.count)
        let limits = DiskLimits(options)
        self.limits = Guarded(limits, rank: .leaf)
        let index = start.index.value
        space = FileSpace(
            capacity: DiskTrimmer.fileBytesMax(index, limits, otherBytes: start.journal.value.capacity),
            committedBytes: index.totals.fileBytes)
        let inbox = Monitor(Inbox(), rank: .diskQueue)
        self.inbox = inbox
        journal = Journal(start.journal.value) { inbox.update { $0.isAwake = true } }
        store = Guarded(Store(location: start.directory.location, files: start.files), rank: .leaf)
        rawState = Atomic(DiskState.ok.rawValue)
        flushed = Atomic(start.flushGeneration)
        inlineMax = Atomic(0)
        // The first question may come before the writer's thread has begun.
        report = Guarded(DiskReport(index, lastError: nil), rank: .leaf)
        threads = Guarded([], rank: .lifecycle)
        setInlineBytesMax(options.inlineBytesMax)
    }

    /// The directory was made anew.
    func replaceDirectory(_ fresh: StoreDirectory) { unsafe confinedDirectory = Confined(fresh) }

    // MARK: State

    var state: DiskState { DiskState(rawValue: rawState.load(ordering: .acquiring)) ?? .degraded }

    /// Whether rows and journal are to be believed and fed.
    var isServing: Bool { state != .degraded }

    func setState(_ state: DiskState) { rawState.store(state.rawValue, ordering: .releasing) }

    /// Tells the cache's owner about a change of state, once per change.
    func announce(_ state: DiskState, _ reason: String) { onState(state, reason) }

    /// Asks the writer to give the store up: its contents cannot be believed any more.
    ///
    /// The writer, who may wait for the device, brings the flag there where durability asks for it.
    func discardStore(_ reason: String) {
        isGivenUp.store(true, ordering: .sequentiallyConsistent)
        journal.setBarred(true)
        _ = ask { $0.degrade(reason) }
    }

    /// The index of the store with that number reported corruption to a reader.
    ///
    /// Several readers may report the same damage; by then, a new store may be in place.
    func reportCorruption(_ error: DiskError, of number: Int) {
        _ = ask { writer in
            if writer.disk.store.withLock({ $0.number }) == number { writer.degrade("\(error)") }
        }
    }

    var flushGeneration: UInt64 { flushed.load(ordering: .acquiring) }

    func setFlushGeneration(_ generation: UInt64) { flushed.store(generation, ordering: .releasing) }

    var waitsForCommit: Bool {
        #if DEBUG
            if SeededBug.isActive(.commitNotAwaited) { return false }
        #endif
        return options.durability == .always
    }
    /// Bytes to be set aside for the hot list.
    var hotListBytes: Int { hotBytes.load(ordering: .relaxed) }

    /// A hot list of so many bytes was written; whole blocks count, and the next one needs as much beside it.
    func noteHotList(_ bytes: Int) {
        let block = ValueFiles.blockBytes
        hotBytes.store((bytes + block - 1) / block * block * 2, ordering: .relaxed)
    }
    var syncsFiles: Bool { options.durability == .always }
    /// Values up to this size go into the index.
    var inlineBytesMax: Int { inlineMax.load(ordering: .relaxed) }

    /// Sets the limit of `inlineBytesMax`; a record stays a small part of the journal.
    func setInlineBytesMax(_ bytes: Int) {
        inlineMax.store(min(max(0, bytes), journal.capacity / 8), ordering: .relaxed)
    }

    // MARK: Jobs of the reader threads

    /// Hands a job to the reader threads; false if the tier is stopping.
    @discardableResult
    func enqueue(_ job: DiskJob) -> Bool { jobs.add(job) }

    /// Does a job on the calling thread, which may wait, if a permit is free; else the reader threads do it.
    func performHere(_ job: DiskJob) {
        if !callerReads.perform(job, self) { enqueue(job) }
    }

    /// Jobs that wait for a thread.
    var queuedJobs: Int { jobs.count }

    /// The next job, if there is one.
    func jobAtHand() -> DiskJob? { jobs.nextAtHand() }

    // MARK: Requests to the writer

    /// Completes `waiter` when every write journalled so far is durable.
    func commitBarrier(_ waiter: Waiter) {
        let sequence = journal.extent.sequence
        inbox.update { inbox in
            inbox.barriers.append((sequence, waiter))
            inbox.isUrgent = true
        }
    }

    /// When a delayed flush falls due; nil: none is to come.
    ///
    /// Set before it is asked whether the tier serves: either the flush is journalled then, or who makes a new store
    /// sees it afterwards.
    var delayedFlush: WallTime? {
        get {
            let milliseconds = flushAt.load(ordering: .sequentiallyConsistent)
            return milliseconds == 0 ? nil : WallTime(milliseconds: milliseconds)
        }
        set { flushAt.store(newValue?.milliseconds ?? 0, ordering: .sequentiallyConsistent) }
    }

    /// Completes `waiter` when the journal has room again, or has been closed.
    func whenJournalHasRoom(_ waiter: Waiter) {
        inbox.update { inbox in
            inbox.roomWaiters.append(waiter)
            inbox.isUrgent = true
        }
    }

    /// Nothing will be durable, and nobody has to wait for room.
    ///
    /// Called again and again while the tier is degraded: who saw it serve may have come to wait after that.
    func releaseWaiters() {
        failBarriers()
        let room = inbox.withLock { inbox in
            let taken = inbox.roomWaiters
            inbox.roomWaiters = []
            return taken
        }
        for waiter in room { waiter.complete(.retry) }
    }

    /// Tells all who wait for a commit that there is none: what they wrote may become durable later, or not.
    func failBarriers() {
        let barriers = inbox.withLock { inbox in
            let taken = inbox.barriers
            inbox.barriers = []
            return taken
        }
        for barrier in barriers { barrier.waiter.complete(.failed) }
    }

    func removeFile(_ generation: UInt64) { inbox.update { $0.doomedFiles.append(generation) } }

    /// Asks for the removal of a row that failed its checks.
    func reportDamage(hash: UInt64, generation: UInt64) {
        counters.add(to: .readErrors)
        inbox.update { $0.damagedRows.append((hash, generation)) }
    }

    /// Runs `request` on the writer's thread, between batches.
    ///
    /// False if the tier is stopping.
    func ask(_ request: @escaping @Sendable (DiskWriter) -> Void) -> Bool {
        inbox.update { inbox in
            if inbox.isStopping { return false }
            inbox.requests.append(request)
            inbox.isUrgent = true
            return true
        }
    }

    func noteWriteFailure(_ error: ValueFileError) {
        counters.add(to: error == .noRoom ? .fileRefusals : .writeErrors)
    }

    // MARK: Threads

    func start(_ start: DiskStart) {
        let writer = OSThread(name: "disk-writer") { [self] in DiskWriter(self).run(start.index.value) }
        let readers = (0..<max(1, options.readers)).map { number in
            OSThread(name: "disk-reader-\(number)") { [self] in DiskReader(self).run() }
        }
        threads.withLock { $0 = [writer] + readers }
    }

    /// Takes no more jobs.
    func refuseJobs() { jobs.refuse() }

    /// Finishes queued jobs, drains the journal, closes the store cleanly, ends the threads and lets the directory go.
    func stop() {
        let threads = threads.withLock { threads in
            let running = threads
            threads = []
            return running
        }
        guard let writer = threads.first else { return }
        jobs.stop(readers: threads.count - 1)
        for reader in threads.dropFirst() { reader.join() }
        // Nobody is there to do them any more.
        _ = space.refuseWaiting()
        // Reads on callers' threads must be over before the directory is another's.
        callerReads.stop()
        for _ in 0..<max(1, options.readers) { permits.wait() }
        callerReads.closeIdle()
        inbox.update { $0.isStopping = true }
        writer.join()
        directory.release()
    }
}
