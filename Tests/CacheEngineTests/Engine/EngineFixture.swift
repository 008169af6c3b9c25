// A cache in a directory of its own, under a clock that the test moves, and what tests want to know about its inside.

import Foundation
import Primitives
import SQLite
import TestSupport
import Testing

@testable import CacheEngine

/// A cache that can be closed, opened again, and recounted.
///
/// One test's own.
final class EngineFixture {
    let scratch: TempDirectory
    let clock: ManualClock
    var options: CacheOptions
    private(set) var cache: Cache
    private var isOpen = true

    /// A cache with a disk tier in a new directory, one shard and a small journal; `adjust` changes the options.
    init(clock: ManualClock = ManualClock(), _ adjust: (inout CacheOptions) -> Void = { _ in }) throws {
        scratch = try TempDirectory()
        self.clock = clock
        options = CacheOptions()
        options.memory.shards = 1
        var disk = DiskOptions(directory: scratch.path("cache"))
        disk.journalBytes = 1 << 20
        options.disk = disk
        adjust(&options)
        cache = try Cache.open(options, clock: clock)
    }

    deinit {
        releaseWriter()
        if isOpen { cache.close() }
    }

    func close() {
        releaseWriter()
        cache.close()
        isOpen = false
    }

    /// Closes the cache and opens it again, with changed options where asked.
    func reopen(_ adjust: (inout CacheOptions) -> Void = { _ in }) throws {
        if isOpen { close() }
        adjust(&options)
        cache = try Cache.open(options, clock: clock)
        isOpen = true
    }

    /// A cache on a copy of the directory as it is now: what a process would find that starts after this one was
    /// killed.
    func reopenedCopy(_ name: String = "copy") throws -> Cache {
        try scratch.copy("cache", to: name)
        var options = options
        options.disk?.directory = scratch.path(name)
        return try Cache.open(options, clock: clock)
    }

    /// Waits until the index has every write, and what was to be trimmed or removed is gone.
    func settle() {
        releaseWriter()
        cache.settle()
    }

    private var held: Primitives.Semaphore?

    /// Keeps the disk writer from its work: what is stored from now on stays in the journal.
    func holdWriter() {
        let isHeld = Primitives.Semaphore()
        let release = Primitives.Semaphore()
        _ = cache.disk?.ask { _ in
            isHeld.signal()
            release.wait()
        }
        isHeld.wait()
        held = release
    }

    /// Lets the disk writer go on.
    func releaseWriter() {
        held?.signal()
        held = nil
    }

    /// Evicts everything from memory, leaving it on disk; with `waits`, returns when large values are in their files.
    func dropMemory(waits: Bool = true) {
        for shard in cache.memory.shards {
            var garbage = Garbage()
            shard.withLock { shard in
                while let victim = shard.oldest {
                    shard.evict(victim, now: clock.now(), garbage: &garbage, log: cache.memory.events)
                }
            }
            garbage.free()
        }
        guard waits, cache.disk?.policy.demotes == true else { return }
        until {
            cache.memory.shards.allSatisfy { $0.withLock { !$0.flights.values.contains(where: \.isDemotion) } }
        }
    }
}

extension Cache {
    func settle() {
        guard disk != nil else { return }
        let box = Mailbox()
        for _ in 0..<2 {
            guard let disk, disk.isServing else { return }
            disk.commitBarrier(box.waiter())
            _ = box.next()
            onWriter { _ in }
        }
        onWriter { writer in
            repeat { writer.trimmer.step(writer) } while writer.trimmer.hasMore
            writer.publishReport()
        }
    }

    /// Waits until the readers have done every job that was given to them.
    ///
    /// A value file that is dropped is the last of such a job. Not while a test holds a reader.
    func settleReaders() {
        guard let disk else { return }
        let arrived = Primitives.Semaphore()
        let release = Primitives.Semaphore()
        // One job for each reader, which all of them hold at once.
        let job: @Sendable (DiskReader) -> Void = { _ in
            arrived.signal()
            release.wait()
        }
        let jobs = (0..<disk.options.readers).filter { _ in disk.enqueue(.run(job)) }.count
        for _ in 0..<jobs { arrived.wait() }
        for _ in 0..<jobs { release.signal() }
    }

    /// Keys in memory from the least to the most recently used, of one shard.
    func keysOldestFirst(shard: Int = 0) -> [String] {
        memory.shards[shard].withLock { shard in
            var keys: [String] = []
            shard.forEachOldestFirst { block in
                keys.append(String(decoding: block.key, as: UTF8.self))
                return true
            }
            return keys
        }
    }

    /// The value if it is in memory; does not count as a use.
    func isResident(_ key: String) -> Bool {
        key.withKeyBytes { key in
            key.withUnsafeBytes { key in
                let hash = memory.hash(key)
                return memory.shard(hash).withLock { $0.table.find(hash, key) != nil }
            }
        }
    }

    /// Checks the memory tier's counters against a walk through all entries.
    func checkMemoryCounters(_ comment: Comment? = nil, sourceLocation: SourceLocation = #_sourceLocation) {
        for shard in memory.shards {
            shard.withLock { shard in
                var entries = 0
                var bytes = 0
                var found = 0
                shard.forEachOldestFirst { block in
                    entries += 1
                    bytes += block.accountedBytes
                    if shard.table.find(shard.hash(block), block.key) == block { found += 1 }
                    return true
                }
                #expect(entries == shard.entries, comment, sourceLocation: sourceLocation)
                #expect(bytes == shard.bytes, comment, sourceLocation: sourceLocation)
                #expect(found == entries, comment, sourceLocation: sourceLocation)
            }
        }
    }

    /// Checks the disk tier's counters against its rows and files.
    ///
    /// Settle first.
    func checkDiskCounters(_ comment: Comment? = nil, sourceLocation: SourceLocation = #_sourceLocation) throws {
        guard let disk else { return }
        let location = disk.store.withLock { $0.location }
        let connection = try Connection(path: location.path, access: .readOnly)
        let totals = disk.report.withLock { $0.totals }
        let recount = { (sql: String) throws -> Int in Int(try connection.integer(sql) ?? 0) }
        #expect(
            try totals.entries == recount("SELECT count(*) FROM entry"), comment, sourceLocation: sourceLocation)
        #expect(
            try totals.valueBytes == recount("SELECT sum(valueBytes) FROM entry"), comment,
            sourceLocation: sourceLocation)
        #expect(
            try totals.fileEntries == recount("SELECT count(*) FROM entry WHERE fileBytes > 0"), comment,
            sourceLocation: sourceLocation)
        #expect(
            try totals.fileBytes == recount("SELECT sum(fileBytes) FROM entry"), comment,
            sourceLocation: sourceLocation)
        let values = URL(fileURLWithPath: location.path).deletingLastPathComponent().appendingPathComponent("v")
        let files = FileManager.default.enumerator(atPath: values.path)?.compactMap { $0 as? String } ?? []
        #expect(
            totals.fileEntries == files.filter { $0.contains("/") }.count, comment, sourceLocation: sourceLocation)
    }
}

/// Waits for what another thread does; fails after a minute.
func until(sourceLocation: SourceLocation = #_sourceLocation, _ condition: () -> Bool) {
    for _ in 0..<60_000 {
        if condition() { return }
        usleep(1000)
    }
    Issue.record("waited in vain", sourceLocation: sourceLocation)
}

/// Allocated bytes of all files below a directory, as du(1) counts them.
func allocatedBytes(below path: String) -> Int {
    let names = FileManager.default.enumerator(atPath: path)?.compactMap { $0 as? String } ?? []
    return names.reduce(0) { total, name in
        var status = stat()
        return stat("\(path)/\(name)", &status) == 0 ? total + Int(status.st_blocks) * 512 : total
    }
}

/// A draft that could not be made.
struct NoDraft: Error {}

extension Cache {
    /// A draft with its whole value in it; it must fit memory.
    func filledDraft(_ key: String, _ value: [UInt8]) throws -> EntryDraft {
        let key = Array(key.utf8)
        guard var draft = try draft(key.span, valueBytes: value.count, .none, now: clock.now()) else { throw NoDraft() }
        let filled = Cache.fill(&draft, with: value.span, from: 0)
        #expect(filled == value.count)
        return draft
    }

    /// Stores a draft, overcoming what stands in the way.
    func finish(_ draft: inout EntryDraft, _ mode: WriteMode, _ box: Mailbox) -> StoreOutcome {
        var flight: Flight?
        while true {
            let outcome = store(&draft, mode, now: clock.now(), flight: flight)
            if let used = flight { finish(used) }
            guard case .unresolved(let obstacle) = outcome else { return outcome }
            overcome(obstacle, draft: &draft, waiter: box.waiter())
            flight = box.next().flight
        }
    }
}
