// disk.limit at the moment when value files are written: they wait for room, or are not written at all.

import Foundation
import Primitives
import TestSupport
import Testing

@testable import CacheEngine

@Suite struct FileSpaceTests {
    private static let limit = 8 << 20

    private static func fixture(_ adjust: (inout CacheOptions) -> Void = { _ in }) throws -> EngineFixture {
        try EngineFixture { options in
            options.memory.bytesMax = 2 << 20
            options.disk?.bytesMax = limit
            adjust(&options)
        }
    }

    /// Stores 40,000 bytes under each of `keys` on a thread of its own, one after the other.
    private static func store(_ keys: Range<Int>, _ cache: Cache) -> OSThread {
        OSThread(name: "stores") {
            for key in keys {
                do {
                    try cache.set([UInt8](repeating: UInt8(key % 251), count: 40_000), forKey: "k\(key)")
                } catch {
                    Issue.record("\(error)")
                }
            }
        }
    }

    /// With the writer held nothing that is written reaches the index, or is ever deleted.
    @Test func `files that the index does not know count, and the next ones wait`() throws {
        let fixture = try Self.fixture()
        let cache = fixture.cache
        fixture.holdWriter()
        let thread = Self.store(0..<400, cache)
        until { (cache.statistics().disk?.fileWaits ?? 0) > 0 }
        let path = fixture.scratch.path("cache")
        #expect(allocatedBytes(below: path) <= Self.limit)
        #expect(allocatedBytes(below: path) > Self.limit / 2)
        fixture.releaseWriter()
        thread.join()
        fixture.settle()
        #expect(allocatedBytes(below: path) <= Self.limit)
        #expect(cache.statistics().disk?.fileRefusals == 0)
        #expect(cache.statistics().disk?.writeErrors == 0)
        fixture.dropMemory()
        #expect(cache.value(forKey: "k399")?.first == UInt8(399 % 251))
        #expect(cache.disk?.space.underWayBytes == 0)
        try cache.checkDiskCounters()
    }

    @Test func `what the journal has at a start counts until the index has it`() throws {
        let fixture = try Self.fixture()
        fixture.holdWriter()
        for key in 0..<5 { try fixture.cache.set([UInt8](repeating: 1, count: 40_000), forKey: "k\(key)") }
        let held = fixture.cache.disk?.space.underWayBytes
        #expect(held == 5 * ValueFiles.allocatedBytes(keyBytes: 2, valueBytes: 40_000))
        let copy = try fixture.reopenedCopy()
        copy.settle()
        #expect(copy.disk?.space.underWayBytes == 0)
        #expect(copy.value(forKey: "k4")?.count == 40_000)
        copy.close()
    }

    @Test func `a value that the limit has no room for bars its older copy`() throws {
        let fixture = try Self.fixture { $0.memory.valueBytesMax = 1 << 20 }
        let cache = fixture.cache
        try cache.set([1], forKey: "k")
        fixture.settle()
        #expect(throws: StorageError.self) {
            try cache.set([UInt8](repeating: 2, count: Self.limit), forKey: "k")
        }
        fixture.dropMemory()
        #expect(cache.value(forKey: "k") == nil)
        #expect(cache.statistics().disk?.fileRefusals == 1)
        #expect(cache.disk?.space.underWayBytes == 0)
    }

    /// What room a full file system has belongs to the index.
    @Test func `while the file system is full no files are begun`() throws {
        let fixture = try Self.fixture()
        let cache = fixture.cache
        try cache.set([UInt8](repeating: 1, count: 40_000), forKey: "k")
        fixture.settle()
        let fault = DiskError(kind: .full, operation: "test", code: 0, message: "as the test wants it")
        cache.disk?.injected.withLock { $0.commitFault = fault }
        try cache.set([1], forKey: "small")
        until { cache.disk?.state == .full }
        try cache.set([UInt8](repeating: 2, count: 40_000), forKey: "k")
        #expect(cache.statistics().disk?.fileRefusals == 1)
        #expect(cache.value(forKey: "k")?.first == 2)
        cache.disk?.injected.withLock { $0.commitFault = nil }
        until {
            fixture.clock.advance(milliseconds: 100)
            return cache.disk?.state == .ok
        }
        fixture.settle()
        fixture.dropMemory()
        #expect(cache.value(forKey: "k")?.first == nil)
        try cache.set([UInt8](repeating: 3, count: 40_000), forKey: "k")
        fixture.settle()
        fixture.dropMemory()
        #expect(cache.value(forKey: "k")?.first == 3)
    }

    /// Opening the index takes room, for its shared memory: somebody has to give way.
    @Test func `an index that a full file system does not let be opened makes files go`() throws {
        let fixture = try Self.fixture()
        let cache = fixture.cache
        for key in 0..<60 { try cache.set([UInt8](repeating: UInt8(key), count: 40_000), forKey: "k\(key)") }
        fixture.settle()
        let fault = DiskError(kind: .full, operation: "test", code: 0, message: "as the test wants it")
        let files = fixture.scratch.path("cache/store/v")
        let before = allocatedBytes(below: files)
        cache.disk?.injected.withLock {
            $0.commitFault = fault
            $0.openFault = fault
        }
        try cache.set([1], forKey: "small")
        until {
            fixture.clock.advance(milliseconds: 100)
            return allocatedBytes(below: files) <= before - (1 << 20)
        }
        cache.disk?.injected.withLock {
            $0.commitFault = nil
            $0.openFault = nil
        }
        until {
            fixture.clock.advance(milliseconds: 100)
            return cache.disk?.state == .ok && cache.disk?.journal.usedBytes == 0
        }
        fixture.settle()
        fixture.dropMemory()
        #expect(cache.value(forKey: "small") == [1])
        for key in 0..<60 {
            let found = cache.value(forKey: "k\(key)")
            #expect(found == nil || found?.first == UInt8(key), "k\(key)")
        }
        #expect(cache.statistics().disk?.quarantines == 0)
    }
}
