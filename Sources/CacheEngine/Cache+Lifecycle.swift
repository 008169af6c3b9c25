// Opening, flushing and closing a cache.

public import Primitives
import Synchronization

extension Cache {
    /// Opens a cache.
    ///
    /// With a disk tier, what an earlier process stored in the directory is served at once.
    ///
    /// - Throws: `CacheError` when an option makes no sense, the directory is in use by another cache, or cannot be
    ///   used.
    ///   Nothing in it was changed then.
    public static func open(
        _ options: CacheOptions, clock: any TimeSource = SystemClock(),
        onDiskState: @escaping @Sendable (DiskState, String) -> Void = { _, _ in }
    ) throws(CacheError) -> Cache {
        let (cache, start) = try assemble(options, clock: clock, onDiskState: onDiskState)
        if let start { cache.disk?.start(start) }
        cache.performDueFlush(clock.now())
        cache.background.start(cache)
        cache.warmUp?.start()
        return cache
    }

    /// A cache that has no threads yet, and what its disk tier's are to begin with.
    static func assemble(
        _ options: CacheOptions, clock: any TimeSource, onDiskState: @escaping @Sendable (DiskState, String) -> Void
    ) throws(CacheError) -> (cache: Cache, start: DiskStart?) {
        if let problem = options.problem { throw .invalidOption(problem) }
        let events = EventLog()
        guard var diskOptions = options.disk else {
            let seed = KernelRandom.word()
            let memory = MemoryTier(options.memory, seed: seed, clock: StoreClock(clock), events: events)
            let cache = Cache(
                options: options, clock: clock, memory: memory, disk: nil, generations: Generations(epoch: 0),
                background: Background(), flushAt: .never)
            return (cache, nil)
        }
        diskOptions.indexCacheBytes = options.memory.indexCacheBytes
        let start = try DiskStart(diskOptions, clock: clock)
        let memory = MemoryTier(
            options.memory, seed: start.directory.hashSeed, clock: start.directory.clock ?? StoreClock(clock),
            events: events)
        let disk = DiskTier(start, options: diskOptions, memory: memory, onState: onDiskState)
        if disk.policy.demotes { memory.setDemoter(Demoter(disk), seenSlots: disk.policy.seenSlots) }
        let flush = start.replay(disk.journal, into: memory, disk.space)
        disk.setFlushGeneration(flush.generation)
        disk.delayedFlush = flush.at
        let cache = Cache(
            options: options, clock: clock, memory: memory, disk: disk, generations: start.generations,
            background: Background(), flushAt: flush.at.map { memory.instant($0) } ?? .never,
            warmUp: diskOptions.warmUp.map { WarmUp($0, disk) })
        return (cache, start)
    }

    /// What opening the disk tier found, in words for the log; nil without a disk tier.
    public var startReport: String? { disk?.startReport }

    /// Empties both tiers at once, or at a later time.
    ///
    /// O(1) in the number of entries: memory is swapped out and freed in the background, rows on disk die by
    /// generation. A new flush replaces one that is still to come.
    public func flushAll(at: Instant? = nil, now: Instant) {
        performDueFlush(now)
        if let at, at > now {
            schedule(at)
        } else {
            flushNow()
        }
    }

    private func schedule(_ at: Instant) {
        flushDue.store(at.milliseconds, ordering: .relaxed)
        disk?.delayedFlush = memory.storeTime(at)
        guard let disk, disk.isServing else { return }
        var header = JournalHeader(kind: .flush)
        header.deadline = memory.storeTime(at).milliseconds
        journalFlush(header, disk)
    }

    private func flushNow() {
        flushDue.store(.max, ordering: .relaxed)
        disk?.delayedFlush = nil
        memory.withAllShards(
            inner: {
                guard let disk, disk.isServing else { return }
                let generation = generations.next()
                disk.setFlushGeneration(generation)
                #if DEBUG
                    if SeededBug.isActive(.flushNotJournalled) { return }
                #endif
                var header = JournalHeader(kind: .flush)
                header.generation = generation
                journalFlush(header, disk)
            },
            each: { shard in
                shard.detachAll()
                shard.pending.removeAll()
                shard.flights.removeAll()
            })
        background.requestRelease()
        memory.events.recordFlush()
    }

    /// A flush must not be lost: while the journal has no room, the store is marked as not to be believed.
    private func journalFlush(_ header: JournalHeader, _ disk: DiskTier) {
        // SAFETY: all three buffers are empty.
        let nothing = unsafe UnsafeRawBufferPointer(start: nil, count: 0)
        if unsafe disk.journal.append(header, key: nothing, extended: nothing, value: nothing) == nil {
            disk.discardStore("a flush did not fit into the journal")
        }
    }

    /// Performs a delayed flush whose time has come.
    @inline(__always)
    func performDueFlush(_ now: Instant) {
        if now.milliseconds >= flushDue.load(ordering: .relaxed) { flushDueNow() }
    }

    private func flushDueNow() {
        let due = flushDue.load(ordering: .relaxed)
        guard due != .max,
            flushDue.compareExchange(expected: due, desired: .max, ordering: .relaxed).exchanged
        else { return }
        flushNow()
    }

    /// Brings everything acknowledged to disk, marks the store as cleanly closed and ends all threads.
    ///
    /// The cache must not be used afterwards. Call exactly once.
    public func close() {
        background.stop()
        warmUp?.stop()
        performDueFlush(clock.now())
        writeOutMemory()
        disk?.stop()
        memory.setDemoter(nil)
    }
}
