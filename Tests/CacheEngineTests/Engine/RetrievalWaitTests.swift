// What a retrieval does not wait for: room in the journal, which a disk that fails may not give for seconds.

import Primitives
import TestSupport
import Testing

@testable import CacheEngine

/// Counts what it is told.
private final class Answers: CompletionQueue {
    private let told = Guarded(0, rank: .leaf)
    var count: Int { told.withLock { $0 } }
    func post(_: Completion) { told.withLock { $0 += 1 } }
    func waiter() -> Waiter { Waiter(queue: self, token: 0) }
}

extension EngineFixture {
    /// Fills the journal, whose writer is held, to its last record.
    fileprivate func fillJournal() throws {
        let journal = try #require(cache.disk).journal
        let key = Array("x".utf8)
        var header = JournalHeader(kind: .deletion)
        let nothing = UnsafeRawBufferPointer(start: nil, count: 0)
        header.hash = key.withUnsafeBytes { cache.memory.hash($0) }
        header.generation = cache.generations.next()
        while key.withUnsafeBytes({ journal.append(header, key: $0, extended: nothing, value: nothing) }) != nil {}
    }
}

@Suite struct RetrievalWaitTests {
    /// The key comes to memory between a retrieval's look and its question for the disk.
    @Test func `a retrieval of what memory holds by now looks again at once, whatever room the journal has`() throws {
        let fixture = try EngineFixture()
        fixture.holdWriter()
        try fixture.cache.set([1], forKey: "k")
        try fixture.fillJournal()
        let (plain, touching) = (Answers(), Answers())
        let key = Array("k".utf8)
        fixture.cache.load(key.span, waiter: plain.waiter())
        #expect(plain.count == 1)
        // One that was to touch the entry found no room, and would find none again.
        fixture.cache.load(key.span, waiter: touching.waiter(), touches: true)
        #expect(touching.count == 0)
        fixture.releaseWriter()
        until { touching.count == 1 }
    }

    /// The key cannot be read, and somebody wants its absence for sure, for which the journal has no room.
    @Test func `a retrieval does not wait with a change for room in the journal`() throws {
        let fixture = try EngineFixture()
        let cache = fixture.cache
        try cache.set([1], forKey: "k")
        fixture.settle()
        fixture.dropMemory()
        fixture.holdWriter()
        try fixture.fillJournal()
        let (reached, goOn) = (Semaphore(), Semaphore())
        cache.disk?.injected.withLock { injected in
            injected.readFault = DiskError(kind: .io, operation: "test", code: 0, message: "as the test wants it")
            injected.beforeLanding = {
                reached.signal()
                goOn.wait()
            }
        }
        let (retrieval, change) = (Answers(), Answers())
        let key = Array("k".utf8)
        cache.load(key.span, waiter: retrieval.waiter())
        reached.wait()
        cache.overcome(.entryOnDisk, key: key.span, waiter: change.waiter())
        cache.disk?.injected.withLock { $0.beforeLanding = nil }
        goOn.signal()
        until { retrieval.count == 1 }
        #expect(change.count == 0)
        fixture.releaseWriter()
        until { change.count == 1 }
        #expect(cache.statistics().misses == 1)
    }
}
