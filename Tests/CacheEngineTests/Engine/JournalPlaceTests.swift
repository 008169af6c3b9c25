// Which journal a start takes, makes and leaves: whatever stops it half way must not make a doubtful store believed.

import Glibc
import Hashing
import Primitives
import TestSupport
import Testing

@testable import CacheEngine

/// What a start can find in the journal's place that speaks against the store, or says nothing.
enum FoundJournal: CaseIterable, Sendable {
    case barred
    case barredInAnotherBoot
    case damaged
    case ofAnotherBoot
}

/// A directory as a crash has left it, with `k` in the index.
private final class CrashedStore {
    let clock: ManualClock
    let scratch: TempDirectory

    init(flushesIn milliseconds: Int64? = nil) throws {
        let fixture = try EngineFixture()
        clock = fixture.clock
        scratch = fixture.scratch
        try fixture.cache.set([1], forKey: "k")
        if let milliseconds {
            fixture.cache.flushAll(at: clock.now().advanced(byMilliseconds: milliseconds), now: clock.now())
        }
        fixture.settle()
        try scratch.copy("cache", to: "copy")
        fixture.close()
    }

    func open() throws -> Cache {
        var options = CacheOptions()
        options.disk = DiskOptions(directory: scratch.path("copy"))
        options.disk?.journalBytes = 1 << 20
        return try Cache.open(options, clock: clock)
    }

    func journal() throws -> [UInt8] { try scratch.read("copy/journal") }

    func change(_ found: FoundJournal) throws {
        var bytes = try journal()
        if found == .damaged { bytes[16] ^= 1 }
        if found == .barred || found == .barredInAnotherBoot { bytes.put(.max, at: 40) }
        if found == .ofAnotherBoot || found == .barredInAnotherBoot {
            bytes.put(bytes.number(at: 32) ^ 1, at: 32)
            bytes.put(bytes[8..<40].withUnsafeBytes { xxh3($0, seed: 0) }, at: 56)
        }
        try scratch.write(bytes, to: "copy/journal")
    }

    var quarantines: Int {
        get throws { try scratch.names("copy").count { $0.hasPrefix("quarantine-") } }
    }
}

@Suite struct JournalPlaceTests {
    /// As a kill there would, a start that cannot make a journal ends between its look at the present one and a new
    /// one.
    @Test(arguments: FoundJournal.allCases) func `a start that ends half way leaves the journal as it is`(
        found: FoundJournal
    ) throws {
        let store = try CrashedStore()
        try store.change(found)
        let before = try store.journal()
        let obstacle = store.scratch.path("copy/journal.new")
        #expect(mkdir(obstacle, 0o700) == 0)
        #expect(throws: CacheError.self) { try store.open() }
        #expect(try store.journal() == before)
        #expect(try store.quarantines == (found == .ofAnotherBoot ? 0 : 1))
        #expect(rmdir(obstacle) == 0)
        let cache = try store.open()
        #expect(cache.value(forKey: "k") == (found == .ofAnotherBoot ? [1] : nil))
        cache.close()
    }

    @Test func `a journal that was not finished is no journal`() throws {
        let store = try CrashedStore()
        try store.change(.ofAnotherBoot)
        try store.scratch.write([1, 2, 3], to: "copy/journal.new")
        let cache = try store.open()
        #expect(cache.value(forKey: "k") == [1])
        #expect(try !store.scratch.names("copy").contains("journal.new"))
        #expect(try store.quarantines == 0)
        cache.close()
    }

    @Test(arguments: [FoundJournal.barred, .damaged]) func `a delayed flush outlives a store that a start gives up`(
        found: FoundJournal
    ) throws {
        let store = try CrashedStore(flushesIn: 1_000_000)
        try store.change(found)
        let cache = try store.open()
        #expect(try store.quarantines == 1)
        try cache.set([2], forKey: "new")
        #expect(cache.value(forKey: "new") == [2])
        store.clock.advance(milliseconds: 1_000_000)
        #expect(cache.value(forKey: "new") == nil)
        cache.close()
    }

    @Test func `a new capacity waits until the old journal is drained`() throws {
        let fixture = try EngineFixture()
        fixture.holdWriter()
        try fixture.cache.set([1], forKey: "k")
        try fixture.scratch.copy("cache", to: "copy")
        var options = CacheOptions()
        options.disk = DiskOptions(directory: fixture.scratch.path("copy"))
        options.disk?.journalBytes = 2 << 20
        for capacity in [1 << 20, 2 << 20] {
            let cache = try Cache.open(options, clock: fixture.clock)
            #expect(cache.disk?.journal.capacity == capacity)
            #expect(cache.value(forKey: "k") == [1])
            cache.settle()
            cache.close()
        }
    }
}
