// The disk fails: memory keeps serving, nothing old comes back, and the tier recovers by itself.

import Foundation
import Glibc
import Primitives
import SQLite
import Synchronization
import TestSupport
import Testing

@testable import CacheEngine

/// A cache with a disk that fails when told to.
private final class FaultyFixture {
    let base: EngineFixture
    var cache: Cache { base.cache }

    init(_ adjust: (inout CacheOptions) -> Void = { _ in }) throws { base = try EngineFixture(adjust) }

    func fail(_ kind: DiskError.Kind?) {
        cache.disk?.injected.withLock {
            $0.commitFault = kind.map {
                DiskError(kind: $0, operation: "test", code: 0, message: "as the test wants it")
            }
        }
    }

    /// Lets time pass until the tier is in this state.
    func wait(for state: DiskState, sourceLocation: SourceLocation = #_sourceLocation) {
        until(sourceLocation: sourceLocation) {
            base.clock.advance(milliseconds: 50)
            return cache.disk?.state == state
        }
    }
}

/// Keeps what it is told.
private final class Answers: CompletionQueue {
    private let told = Guarded(0, rank: .leaf)
    var count: Int { told.withLock { $0 } }
    func post(_ completion: Completion) { told.withLock { $0 += 1 } }
}

@Suite struct DegradeTests {
    @Test func `a full disk costs nothing that the journal can hold`() throws {
        let faulty = try FaultyFixture()
        try faulty.cache.set([1], forKey: "before")
        faulty.base.settle()
        faulty.fail(.full)
        try faulty.cache.set([2], forKey: "during")
        try faulty.cache.set([2], forKey: "before")
        faulty.wait(for: .full)
        faulty.base.dropMemory()
        #expect(faulty.cache.value(forKey: "during") == [2])
        #expect(faulty.cache.value(forKey: "before") == [2])
        faulty.fail(nil)
        faulty.wait(for: .ok)
        faulty.base.settle()
        faulty.base.dropMemory()
        #expect(faulty.cache.value(forKey: "during") == [2])
        #expect(faulty.cache.statistics().disk?.quarantines == 0)
    }

    /// Between the opening of the journal and the removal of the rows that were barred.
    @Test func `a touch of what was written without the journal does not revive the older row`() throws {
        let fixture = try EngineFixture()
        let disk = try #require(fixture.cache.disk)
        try fixture.cache.set([1], forKey: "k")
        fixture.settle()
        // The writer would open it again.
        fixture.holdWriter()
        disk.isJournalClosed.store(true, ordering: .sequentiallyConsistent)
        try fixture.cache.set([2], forKey: "k")
        disk.isJournalClosed.store(false, ordering: .sequentiallyConsistent)
        #expect(fixture.cache.touch("k", timeToLive: .seconds(100)))
        #expect(fixture.cache.value(forKey: "k") == [2])
        fixture.dropMemory()
        #expect(fixture.cache.value(forKey: "k") == nil)
    }

    /// The journal fills up, writes go on without it; whatever was written meanwhile, no older value may come back.
    @Test func `writes that the journal could not take bar what the disk has`() throws {
        let faulty = try FaultyFixture { $0.memory.bytesMax = 256 << 10 }
        let cache = faulty.cache
        for number in 0..<300 { try cache.set([1], forKey: "k\(number)") }
        try cache.set([UInt8](repeating: 1, count: 30_000), forKey: "file")
        faulty.base.settle()
        faulty.fail(.full)
        // The clock runs while the stores below wait for room in vain.
        let isDone = Answer(false)
        let clock = faulty.base.clock
        let ticker = OSThread(name: "ticker") {
            while !isDone.value {
                clock.advance(milliseconds: 20)
                usleep(1000)
            }
        }
        // In the journal first, behind more records than one batch takes; then overwritten without it.
        var filler = 0
        while filler < 6000 {
            try cache.set([9], forKey: "filler\(filler)")
            filler += 1
        }
        for number in 0..<300 { try cache.set([2], forKey: "k\(number)") }
        while cache.statistics().barredWrites == 0 {
            try cache.set([9], forKey: "filler\(filler)")
            filler += 1
        }
        for number in 0..<100 { try cache.set([3], forKey: "k\(number)") }
        for number in 100..<200 { cache.remove("k\(number)") }
        try cache.set([UInt8](repeating: 3, count: 1000), forKey: "file")
        faulty.base.dropMemory()
        func check(_ when: Comment) {
            for number in 0..<300 {
                let value = cache.value(forKey: "k\(number)")
                if number < 100 { #expect(value == [3] || value == nil, when) }
                if number >= 100, number < 200 { #expect(value == nil, when) }
                if number >= 200 { #expect(value == [2], when) }
            }
            let file = cache.value(forKey: "file")
            #expect(file == nil || file == [UInt8](repeating: 3, count: 1000), when)
        }
        check("while the journal is closed")
        // What a process would find that starts now: nothing of this store.
        let copy = try faulty.base.reopenedCopy()
        #expect(copy.value(forKey: "k250") == nil)
        copy.close()
        faulty.fail(nil)
        faulty.wait(for: .ok)
        until { cache.disk?.isJournalClosed.load(ordering: .relaxed) == false }
        check("after the journal was opened again")
        faulty.base.settle()
        check("after everything was committed")
        faulty.base.dropMemory()
        check("from disk")
        isDone.value = true
        ticker.join()
        try cache.set([4], forKey: "k0")
        try faulty.base.reopen()
        #expect(faulty.cache.value(forKey: "k0") == [4])
        #expect(faulty.cache.value(forKey: "k150") == nil)
        #expect(faulty.cache.value(forKey: "k250") == [2])
        try faulty.cache.checkDiskCounters()
    }

    @Test func `a store that reports corruption is put aside, and a new one serves`() throws {
        let states = Answer<[DiskState]>([])
        let scratch = try TempDirectory()
        var options = CacheOptions()
        options.disk = DiskOptions(directory: scratch.path("cache"))
        let clock = ManualClock()
        let cache = try Cache.open(options, clock: clock) { state, _ in states.value += [state] }
        try cache.set([1], forKey: "lost")
        try cache.set([1], forKey: "kept")
        cache.settle()
        let fault = DiskError(kind: .corrupt, operation: "test", code: 11, message: "as the test wants it")
        cache.disk?.injected.withLock { $0.commitFault = fault }
        try cache.set([2], forKey: "kept")
        until {
            clock.advance(milliseconds: 100)
            return cache.statistics().disk?.quarantines == 1 && cache.disk?.state == .ok
        }
        cache.disk?.injected.withLock { $0.commitFault = nil }
        #expect(states.value == [.degraded, .ok])
        // Memory has lost nothing; the new store is empty.
        #expect(cache.value(forKey: "kept") == [2])
        #expect(try scratch.names("cache").contains { $0.hasPrefix("quarantine-") })
        try cache.set([3], forKey: "new")
        cache.settle()
        #expect(cache.entryCount(in: .disk) == 1)
        cache.close()
        let again = try Cache.open(options, clock: clock)
        #expect(again.value(forKey: "new") == [3])
        #expect(again.value(forKey: "kept") == nil)
        again.close()
    }

    @Test func `who comes to wait after the store was given up is not left waiting`() throws {
        let fixture = try EngineFixture()
        let disk = try #require(fixture.cache.disk)
        // No new store can be made where a file is.
        try FileManager.default.removeItem(atPath: fixture.scratch.path("cache"))
        try fixture.scratch.write([1], to: "cache")
        disk.discardStore("as the test wants it")
        until { disk.state == .degraded && disk.report.withLock { $0.lastError } != nil }
        let answers = Answers()
        disk.commitBarrier(Waiter(queue: answers, token: 1))
        disk.whenJournalHasRoom(Waiter(queue: answers, token: 2))
        until { answers.count == 2 }
    }

    /// The clock stands still: nothing may wait for the next attempt.
    @Test func `a new store takes writes at once, and late news of the old one do it no harm`() throws {
        let fixture = try EngineFixture()
        let disk = try #require(fixture.cache.disk)
        disk.discardStore("as the test wants it")
        until { disk.state == .ok && disk.counters[.quarantines] == 1 }
        try fixture.cache.set([1], forKey: "k")
        until { disk.journal.usedBytes == 0 }
        disk.reportCorruption(DiskError(kind: .corrupt, operation: "test", code: 0, message: "late"), of: 0)
        fixture.cache.onWriter { _ in }
        fixture.settle()
        fixture.dropMemory()
        #expect(fixture.cache.value(forKey: "k") == [1])
        #expect(disk.counters[.quarantines] == 1)
    }

    @Test func `an index that is overwritten under us is put aside`() throws {
        let fixture = try EngineFixture()
        for number in 0..<500 { try fixture.cache.set([UInt8](repeating: 1, count: 500), forKey: "k\(number)") }
        fixture.settle()
        fixture.cache.onWriter { writer in
            do { _ = try writer.index?.checkpoint(.truncate) } catch { Issue.record(error) }
        }
        let path = fixture.scratch.path("cache/store/index.db")
        let file = open(path, O_WRONLY)
        let garbage = [UInt8](repeating: 0x5a, count: 8192)
        for page in 1..<50 { pwrite(file, garbage, garbage.count, off_t(page * 8192)) }
        close(file)
        fixture.dropMemory()
        // Reads see the damage first: a miss, never garbage.
        for number in 0..<500 {
            let value = fixture.cache.value(forKey: "k\(number)")
            #expect(value == nil || value == [UInt8](repeating: 1, count: 500))
        }
        for number in 0..<500 { try fixture.cache.set([2], forKey: "n\(number)") }
        until {
            fixture.clock.advance(milliseconds: 100)
            return fixture.cache.statistics().disk?.quarantines == 1 && fixture.cache.disk?.state == .ok
        }
        try fixture.cache.set([3], forKey: "new")
        fixture.settle()
        fixture.dropMemory()
        #expect(fixture.cache.value(forKey: "new") == [3])
    }

    @Test func `a directory that is removed under us is made again`() throws {
        let fixture = try EngineFixture { $0.disk?.trimInterval = 10 }
        try fixture.cache.set([1], forKey: "k")
        fixture.settle()
        try FileManager.default.removeItem(atPath: fixture.scratch.path("cache/store"))
        until {
            fixture.clock.advance(milliseconds: 100)
            return fixture.cache.statistics().disk?.quarantines == 1 && fixture.cache.disk?.state == .ok
        }
        #expect(fixture.cache.value(forKey: "k") == [1])
        try fixture.cache.set([2], forKey: "new")
        fixture.settle()
        fixture.dropMemory()
        #expect(fixture.cache.value(forKey: "new") == [2])
        #expect(fixture.cache.value(forKey: "k") == nil)
    }

    @Test func `with its whole directory gone, memory serves on and the tier comes back`() throws {
        let fixture = try EngineFixture { $0.disk?.trimInterval = 10 }
        try fixture.cache.set([1], forKey: "k")
        fixture.settle()
        try FileManager.default.removeItem(atPath: fixture.scratch.path("cache"))
        until {
            fixture.clock.advance(milliseconds: 100)
            return fixture.cache.disk?.state == .degraded || (fixture.cache.statistics().disk?.quarantines ?? 0) > 0
        }
        #expect(fixture.cache.value(forKey: "k") == [1])
        try fixture.cache.set([2], forKey: "k")
        #expect(fixture.cache.value(forKey: "k") == [2])
        until {
            fixture.clock.advance(milliseconds: 100)
            return fixture.cache.disk?.state == .ok
        }
        try fixture.cache.set([3], forKey: "new")
        fixture.settle()
        try fixture.reopen()
        #expect(fixture.cache.value(forKey: "new") == [3])
    }

    @Test(arguments: ["shorter", "flipped", "removed"]) func `a damaged value file is a miss`(how: String) throws {
        let fixture = try EngineFixture()
        try fixture.cache.set([UInt8](repeating: 1, count: 50_000), forKey: "k")
        fixture.settle()
        fixture.dropMemory()
        let name = try #require(fixture.scratch.files(below: "cache/store/v").first { $0.contains("/") })
        let path = "cache/store/v/\(name)"
        switch how {
        case "shorter": truncate(fixture.scratch.path(path), 40_000)
        case "flipped":
            var bytes = try fixture.scratch.read(path)
            bytes[30_000] ^= 1
            try fixture.scratch.write(bytes, to: path)
        default: unlink(fixture.scratch.path(path))
        }
        #expect(fixture.cache.value(forKey: "k") == nil)
        #expect((fixture.cache.statistics().disk?.readErrors ?? 0) > 0)
        fixture.settle()
        #expect(fixture.cache.entryCount(in: .disk) == 0)
        try fixture.cache.checkDiskCounters()
        #expect(fixture.cache.statistics().disk?.state == .ok)
    }

    @Test func `a value file that cannot be written leaves no old value`() throws {
        let fixture = try EngineFixture()
        try fixture.cache.set([UInt8](repeating: 1, count: 50_000), forKey: "k")
        fixture.settle()
        // Where the new file's subdirectory should be, there is something else.
        let values = fixture.scratch.path("cache/store/v")
        try FileManager.default.removeItem(atPath: values)
        #expect(FileManager.default.createFile(atPath: values, contents: Data()))
        try fixture.cache.set([UInt8](repeating: 2, count: 50_000), forKey: "k")
        #expect(fixture.cache.value(forKey: "k") == [UInt8](repeating: 2, count: 50_000))
        fixture.dropMemory()
        #expect(fixture.cache.value(forKey: "k") == nil)
        // Too large for memory: refused, and nothing old is left either.
        try fixture.cache.set([3], forKey: "large")
        #expect(throws: StorageError.noRoom) {
            try fixture.cache.set([UInt8](repeating: 2, count: 2 << 20), forKey: "large")
        }
        #expect(fixture.cache.value(forKey: "large") == nil)
    }

    /// With durability `always` nothing is acknowledged before it is in the index.
    @Test func `the barrier waits for the commit`() throws {
        let fixture = try EngineFixture { $0.disk?.durability = .always }
        for number in 0..<20 {
            try fixture.cache.set([UInt8(number)], forKey: "k\(number)")
            let location = try #require(fixture.cache.disk?.store.withLock { $0.location })
            let connection = try Connection(path: location.path, access: .readOnly)
            #expect(try connection.integer("SELECT count(*) FROM entry") == Int64(number + 1))
        }
        #expect(fixture.cache.remove("k3"))
        let location = try #require(fixture.cache.disk?.store.withLock { $0.location })
        let connection = try Connection(path: location.path, access: .readOnly)
        #expect(try connection.integer("SELECT count(*) FROM entry") == 19)
    }

    /// What a failed sync was to bring to the device reads well afterwards, and may be gone after a power loss.
    @Test func `at durability always a failed sync gives the store up, and acknowledges nothing`() throws {
        let fixture = try EngineFixture { $0.disk?.durability = .always }
        let cache = fixture.cache
        try cache.set([1], forKey: "k")
        let fault = DiskError(kind: .io, operation: "commit", code: 10 | 4 << 8, message: "as the test wants it")
        cache.disk?.injected.withLock { $0.commitFault = fault }
        #expect(throws: StorageError.notDurable) { try cache.set([2], forKey: "k") }
        cache.disk?.injected.withLock { $0.commitFault = nil }
        until {
            fixture.clock.advance(milliseconds: 100)
            return cache.disk?.state == .ok && cache.statistics().disk?.quarantines == 1
        }
        #expect(cache.value(forKey: "k") == [2])
    }

    /// For as long as the disk is full, nobody waits longer than for the patience of the first.
    @Test func `with a full disk, who waits for a commit is told in time`() throws {
        let faulty = try FaultyFixture { $0.disk?.durability = .always }
        faulty.fail(.full)
        let isDone = Answer(false)
        let clock = faulty.base.clock
        let ticker = OSThread(name: "ticker") {
            while !isDone.value {
                clock.advance(milliseconds: 20)
                usleep(1000)
            }
        }
        for number in 0..<3 {
            #expect(throws: StorageError.notDurable) { try faulty.cache.set([1], forKey: "k\(number)") }
        }
        #expect(faulty.cache.value(forKey: "k1") == [1])
        faulty.fail(nil)
        faulty.wait(for: .ok)
        try faulty.cache.set([2], forKey: "k1")
        isDone.value = true
        ticker.join()
        #expect(faulty.cache.statistics().disk?.quarantines == 0)
    }

    @Test func `a barrier that cannot be kept says so`() throws {
        let faulty = try FaultyFixture { $0.disk?.durability = .always }
        faulty.fail(.corrupt)
        #expect(throws: StorageError.notDurable) { try faulty.cache.set([1], forKey: "k") }
        #expect(faulty.cache.value(forKey: "k") == [1])
    }
}
