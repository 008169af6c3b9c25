// Entries whose value file could not be written: they live in memory alone, and what the disk has for them is gone.

import Primitives
import TestSupport
import Testing

@testable import CacheEngine

@Suite struct UnwrittenFileTests {
    private static let large = 30_000

    /// What is done to an entry that is in memory alone, before the deletion of its older row is committed.
    enum Change: CaseIterable {
        case nothing, touch, getAndTouch, mark
    }

    private static func make(_ change: Change, _ cache: Cache) {
        switch change {
        case .nothing: break
        case .touch: #expect(cache.touch("k", timeToLive: .seconds(1000)))
        case .getAndTouch:
            "k".withKeyBytes { key in
                let outcome = cache.withEntry(
                    key, now: cache.clock.now(), touch: cache.clock.now().advanced(byMilliseconds: 1_000_000)
                ) { _ in }
                #expect(outcome == .hit)
            }
        case .mark:
            "k".withKeyBytes { key in
                let outcome = cache.edit(key, now: cache.clock.now()) { edit in
                    edit.isStale = true
                    edit.cas = cache.nextCAS()
                }
                #expect(outcome == .done)
            }
        }
    }

    /// The deletion and the change reach the index in one batch, or the deletion first.
    @Test(arguments: Change.allCases, [true, false]) func `an older file never comes back`(
        change: Change, inOneBatch: Bool
    ) throws {
        let fixture = try EngineFixture()
        let cache = fixture.cache
        try cache.set([UInt8](repeating: 1, count: Self.large), forKey: "k")
        fixture.settle()
        cache.disk?.injected.withLock { $0.fileFault = .io(operation: "open", errno: 28) }
        if inOneBatch { fixture.holdWriter() }
        try cache.set([UInt8](repeating: 2, count: Self.large), forKey: "k")
        if !inOneBatch { fixture.settle() }
        Self.make(change, cache)
        #expect(cache.value(forKey: "k")?.first == 2)
        fixture.settle()
        fixture.dropMemory()
        #expect(cache.value(forKey: "k")?.first == nil)
        cache.disk?.injected.withLock { $0.fileFault = nil }
        let copy = try fixture.reopenedCopy()
        #expect(copy.value(forKey: "k")?.first == nil)
        copy.close()
        try cache.checkDiskCounters()
    }
}
