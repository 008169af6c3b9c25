// Bringing entries from disk to memory while somebody else changes them: the newer always wins.

import Primitives
import TestSupport
import Testing

@testable import CacheEngine

/// A cache whose next disk lookup stops between the reading of the row and its landing in memory.
private final class PausedLookup {
    let fixture: EngineFixture
    var cache: Cache { fixture.cache }
    private let reached = Semaphore()
    private let goOn = Semaphore()
    private let result = Answer<CachedEntry?>(nil)
    private var thread: OSThread?

    init(_ fixture: EngineFixture) { self.fixture = fixture }

    /// Begins a retrieval on another thread and returns when it has read the row.
    func begin(_ key: String) {
        let isFirst = Answer(true)
        cache.disk?.injected.withLock { injected in
            injected.beforeLanding = { [reached, goOn] in
                if !isFirst.value { return }
                isFirst.value = false
                reached.signal()
                goOn.wait()
            }
        }
        let (cache, result) = (cache, result)
        thread = OSThread(name: "retrieval") { result.value = cache.entry(forKey: key) }
        reached.wait()
    }

    /// Lets the lookup land; returns what the retrieval got.
    func land() -> CachedEntry? {
        goOn.signal()
        thread?.join()
        cache.disk?.injected.withLock { $0.beforeLanding = nil }
        return result.value
    }
}

extension Cache {
    /// Retrievals that wait for the lookup of a key.
    fileprivate func waitingRetrievals(_ key: String) -> Int {
        let hash = key.withKeyBytes { $0.withUnsafeBytes { memory.hash($0) } }
        return memory.shard(hash).withLock { $0.flights[hash]?.state.loads.count ?? 0 }
    }
}

@Suite struct PromotionTests {
    /// A value that stays on disk comes in two steps, a stub and then its file: one retrieval, one hit.
    @Test func `a large value from disk is one hit`() throws {
        let fixture = try EngineFixture { $0.memory.valueBytesMax = 4096 }
        try fixture.cache.set([UInt8](repeating: 7, count: 100_000), forKey: "large")
        try fixture.cache.set([1], forKey: "small")
        try fixture.reopen()
        #expect(fixture.cache.value(forKey: "large")?.count == 100_000)
        #expect(fixture.cache.value(forKey: "small") == [1])
        #expect(fixture.cache.statistics().diskHits == 2)
    }

    private func paused(_ adjust: (inout CacheOptions) -> Void = { _ in }) throws -> PausedLookup {
        let fixture = try EngineFixture(adjust)
        try fixture.cache.set([1], forKey: "k")
        fixture.settle()
        fixture.dropMemory()
        return PausedLookup(fixture)
    }

    @Test func `a set during the lookup wins`() throws {
        let paused = try paused()
        paused.begin("k")
        try paused.cache.set([2], forKey: "k")
        #expect(paused.land()?.value == [2])
        #expect(paused.cache.value(forKey: "k") == [2])
        #expect(paused.cache.statistics().promotionsDropped == 1)
    }

    @Test func `a set that has left memory again wins`() throws {
        let paused = try paused()
        paused.begin("k")
        try paused.cache.set([2], forKey: "k")
        paused.fixture.settle()
        paused.fixture.dropMemory()
        #expect(paused.land()?.value == [2])
    }

    @Test func `a blind deletion during the lookup wins`() throws {
        let paused = try paused()
        paused.begin("k")
        paused.cache.remove(["k"])
        #expect(paused.land() == nil)
        #expect(paused.cache.value(forKey: "k") == nil)
        paused.fixture.settle()
        #expect(paused.cache.value(forKey: "k") == nil)
    }

    @Test func `a flush during the lookup wins`() throws {
        let paused = try paused()
        paused.begin("k")
        paused.cache.removeAll()
        #expect(paused.land() == nil)
        #expect(paused.cache.value(forKey: "k") == nil)
    }

    /// The row is trimmed between its reading and its landing; then the key is found to be absent and that is acted on.
    @Test func `a deletion after the row was trimmed wins`() throws {
        let paused = try paused()
        // The filter must know that the row is gone: it is built in the background.
        until { paused.cache.onWriter { !$0.filters.hasMore } == true }
        paused.begin("k")
        #expect(paused.cache.trim(.disk, to: .entries(0)) == 1)
        let outcome = Array("k".utf8).withKeyBytes { paused.cache.delete($0, now: paused.cache.clock.now()) }
        #expect(outcome == .notFound)
        #expect(paused.land() == nil)
        #expect(paused.cache.value(forKey: "k") == nil)
    }

    /// The touch reaches the index between the reading of the row and its landing.
    @Test func `a touch that was committed during the lookup counts`() throws {
        let fixture = try EngineFixture()
        try fixture.cache.set([1], forKey: "k", timeToLive: .seconds(1000))
        fixture.settle()
        fixture.holdWriter()
        #expect(fixture.cache.touch("k", timeToLive: .seconds(5000)))
        fixture.dropMemory()
        let paused = PausedLookup(fixture)
        paused.begin("k")
        fixture.settle()
        #expect(paused.land()?.timeToLive == .seconds(5000))
    }

    @Test func `a promoted entry has everything that it had`() throws {
        let fixture = try EngineFixture()
        try fixture.cache.set([1, 2], forKey: "k", timeToLive: .seconds(100), flags: 9, extended: [3])
        let before = fixture.cache.entry(forKey: "k")
        fixture.settle()
        fixture.dropMemory()
        #expect(fixture.cache.tier(ofKey: "k") == .disk)
        #expect(fixture.cache.entry(forKey: "k") == before)
        #expect(fixture.cache.tier(ofKey: "k") == .memory)
        #expect(fixture.cache.statistics().promotions == 1)
    }

    @Test func `many retrievals of one cold key read the disk once`() throws {
        let paused = try paused()
        paused.begin("k")
        let found = Answer(0)
        let cache = paused.cache
        let threads = (0..<20).map { _ in
            OSThread(name: "get") { if cache.value(forKey: "k") == [1] { found.update { $0 += 1 } } }
        }
        // The first reads itself, the others wait for it.
        until { cache.waitingRetrievals("k") == 20 }
        #expect(paused.land()?.value == [1])
        for thread in threads { thread.join() }
        #expect(found.value == 20)
        #expect(cache.statistics().disk?.reads == 1)
    }

    /// A key that could not be read is not free for `add` while its row may come back later.
    @Test func `a failed read makes absence true before somebody relies on it`() throws {
        let paused = try paused()
        let cache = paused.cache
        let fault = DiskError(kind: .io, operation: "test", code: 0, message: "as the test wants it")
        cache.disk?.injected.withLock { $0.readFault = fault }
        #expect(cache.value(forKey: "k") == nil)
        #expect(!cache.remove("k"))
        cache.disk?.injected.withLock { $0.readFault = nil }
        #expect(cache.value(forKey: "k") == nil)
        paused.fixture.settle()
        #expect(cache.value(forKey: "k") == nil)
    }

    @Test func `a failed read alone loses nothing`() throws {
        let paused = try paused()
        let cache = paused.cache
        let fault = DiskError(kind: .io, operation: "test", code: 0, message: "as the test wants it")
        cache.disk?.injected.withLock { $0.readFault = fault }
        #expect(cache.value(forKey: "k") == nil)
        cache.disk?.injected.withLock { $0.readFault = nil }
        #expect(cache.value(forKey: "k") == [1])
    }
}
