// Versions that share a CAS id are told apart, and a number in a file is counted wherever it is.

import Primitives
import TestSupport
import Testing

@testable import CacheEngine

@Suite struct EntryVersionTests {
    private static let shared: UInt64 = 77

    /// Stores a value with the CAS id that all values of these tests have.
    private func put(_ value: [UInt8], _ cache: Cache, _ box: Mailbox) throws {
        let key = Array("k".utf8)
        guard var draft = cache.makeDraft(key: key.span, valueBytes: value.count, flags: 0, deadline: .never) else {
            throw NoDraft()
        }
        draft.terms.explicitCAS = Self.shared
        draft.setStreamWaiter(box.waiter(WaitToken.room))
        var filled = 0
        while !draft.isComplete {
            if filled > 0 { _ = box.next(WaitToken.room) }
            filled += Cache.fill(&draft, with: value.span, from: filled)
        }
        while case .unresolved(let obstacle) = cache.store(&draft, .set, now: cache.clock.now()) {
            cache.overcome(obstacle, draft: &draft, waiter: box.waiter(WaitToken.obstacle))
            _ = box.next(WaitToken.obstacle)
        }
        #expect(cache.info(forKey: "k")?.cas == Self.shared)
    }

    /// An append is under way on a disk thread when its base is replaced by one with the same CAS id.
    @Test(arguments: [15_000, 60_000], [true, false])
    func `a joined value is not made of an overwritten one`(valueBytes: Int, isAppend: Bool) throws {
        // The larger values are files that memory has stubs of.
        let fixture = try EngineFixture { $0.memory.valueBytesMax = 50_000 }
        let cache = fixture.cache
        let box = Mailbox()
        let mode = isAppend ? WriteMode.append : .prepend
        let addition = [UInt8](repeating: 9, count: 10_000)
        let (old, new) = ([UInt8](repeating: 1, count: valueBytes), [UInt8](repeating: 2, count: valueBytes))
        try put(old, cache, box)
        var draft = try cache.filledDraft("k", addition)
        #expect(cache.store(&draft, mode, now: cache.clock.now()) == .unresolved(.valueFile))
        cache.overcome(.valueFile, draft: &draft, waiter: box.waiter())
        _ = box.next()
        try put(new, cache, box)
        guard case .stored = cache.finish(&draft, mode, box) else {
            Issue.record("not stored")
            return
        }
        #expect(draft.storedBytes == valueBytes + addition.count)
        let joined = isAppend ? new + addition : addition + new
        // Plain truths, so that a failure does not print the values.
        let isJoined = cache.value(forKey: "k") == joined
        #expect(isJoined)
        fixture.settle()
        fixture.dropMemory()
        let isJoinedOnDisk = cache.value(forKey: "k") == joined
        #expect(isJoinedOnDisk)
        try fixture.reopen()
        let isJoinedLater = fixture.cache.value(forKey: "k") == joined
        #expect(isJoinedLater)
    }

    /// What `gat` has read from disk gets its new deadline only if it still is what the key holds.
    @Test(arguments: [100, 60_000])
    func `a touch of a version spares another one`(valueBytes: Int) throws {
        let fixture = try EngineFixture { $0.memory.valueBytesMax = 50_000 }
        let cache = fixture.cache
        let box = Mailbox()
        let key = Array("k".utf8)
        try put([UInt8](repeating: 1, count: valueBytes), cache, box)
        fixture.settle()
        fixture.dropMemory()
        let version = try #require(found(key, cache, box))
        let soon = cache.clock.now().advanced(byMilliseconds: 10_000)
        #expect(cache.touch(key.span, deadline: soon, version: version, now: cache.clock.now()) == .touched)
        try put([UInt8](repeating: 2, count: valueBytes), cache, box)
        #expect(cache.touch(key.span, deadline: soon, version: version, now: cache.clock.now()) == .exists)
        #expect(cache.info(forKey: "k")?.timeToLive == nil)
    }

    private func found(_ key: [UInt8], _ cache: Cache, _ box: Mailbox) -> EntryVersion? {
        while true {
            cache.load(key.span, waiter: box.waiter())
            switch box.next().outcome {
            case .entry(let pinned): return pinned.version
            case .stream(let stream): return stream.version
            case .retry: continue
            case .absent, .chunk, .failed: return nil
            }
        }
    }

    /// A number that is larger than what goes into the index has a file, and memory may have a stub of it.
    @Test(arguments: ["journal", "file", "reopened"])
    func `numbers in files are counted`(place: String) throws {
        for size in [2, 2000, 16_384] {
            let fixture = try EngineFixture { $0.disk?.inlineBytesMax = 0 }
            let value = Array("41".utf8) + [UInt8](repeating: 32, count: size - 2)
            if place == "journal" { fixture.holdWriter() }
            try fixture.cache.set(value, forKey: "k")
            if place == "file" { fixture.settle() }
            if place == "reopened" { try fixture.reopen() } else { fixture.dropMemory() }
            #expect(try fixture.cache.increment("k") == 42)
            #expect(try fixture.cache.increment("k", by: 58) == 100)
            fixture.releaseWriter()
            fixture.settle()
            fixture.dropMemory()
            let stored = Array("100".utf8) + [UInt8](repeating: 32, count: max(0, size - 3))
            let isStored = fixture.cache.value(forKey: "k") == stored
            #expect(isStored, "\(size)")
        }
    }

    @Test func `what memory does not take is no number`() throws {
        let fixture = try EngineFixture {
            $0.memory.valueBytesMax = 1024
            $0.disk?.inlineBytesMax = 0
        }
        try fixture.cache.set([UInt8](repeating: 49, count: 1) + [UInt8](repeating: 32, count: 1999), forKey: "k")
        #expect(throws: StorageError.notNumeric) { try fixture.cache.increment("k") }
        fixture.settle()
        fixture.dropMemory()
        #expect(throws: StorageError.notNumeric) { try fixture.cache.increment("k") }
    }
}
