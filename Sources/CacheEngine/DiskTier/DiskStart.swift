// Opening the disk tier: directory, store, index, journal, in the order that reliability asks for.
//
// Runs on the thread that makes the cache, before any other thread exists. What it finds damaged is quarantined by
// `StoreDirectory`; what it cannot use is an error. The journal's tail is not brought into the index here: it becomes
// pending writes, which the writer drains later, so that start takes the same time for a full journal as for an empty
// one.

import Glibc
import Hashing
import Primitives

/// A store that is ready to serve.
final class DiskStart: Sendable {
    /// For the opening thread, then for the writer's alone.
    let confinedDirectory: Confined<StoreDirectory>
    /// What was found, in words for the log.
    let report: String
    let generations: Generations
    let files: ValueFiles
    let flushGeneration: UInt64
    let flushAt: WallTime?
    /// For `Journal`, which takes it over.
    let journal: Confined<JournalFile>
    /// For the writer's thread.
    let index: Confined<DiskIndex>
    var directory: StoreDirectory { confinedDirectory.value }

    init(_ options: DiskOptions, clock: any TimeSource) throws(CacheError) {
        let path = options.directory
        do {
            let directory = try StoreDirectory.open(path: path)
            let verdict = try directory.start(
                policy: options.afterPowerLoss == .keep ? .keep : .discard,
                durability: Self.durability(options), bootID: Self.bootID, clock: clock)
            var report = Self.report(verdict)
            var store = try Self.openStore(directory, options)
            if let damage = store.damage { report = Self.report(.quarantined(damage)) }
            let place = JournalPlace(directory, options)
            var found = try Self.findJournal(place, verdict, store.index)
            if let doubt = Self.doubt(found, verdict, store.index) {
                Self.letGo(of: &found)
                store = try Self.replaceStore(store.index, directory, options, doubt)
                report = Self.report(.quarantined(doubt))
            }
            let journal = try Self.journal(found, place, options, store.index)
            #if DEBUG
                if let bug = SeededBug.active { report += ", seeded bug \(bug.rawValue)" }
            #endif
            self.report = report
            self.journal = Confined(journal)
            index = Confined(store.index)
            confinedDirectory = Confined(directory)
            files = store.files
        } catch let error as StoreError {
            throw Self.cacheError(error, path)
        } catch let error as JournalFile.Failure {
            throw .unusableDirectory(
                directory: path, reason: "journal: \(error.operation): \(systemErrorText(error.errno))")
        } catch {
            throw .unusableDirectory(directory: path, reason: "\(error)")
        }
        #if DEBUG
            let isRepeated = SeededBug.isActive(.epochRepeated)
            generations = Generations(epoch: isRepeated ? 1 : confinedDirectory.value.epoch)
        #else
            generations = Generations(epoch: confinedDirectory.value.epoch)
        #endif
        flushGeneration = index.value.flushGeneration
        flushAt = index.value.flushAt
    }

    /// What is in the journal's place; nil where it has nothing to say about the store.
    private static func findJournal(
        _ place: JournalPlace, _ verdict: StartVerdict, _ index: DiskIndex
    ) throws -> JournalFile.Found? {
        #if DEBUG
            if SeededBug.active == .ackBeforeCommit { return nil }
        #endif
        return verdict.journalIsValid ? try place.find(indexSequence: index.sequence) : nil
    }

    /// Why the store cannot be believed, as its journal is; nil if it can.
    private static func doubt(_ found: JournalFile.Found?, _ verdict: StartVerdict, _ index: DiskIndex) -> String? {
        #if DEBUG
            if SeededBug.isActive(.barIgnored) { return nil }
        #endif
        guard let found else { return nil }
        if found.isBarred { return "stopped while writes could not reach the disk" }
        // After a clean stop the index has everything.
        guard case .lost = found, verdict == .resumed(afterCrash: true), index.totals.entries > 0 else { return nil }
        return "the journal is lost, and with it what had not reached the index"
    }

    private static func letGo(of found: inout JournalFile.Found?) {
        if case .whole(let file) = found { file.unmap() }
        found = nil
    }

    /// The journal that was found, or a new one.
    ///
    /// One of another size than is asked for is drained first; the new size comes with a start that finds it empty.
    private static func journal(
        _ found: JournalFile.Found?, _ place: JournalPlace, _ options: DiskOptions, _ index: DiskIndex
    ) throws -> JournalFile {
        let capacity = journalCapacity(options)
        if case .whole(let file) = found {
            if file.head != file.tail || file.capacity == capacity { return file }
            file.unmap()
        }
        return try place.makeNew(capacity: capacity, sequence: index.sequence)
    }

    static func report(_ verdict: StartVerdict) -> String {
        switch verdict {
        case .fresh: "new store"
        case .resumed(afterCrash: false): "resumed after a clean stop"
        case .resumed(afterCrash: true): "resumed after an unclean stop"
        case .quarantined(let reason): "store quarantined, started empty: \(reason)"
        case .discarded(let reason): "store discarded, started empty: \(reason)"
        }
    }

    /// Opens index and value files; a store that turns out to be corrupt is quarantined and replaced once, and `damage`
    /// says why.
    private static func openStore(
        _ directory: StoreDirectory, _ options: DiskOptions
    ) throws -> (index: DiskIndex, files: ValueFiles, damage: String?) {
        do {
            return try (DiskIndex(directory: directory, options: indexOptions(options)), directory.valueFiles(), nil)
        } catch let error as DiskError where error.kind == .corrupt {
            let damage = "\(error)"
            try directory.quarantine(damage)
            return try (DiskIndex(directory: directory, options: indexOptions(options)), directory.valueFiles(), damage)
        }
    }

    /// Gives the store up for an empty one, which is to perform the flush that the former was to perform.
    private static func replaceStore(
        _ former: DiskIndex, _ directory: StoreDirectory, _ options: DiskOptions, _ doubt: String
    ) throws -> (index: DiskIndex, files: ValueFiles, damage: String?) {
        let flushAt = former.flushAt
        former.close()
        try directory.quarantine(doubt)
        let store = try openStore(directory, options)
        if flushAt != nil {
            try store.index.begin()
            store.index.setFlush(generation: store.index.flushGeneration, at: flushAt)
            try store.index.commit()
        }
        return store
    }

    /// The journal's size: at most an eighth of the tier, at least 1 MiB, whole pages.
    private static func journalCapacity(_ options: DiskOptions) -> Int {
        #if DEBUG
            // The simulation's journals are so small that they are full all the time.
            if (4096..<1 << 20).contains(options.journalBytes) { return options.journalBytes & ~4095 }
        #endif
        return max(1 << 20, min(options.journalBytes, options.bytesMax / 8)) & ~4095
    }

    static func indexOptions(_ options: DiskOptions) -> IndexOptions {
        var index = IndexOptions()
        index.cacheBytes = options.indexCacheBytes
        switch options.durability {
        case .none: index.synchronous = .off
        case .process: index.synchronous = options.afterPowerLoss == .keep ? .normal : .off
        case .always: index.synchronous = .full
        }
        return index
    }

    static func durability(_ options: DiskOptions) -> StoreDurability {
        switch options.durability {
        case .none: .none
        case .process: .process
        case .always: .always
        }
    }

    private static func cacheError(_ error: StoreError, _ path: String) -> CacheError {
        if case .heldBy(let pid) = error { return .directoryInUse(directory: path, pid: pid) }
        return .unusableDirectory(directory: path, reason: "\(error)")
    }

    /// This boot of the machine; empty where it cannot be told, which equals no other: then no crash is told from a
    /// power loss.
    static var bootID: String { bootID(at: "/proc/sys/kernel/random/boot_id") }

    /// The boot id in the file at `path`, see random(4); empty if it cannot be read.
    static func bootID(at path: String) -> String {
        // SAFETY: open(2) and read(2) use the path and the local array during the call, no further than its size.
        let file = unsafe open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return "" }
        defer { close(file) }
        var bytes = [UInt8](repeating: 0, count: 64)
        let count = unsafe read(file, &bytes, bytes.count)
        guard count > 0 else { return "" }
        return String(decoding: bytes[..<count].filter { $0 > 32 }, as: UTF8.self)
    }

    static var bootHash: UInt64 {
        var text = bootID
        // SAFETY: xxh3 reads the buffer's own bytes and keeps nothing.
        return text.withUTF8 { unsafe xxh3(UnsafeRawBufferPointer($0), seed: 0) }
    }

    /// Turns the journal's tail into pending writes, whose files take up `space`.
    ///
    /// Call before the cache is used.
    ///
    /// - Returns: the flush point that the journal's tail asks for, if it has one newer than the index.
    func replay(
        _ journal: Journal, into memory: MemoryTier, _ space: FileSpace
    ) -> (generation: UInt64, at: WallTime?) {
        var flush = (generation: flushGeneration, at: flushAt)
        let (tail, head, _) = journal.extent
        var position = tail
        while position < head {
            position = journal.normalized(position)
            if position >= head { break }
            let record = journal.record(at: position)
            let header = record.header
            switch record.kind {
            case .flush:
                if header.generation > flush.generation {
                    flush.generation = header.generation
                    for shard in memory.shards { shard.withLock { $0.pending.removeAll() } }
                }
                let at = WallTime(milliseconds: header.deadline)
                flush.at = at == .never ? nil : at
            case .some(let kind):
                if kind == .fileEntry { space.hold(header.generation, bytes: Int(header.fileKiB) << 10) }
                let write = PendingWrite(
                    kind: PendingWrite.Kind(kind), sequence: header.sequence, position: position)
                memory.shard(header.hash).withLock { $0.pending.put(header.hash, write) }
            case nil:
                invariant(false, "recovery let an unknown journal record pass")
            }
            position += UInt64(header.recordBytes)
        }
        return flush
    }
}

extension PendingWrite.Kind {
    /// How lookups take a journalled record of this kind.
    init(_ kind: JournalHeader.Kind) {
        switch kind {
        case .inlineEntry, .fileEntry: self = .entry
        case .deletion, .flush: self = .deletion
        case .touch: self = .touch
        }
    }
}
