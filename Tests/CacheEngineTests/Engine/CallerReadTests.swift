// Blocking callers that read from disk themselves: bounded, gone before a stop ends, and not on a store that was given
// up. And the budget of values on their way in.

import Foundation
import Primitives
import Synchronization
import TestSupport
import Testing

@testable import CacheEngine

@Suite struct CallerReadTests {
    private func filled(readers: Int = 2) throws -> EngineFixture {
        let fixture = try EngineFixture { $0.disk?.readers = readers }
        for number in 0..<200 { try fixture.cache.set([UInt8(number)], forKey: "k\(number)") }
        try fixture.cache.set([UInt8](repeating: 7, count: 50_000), forKey: "file")
        fixture.settle()
        fixture.dropMemory()
        return fixture
    }

    /// The lookups run on the test's own thread: the injected closure sees it.
    @Test func `a blocking read happens on the caller's thread`() throws {
        let fixture = try filled()
        let seen = Guarded([UInt](), rank: .leaf)
        let me = UInt(bitPattern: pthread_self().hashValue)
        fixture.cache.disk?.injected.withLock {
            $0.beforeLanding = {
                let thread = UInt(bitPattern: pthread_self().hashValue); seen.withLock { $0.append(thread) }
            }
        }
        #expect(fixture.cache.value(forKey: "k5") == [5])
        #expect(seen.withLock { $0 } == [me])
        fixture.cache.disk?.injected.withLock { $0.beforeLanding = nil }
    }

    @Test(arguments: [1, 3]) func `no more reads at a time than there are permits`(readers: Int) throws {
        let fixture = try filled(readers: readers)
        let running = Guarded((now: 0, most: 0), rank: .leaf)
        fixture.cache.disk?.injected.withLock {
            $0.beforeLanding = {
                running.withLock { state in
                    state.now += 1
                    state.most = max(state.most, state.now)
                }
                usleep(300)
                running.withLock { $0.now -= 1 }
            }
        }
        let cache = fixture.cache
        DispatchQueue.concurrentPerform(iterations: 8) { thread in
            for number in stride(from: thread, to: 200, by: 8) {
                #expect(cache.value(forKey: "k\(number)") == [UInt8(number)])
            }
        }
        #expect(running.withLock { $0.most } <= readers)
        fixture.cache.disk?.injected.withLock { $0.beforeLanding = nil }
    }

    /// Threads read while the cache stops: when `close` has returned the directory can be another's, and nobody of the
    /// old cache has a file of it open.
    @Test func `no read outlives a stop`() throws {
        let fixture = try filled()
        let cache = fixture.cache
        let isOver = Atomic<Bool>(false)
        let group = DispatchGroup()
        for thread in 0..<4 {
            DispatchQueue.global().async(group: group) {
                var number = thread
                while !isOver.load(ordering: .relaxed), cache.value(forKey: "k\(number % 200)") != nil || number < 200 {
                    number += 4
                }
            }
        }
        usleep(5000)
        // Event loops end before a cache is closed; a read may still be under way.
        isOver.store(true, ordering: .relaxed)
        group.wait()
        fixture.close()
        let open = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").compactMap {
            try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\($0)")
        }
        #expect(open.filter { $0.hasPrefix(fixture.scratch.path("cache")) && $0.contains("index.db") } == [])
        try fixture.reopen()
        #expect(fixture.cache.value(forKey: "k1") == [1])
    }

    @Test func `no connection stays open on a store that was given up`() throws {
        let fixture = try filled()
        #expect(fixture.cache.value(forKey: "k1") == [1])
        _ = fixture.cache.disk?.ask { $0.degrade("test") }
        until { fixture.cache.disk?.state == .ok && fixture.cache.statistics().disk?.quarantines == 1 }
        let open = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").compactMap {
            try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\($0)")
        }
        let quarantine = fixture.scratch.path("cache/quarantine-")
        #expect(open.filter { $0.hasPrefix(quarantine) && $0.contains("index.db") } == [])
        try fixture.cache.set([2], forKey: "k1")
        fixture.settle()
        fixture.dropMemory()
        #expect(fixture.cache.value(forKey: "k1") == [2])
    }

    // MARK: Values on their way in

    /// A waiter's completions.
    private final class Bell: CompletionQueue {
        let rung = Guarded(0, rank: .leaf)
        func post(_: Completion) { rung.withLock { $0 += 1 } }
    }

    @Test func `values on their way in wait for each other beyond the budget`() throws {
        let fixture = try EngineFixture { $0.memory.bytesMax = 64 << 20 }
        let cache = fixture.cache
        let bell = Bell()
        let waiter = { Waiter(queue: bell, token: 0) }
        let megabyte = 1 << 20
        var drafts: [DraftBox] = []
        while cache.mayReceive(valueBytes: megabyte, waiter: waiter()) {
            drafts.append(try #require(DraftBox(cache, "k\(drafts.count)", megabyte)))
            if drafts.count > 100 { break }
        }
        // 16 MiB, the least there is.
        #expect(drafts.count == 16)
        #expect(cache.statistics().bodyBytes == 16 << 20)
        #expect(cache.statistics().bodyWaits == 1)
        // Small ones pass.
        #expect(cache.mayReceive(valueBytes: 1000, waiter: waiter()))
        #expect(bell.rung.withLock { $0 } == 0)
        drafts.removeLast()
        #expect(bell.rung.withLock { $0 } == 1)
        #expect(cache.mayReceive(valueBytes: megabyte, waiter: waiter()))
        drafts = []
        #expect(cache.statistics().bodyBytes == 0)
        // A stored value is the memory tier's.
        try cache.set([UInt8](repeating: 1, count: megabyte), forKey: "k")
        #expect(cache.statistics().bodyBytes == 0)
        // One that is larger than all of it may pass alone.
        #expect(cache.mayReceive(valueBytes: 40 << 20, waiter: waiter()))
    }

    private final class DraftBox {
        var draft: EntryDraft?

        init?(_ cache: Cache, _ key: String, _ bytes: Int) {
            guard let made = cache.makeDraft(key: Array(key.utf8).span, valueBytes: bytes, flags: 0, deadline: .never)
            else { return nil }
            draft = consume made
        }
    }
}
