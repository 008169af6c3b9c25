// The warm-up: brings back to memory, in the background after a start, what was hot in it before the stop.
//
// A thread of its own reads the hot list, has the listed entries promoted a few at a time, and then writes a new list
// every few minutes; a stop writes the last one. Promotions go the way of all others, through a `Flight` in the key's
// shard, so a write, delete or flush meanwhile wins. They come in behind everything that clients have used, so they
// evict nothing that is wanted now. Reads stand back for clients' reads, and keep to a rate. The list is read and
// written on the disk writer's thread, which has the directory.

import Primitives

/// How memory is warmed after a start.
public struct WarmUpOptions: Sendable, Equatable {
    /// Bytes of entries brought to memory in a second; each lookup counts as 1 KiB at least.
    public var bytesPerSecondMax = 32 << 20
    /// Share of memory's byte limit at which it stops, 0 to 1.
    public var memoryShare = 0.8
    /// Time between two writings of the list, in milliseconds.
    public var saveInterval: Int64 = 300_000

    /// The defaults.
    public init() {}
}

/// How far a warm-up is.
public struct WarmUpProgress: Sendable, Equatable {
    /// What it is doing.
    public enum Stage: String, Sendable, CaseIterable {
        /// Entries are being brought to memory.
        case loading
        /// All of the list was looked up, or memory holds its share.
        case done
        /// The cache was closed, or the disk tier went out of use, before that.
        case stopped
    }

    /// What it is doing.
    public var stage = Stage.loading
    /// Entries of the list.
    public var listed = 0
    /// Of those, how many were looked up.
    public var looked = 0
    /// Of those, how many are in memory because of it.
    public var loaded = 0
    /// Bytes of memory that those took.
    public var loadedBytes = 0
    /// How long it took, or takes up to now, in milliseconds.
    public var milliseconds: Int64 = 0
    /// Lists written since the start.
    public var saves = 0
    /// Lists that could not be written.
    public var saveErrors = 0
}

/// Owns the thread.
///
/// Thread-safe.
final class WarmUp: Sendable {
    /// Lookups that one job of a reader makes, at most, and bytes that it brings.
    private static let batchEntries = 32
    private static let batchBytes = 256 << 10
    /// What a lookup costs at least, in bytes of the rate.
    private static let lookupBytes = 1024
    /// How long a batch stands back for clients' reads, in ms.
    private static let patience: Int64 = 100

    private let options: WarmUpOptions
    private let disk: DiskTier
    private var memory: MemoryTier { disk.memory }
    private let stopping = Monitor(false, rank: .diskQueue)
    private let thread: Guarded<OSThread?> = Guarded(nil, rank: .lifecycle)
    /// Guards what anybody may ask for.
    private let state = Guarded(WarmUpProgress(), rank: .leaf)
    /// Of the list, what was not looked up.
    private let rest = Guarded<[UInt64]>([], rank: .leaf)

    init(_ options: WarmUpOptions, _ disk: DiskTier) {
        self.options = options
        self.disk = disk
    }

    /// How far it is.
    var progress: WarmUpProgress { state.withLock { $0 } }

    func start() {
        let thread = OSThread(name: "warm-up") { [self] in run() }
        self.thread.withLock { $0 = thread }
    }

    /// Ends the thread and writes the list.
    ///
    /// Before the disk tier stops.
    func stop() {
        stopping.update { $0 = true }
        let thread = thread.withLock { thread in
            let running = thread
            thread = nil
            return running
        }
        thread?.join()
        save()
    }

    private func run() {
        load()
        while !isStopping(within: options.saveInterval) { save() }
    }

    /// Waits for so many ms; true as soon as the cache is being closed.
    private func isStopping(within milliseconds: Int64) -> Bool {
        stopping.wait(milliseconds: milliseconds) { $0 ? true : nil } ?? false
    }

    // MARK: Loading

    private func load() {
        let began = SystemClock().now()
        let hashes = (onWriter { HotList.read(from: $0.disk.directory.root)?.hashes } ?? nil) ?? []
        state.withLock { $0.listed = hashes.count }
        var pace = Pace(bytesPerSecond: options.bytesPerSecondMax)
        var next = 0
        while next < hashes.count, !isFull {
            guard disk.isServing, !isStopping(within: pace.wait), !standsBack() else {
                return end(.stopped, hashes[next...])
            }
            let outcome = promote(Array(hashes[next..<min(next + Self.batchEntries, hashes.count)]))
            next += outcome.looked
            pace.spend(outcome.bytes + outcome.looked * Self.lookupBytes)
            let milliseconds = SystemClock().now().milliseconds - began.milliseconds
            state.withLock { progress in
                progress.looked = next
                progress.loaded += outcome.loaded
                progress.loadedBytes += outcome.bytes
                progress.milliseconds = milliseconds
            }
        }
        end(.done, [])
    }

    private func end(_ stage: WarmUpProgress.Stage, _ left: ArraySlice<UInt64>) {
        rest.withLock { $0 = Array(left) }
        state.withLock { $0.stage = stage }
    }

    /// Whether memory holds its share.
    private var isFull: Bool {
        let limits = memory.limits
        var entries = 0
        var bytes = 0
        for shard in memory.shards {
            shard.withLock { shard in
                entries += shard.entries
                bytes += shard.bytes
            }
        }
        let share = { (limit: Int) in Int(Double(limit) * self.options.memoryShare) }
        return bytes >= limits.bytesMax.map(share) ?? .max || entries >= limits.entriesMax.map(share) ?? .max
    }

    /// Lets clients' reads go first, for a while; true if the cache is being closed.
    private func standsBack() -> Bool {
        var waited: Int64 = 0
        while disk.queuedJobs > 0, waited < Self.patience {
            if isStopping(within: 2) { return true }
            waited += 2
        }
        return false
    }

    /// What came of one batch.
    struct Outcome: Sendable {
        var looked = 0
        var loaded = 0
        var bytes = 0
    }

    /// Promotes entries, on this thread if a reader's permit is free, else on a reader thread.
    func promote(_ hashes: [UInt64]) -> Outcome {
        let answer = Answer(Outcome())
        let isDone = Primitives.Semaphore()
        disk.performHere(
            .run { [self] reader in
                answer.value = promote(hashes, reader)
                isDone.signal()
            })
        isDone.wait()
        return answer.value
    }

    private func promote(_ hashes: [UInt64], _ reader: DiskReader) -> Outcome {
        var outcome = Outcome()
        for hash in hashes where outcome.bytes < Self.batchBytes {
            outcome.looked += 1
            guard let key = key(hash, reader) else { continue }
            let flight = Flight(hash: hash, key: key.span, isWarming: true)
            // SAFETY: the closures run under the shard's lock; the key outlives the lookups, which keep no pointer.
            let isWanted = memory.shard(hash).withLock { shard in
                let isKnown = unsafe key.withUnsafeBytes { unsafe shard.table.find(hash, $0) } != nil
                // What the journal has comes to memory without the disk, and a lookup under way is somebody's already.
                guard !isKnown, shard.pending.find(hash) == nil, shard.flights[hash] == nil else { return false }
                shard.flights[hash] = flight
                return true
            }
            guard isWanted else { continue }
            reader.perform(.lookUp(flight))
            let bytes = memory.shard(hash).withLock { shard in
                unsafe key.withUnsafeBytes { unsafe shard.table.find(hash, $0)?.accountedBytes }
            }
            guard let bytes else { continue }
            outcome.loaded += 1
            outcome.bytes += bytes
        }
        return outcome
    }

    /// The key of a row whose value is to be in memory; nil if there is none.
    private func key(_ hash: UInt64, _ reader: DiskReader) -> [UInt8]? {
        guard disk.isServing, let index = reader.currentIndex() else { return nil }
        do throws(DiskError) {
            guard let row = try index.key(hash: hash), row.valueBytes <= memory.valueBytesMax else { return nil }
            // SAFETY: hashing reads the key during the call only.
            return unsafe row.key.withUnsafeBytes { unsafe memory.hash($0) } == hash ? row.key : nil
        } catch {
            disk.counters.add(to: .readErrors)
            if error.kind == .corrupt { disk.reportCorruption(error, of: reader.store.number) }
            return nil
        }
    }

    // MARK: Saving

    /// Writes a list of what is hot in memory; behind that, what is still to be looked up.
    func save() {
        guard disk.isServing else { return }
        let diskBytes = disk.limits.withLock { $0.bytesMax }
        let limit = HotList.limit(memoryBytes: memory.limits.bytesMax, diskBytes: diskBytes)
        var hashes = HotSurvey.hottest(memory, limit: limit)
        let left = rest.withLock { $0 }
        if !left.isEmpty {
            let known = Set(hashes)
            hashes += left.filter { !known.contains($0) }.prefix(limit - hashes.count)
        }
        let list = HotList(hashes: hashes)
        let isWritten = onWriter { writer in
            do throws(StoreError) {
                try list.write(to: writer.disk.directory.root)
                return true
            } catch {
                return false
            }
        }
        guard let isWritten else { return }
        if isWritten {
            let bytes = HotList.fileBytes(entries: hashes.count)
            disk.counters.add(bytes, to: .deviceBytes)
            disk.noteHotList(bytes)
        }
        state.withLock { progress in
            if isWritten { progress.saves += 1 } else { progress.saveErrors += 1 }
        }
    }

    /// Runs `body` on the disk writer's thread and waits; nil if the tier is stopping.
    private func onWriter<Result: Sendable>(_ body: @escaping @Sendable (DiskWriter) -> Result) -> Result? {
        let answer = Answer<Result?>(nil)
        let isDone = Primitives.Semaphore()
        let isAccepted = disk.ask { writer in
            answer.value = body(writer)
            isDone.signal()
        }
        guard isAccepted else { return nil }
        isDone.wait()
        return answer.value
    }
}

/// Keeps to a rate: says how long to wait before more is spent.
private struct Pace {
    private let bytesPerSecond: Double
    /// When more may be spent, in ms of the boot clock.
    private var due = Double(SystemClock().now().milliseconds)

    init(bytesPerSecond: Int) { self.bytesPerSecond = Double(max(1, bytesPerSecond)) }

    /// Milliseconds to wait; below 2 it is not worth a sleep.
    var wait: Int64 {
        let milliseconds = Int64(due) - SystemClock().now().milliseconds
        return milliseconds < 2 ? 0 : min(milliseconds, 10_000)
    }

    /// Takes note of `bytes`; time that was not used is saved for a twentieth of a second.
    mutating func spend(_ bytes: Int) {
        let now = Double(SystemClock().now().milliseconds)
        due = max(due, now - 50) + Double(bytes) * 1000 / bytesPerSecond
    }
}
