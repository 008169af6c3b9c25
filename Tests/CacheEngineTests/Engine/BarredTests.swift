// The barred flag and the state of a disk that fails: what a start would find at each moment.

import Foundation
import Glibc
import Primitives
import Synchronization
import TestSupport
import Testing

@testable import CacheEngine

/// A cache with a disk tier, and what its journal's file says when the state changes.
private final class Watched {
    let scratch: TempDirectory
    let clock = ManualClock()
    let seen = Answer<[(DiskState, UInt64)]>([])
    let cache: Cache

    init(_ durability: Durability) throws {
        scratch = try TempDirectory()
        var options = CacheOptions()
        var disk = DiskOptions(directory: scratch.path("cache"))
        disk.journalBytes = 1 << 20
        disk.durability = durability
        options.disk = disk
        let path = scratch.path("cache/journal")
        let seen = seen
        cache = try Cache.open(options, clock: clock) { state, _ in seen.value += [(state, Watched.barred(in: path))] }
    }

    /// The flag as another process reads it.
    static func barred(in path: String) -> UInt64 {
        let file = open(path, O_RDONLY)
        defer { close(file) }
        var flag: UInt64 = .max
        return pread(file, &flag, 8, 40) == 8 ? flag : .max
    }
}

@Suite struct BarredTests {
    /// A store that is given up must be barred before anybody can see that it is: from then on writes are acknowledged
    /// that it does not have.
    @Test(arguments: [Durability.process, .always]) func `the store is barred before its loss is seen`(
        durability: Durability
    ) throws {
        let watched = try Watched(durability)
        try watched.cache.set([1], forKey: "k")
        #expect(Watched.barred(in: watched.scratch.path("cache/journal")) == 0)
        watched.cache.onWriter { $0.degrade("as the test wants it") }
        until {
            watched.clock.advance(milliseconds: 100)
            // The state changes before its owner is told.
            return watched.cache.disk?.state == .ok && watched.seen.value.count > 1
        }
        #expect(watched.seen.value.map(\.0) == [.degraded, .ok])
        #expect(watched.seen.value.map { $0.1 != 0 } == [true, false])
        watched.cache.close()
    }

    @Test func `a cache on a store that was barred starts empty`() throws {
        let fixture = try EngineFixture()
        try fixture.cache.set([1], forKey: "k")
        fixture.settle()
        fixture.cache.onWriter { $0.disk.journal.setBarred(true) }
        let copy = try fixture.reopenedCopy()
        #expect(copy.value(forKey: "k") == nil)
        #expect(try fixture.scratch.names("copy").contains { $0.hasPrefix("quarantine-") })
        copy.close()
        // With the flag taken back it is the same store again.
        fixture.cache.onWriter { $0.disk.journal.setBarred(false) }
        let second = try fixture.reopenedCopy("second")
        #expect(second.value(forKey: "k") == [1])
        second.close()
    }

    /// A full disk may refuse the index's opening, too, after a failed commit: that says nothing about its content.
    @Test func `an index that cannot be opened again is tried until it can`() throws {
        let fixture = try EngineFixture()
        let cache = fixture.cache
        try cache.set([1], forKey: "before")
        fixture.settle()
        let path = fixture.scratch.path("cache/store")
        let index = "\(path)/index.db"
        // Opening fails where a directory is. All at once: the writer opens what it finds closed between two requests.
        cache.onWriter { writer in
            writer.index?.close()
            #expect(rename(index, "\(path)/aside") == 0)
            #expect(mkdir(index, 0o700) == 0)
        }
        try cache.set([2], forKey: "during")
        fixture.clock.advance(milliseconds: 100)
        until { (cache.statistics().disk?.writeErrors ?? 0) > 0 }
        // All at once, too: where nothing is, the writer would make a new index.
        cache.onWriter { _ in
            #expect(rmdir(index) == 0)
            #expect(rename("\(path)/aside", index) == 0)
        }
        until {
            fixture.clock.advance(milliseconds: 100)
            return cache.disk?.journal.usedBytes == 0
        }
        fixture.settle()
        fixture.dropMemory()
        #expect(cache.value(forKey: "during") == [2])
        #expect(cache.value(forKey: "before") == [1])
        #expect(cache.statistics().disk?.quarantines == 0)
    }
}
