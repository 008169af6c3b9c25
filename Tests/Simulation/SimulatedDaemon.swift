// One process of the daemon without sockets and threads: whoever has it takes the turns of its threads.
//
// The disk writer, the readers and the background thread are the engine's own, with a turn where a thread has a loop. A
// turn may call for files, and so let others run; nobody takes a turn of his own twice at a time.

import Primitives
import SimulatedSystem
import TestSupport

@testable import CacheEngine

/// The daemon between a start and its end.
final class SimulatedDaemon {
    let cache: Cache
    private let service: Service
    private(set) var writer: DiskWriter?
    private var readers: [DiskReader] = []
    private var readsAtHand: [ReadsAtHand] = []
    private var swept: [Int]
    private(set) var isWriting = false
    private var isReading: [Bool]
    private var isTrimming = false
    private var isStopped = false

    init(_ options: CacheOptions, _ clock: ManualClock) throws {
        let (cache, start) = try Cache.assemble(options, clock: clock) { _, _ in }
        self.cache = cache
        var settings = Settings()
        settings.entryBytesMax = options.entryBytesMax
        service = Service(
            cache: cache, settings: settings, log: Log(level: .error) { _ in }, control: try Simulation.control.get())
        swept = Array(repeating: 0, count: cache.memory.shards.count)
        isReading = []
        cache.memory.release.setWake {}
        guard let start, let disk = cache.disk else { return }
        let writer = DiskWriter(disk)
        writer.begin(start.index.value)
        self.writer = writer
        readers = (0..<disk.options.readers).map { _ in DiskReader(disk) }
        isReading = readers.map { _ in false }
        cache.performDueFlush(clock.now())
        disk.injected.withLock { $0.beforeLanding = { Simulation.meet("window") } }
    }

    var readerCount: Int { readers.count }
    /// The time of the store.
    var time: WallTime { cache.memory.storeTime(cache.memory.clock.now()) }
    var report: String { cache.startReport ?? "memory only" }

    /// Whether the store was given up, or something went on without it: entries may be gone.
    var isDoubtful: Bool {
        guard let disk = cache.disk else { return false }
        return disk.state != .ok || disk.isJournalClosed.load(ordering: .relaxed) || disk.startReport.contains("quar")
            || cache.memory.shards.contains { $0.withLock { $0.counters.barredWrites > 0 } }
    }

    /// Whether writes are acknowledged that the disk does not get.
    var isBarred: Bool { cache.disk?.isJournalClosed.load(ordering: .relaxed) ?? false }

    /// Every other client is served by a loop that looks on disk itself.
    func connect(_ number: Int) -> ClientConnection {
        let reads = number % 2 == 0 ? cache.readsAtHand(loops: 1) : nil
        if let reads { readsAtHand.append(reads) }
        return ClientConnection(number, service, reads)
    }

    // MARK: Turns

    func runWriter() {
        guard let writer, !isWriting, !isStopped else { return }
        isWriting = true
        _ = writer.turn(writer.take())
        isWriting = false
    }

    func runReader(_ number: Int) {
        guard let disk = cache.disk, readers.indices.contains(number), !isReading[number] else { return }
        guard let job = disk.jobAtHand() else { return }
        isReading[number] = true
        readers[number].serve(job)
        isReading[number] = false
    }

    func runBackground(isDue: Bool) {
        guard !isTrimming, !isStopped else { return }
        isTrimming = true
        _ = cache.background.fulfil(cache.background.wishes(), cache.memory)
        if isDue { cache.background.trim(cache.memory, &swept) }
        isTrimming = false
    }

    // MARK: The end

    /// What `Cache.close` does, with turns for threads.
    func stop() {
        cache.background.stop()
        _ = cache.background.fulfil(cache.background.wishes(), cache.memory)
        cache.writeOutMemory()
        if let disk = cache.disk, let writer {
            disk.refuseJobs()
            // Nobody else takes this reader's turns meanwhile.
            isReading[0] = true
            while let job = disk.jobAtHand() { readers[0].serve(job) }
            for reader in readers { reader.close() }
            for reads in readsAtHand { reads.close() }
            disk.inbox.update { $0.isStopping = true }
            isWriting = true
            while writer.turn(writer.take()) {}
            writer.close()
            disk.directory.release()
        }
        isStopped = true
    }

    /// Lets everything go after a stop.
    func release() {
        cache.memory.setDemoter(nil)
        cache.disk?.injected.withLock { $0.beforeLanding = nil }
        writer = nil
        readers = []
        readsAtHand = []
    }

    /// The process is dead: its memory is given back, and what it still does to its disk is not seen.
    func abandon() {
        cache.memory.release.setWake(nil)
        if let disk = cache.disk {
            disk.refuseJobs()
            // Jobs hold the tier, which holds them.
            while disk.jobAtHand() != nil {}
            for reader in readers { reader.close() }
            for reads in readsAtHand { reads.close() }
            writer?.index?.close()
            writer?.index = nil
            disk.directory.release()
            _ = disk.inbox.withLock { inbox in
                let waiting = inbox
                inbox = DiskTier.Inbox()
                return waiting
            }
        }
        // What waiters hold is let go of outside the locks, which it may want itself.
        for shard in cache.memory.shards {
            _ = shard.withLock { shard in
                let flights = shard.flights
                shard.flights = [:]
                return flights
            }
        }
        release()
    }
}
