// Lookups on the thread that asks: what they find, what they leave to the reader threads, and that a snapshot that is
// kept from one to the next never shows what was overwritten since.

import Primitives
import SQLite
import TestSupport
import Testing

@testable import CacheEngine

@Suite struct ReadsAtHandTests {
    private func filled(_ adjust: (inout CacheOptions) -> Void = { _ in }) throws -> (EngineFixture, ReadsAtHand) {
        let fixture = try EngineFixture(clock: ManualClock(), adjust)
        for number in 0..<50 { try fixture.cache.set([UInt8(number)], forKey: "k\(number)") }
        try fixture.cache.set([UInt8](repeating: 7, count: 50_000), forKey: "file")
        fixture.settle()
        fixture.dropMemory()
        return (fixture, try #require(fixture.cache.readsAtHand(loops: 1)))
    }

    private func read(_ key: String, _ fixture: EngineFixture, _ reads: ReadsAtHand) -> (Lookup, [UInt8]?) {
        var value: [UInt8]?
        let key = Array(key.utf8)
        let cache = fixture.cache
        let lookup = reads.withEntry(key.span, cache.hash(of: key.span), now: cache.clock.now()) { entry in
            value = Array(entry.value)
        }
        return (lookup, value)
    }

    @Test func `an entry is shown, counted and brought to memory`() throws {
        let (fixture, reads) = try filled()
        #expect(read("k7", fixture, reads) == (.hit, [7]))
        reads.endTurn()
        #expect(fixture.cache.isResident("k7"))
        let statistics = fixture.cache.statistics()
        #expect(statistics.diskHits == 1)
        #expect(statistics.memoryHits == 0)
        fixture.cache.checkMemoryCounters()
        // Memory knows it now: that is for `withEntry` of the cache to say.
        #expect(read("k7", fixture, reads).0 == .unresolved)
    }

    @Test func `a snapshot is kept, but not over a commit`() throws {
        let (fixture, reads) = try filled()
        for round in 1..<20 {
            // Opens the snapshot, or goes on with it.
            #expect(read("k\(round)", fixture, reads).0 == .hit)
            try fixture.cache.set([UInt8(100 + round)], forKey: "k0")
            fixture.settle()
            fixture.dropMemory()
            #expect(read("k0", fixture, reads) == (.hit, [UInt8(100 + round)]))
            fixture.dropMemory()
        }
        fixture.cache.remove("k0")
        fixture.settle()
        #expect(read("k0", fixture, reads).1 == nil)
        #expect(fixture.cache.value(forKey: "k0") == nil)
    }

    @Test func `a blocking caller's snapshot is not kept over a commit either`() throws {
        let (fixture, _) = try filled()
        for round in 1..<20 {
            #expect(fixture.cache.value(forKey: "k\(round)") == [UInt8(round)])
            try fixture.cache.set([UInt8(100 + round)], forKey: "k0")
            fixture.settle()
            fixture.dropMemory()
            #expect(fixture.cache.value(forKey: "k0") == [UInt8(100 + round)])
            fixture.dropMemory()
        }
        // Nobody reads: the snapshot does not hold the log back.
        #expect(fixture.cache.value(forKey: "k33") == [33])
        try fixture.cache.set([1], forKey: "k0")
        fixture.settle()
        let isComplete = Guarded(false, rank: .leaf)
        let done = Primitives.Semaphore()
        _ = fixture.cache.disk?.ask { writer in
            do {
                let result = try writer.disk.callerReads.withoutSnapshots { () throws(DiskError) in
                    try writer.index?.checkpoint(.passive)
                }
                isComplete.withLock { $0 = result?.isComplete ?? false }
            } catch { Issue.record(error) }
            done.signal()
        }
        done.wait()
        #expect(isComplete.withLock { $0 })
    }

    @Test func `what takes more than a row is left to the reader threads`() throws {
        let (fixture, reads) = try filled()
        #expect(read("file", fixture, reads).0 == .unresolved)
        #expect(fixture.cache.value(forKey: "file")?.count == 50_000)
        // The row is not there, though the filter may think so: memory only, for once.
        #expect(read("none", fixture, reads).1 == nil)
        fixture.cache.disk?.injected.withLock {
            $0.readFault = DiskError(kind: .io, operation: "test", code: 0, message: "injected")
        }
        #expect(read("k9", fixture, reads).0 == .unresolved)
        fixture.cache.disk?.injected.withLock { $0.readFault = nil }
        reads.endTurn()
        until { fixture.cache.value(forKey: "k9") == [9] }
    }

    @Test func `who asks meanwhile shares the lookup`() throws {
        let (fixture, reads) = try filled()
        let box = Mailbox()
        let waiter = box.waiter()
        let cache = fixture.cache
        cache.disk?.injected.withLock {
            $0.beforeLanding = {
                let key = Array("k5".utf8)
                cache.load(key.span, waiter: waiter)
            }
        }
        #expect(read("k5", fixture, reads) == (.hit, [5]))
        cache.disk?.injected.withLock { $0.beforeLanding = nil }
        guard case .entry(let pinned) = box.next().outcome else {
            Issue.record("no entry")
            return
        }
        #expect(Array(pinned.value) == [5])
        #expect(cache.statistics().diskHits == 2)
    }

    @Test func `a write between lookup and landing wins`() throws {
        let (fixture, reads) = try filled()
        let cache = fixture.cache
        cache.disk?.injected.withLock {
            $0.beforeLanding = {
                do { try cache.set([99], forKey: "k5") } catch { Issue.record(error) }
            }
        }
        #expect(read("k5", fixture, reads) == (.unresolved, nil))
        cache.disk?.injected.withLock { $0.beforeLanding = nil }
        #expect(cache.value(forKey: "k5") == [99])
    }

    @Test func `a new store is read after the old one was given up`() throws {
        let (fixture, reads) = try filled()
        #expect(read("k1", fixture, reads) == (.hit, [1]))
        reads.endTurn()
        _ = fixture.cache.disk?.ask { $0.degrade("test") }
        until { fixture.cache.disk?.state == .ok && fixture.cache.statistics().disk?.quarantines == 1 }
        try fixture.cache.set([2], forKey: "k1")
        fixture.settle()
        fixture.dropMemory()
        #expect(read("k1", fixture, reads) == (.hit, [2]))
        reads.endTurn()
    }
}
