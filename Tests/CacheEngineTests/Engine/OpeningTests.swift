// Opening and closing: names, directories, options, keys, and what a stop and a boot leave.

import Foundation
import Primitives
import TestSupport
import Testing

@testable import CacheEngine

@Suite struct OpeningTests {
    @Test func `named caches are independent`() throws {
        let scratch = try TempDirectory()
        let one = try Cache.open(
            CacheOptions(name: "one", memoryBytes: 1 << 20, directory: scratch.path, diskBytes: 16 << 20))
        let two = try Cache.open(
            CacheOptions(name: "two", memoryBytes: 1 << 20, directory: scratch.path, diskBytes: 16 << 20))
        try one.set([1], forKey: "k")
        try two.set([2], forKey: "k")
        #expect(one.value(forKey: "k") == [1])
        #expect(two.value(forKey: "k") == [2])
        one.removeAll()
        #expect(two.value(forKey: "k") == [2])
        one.close()
        #expect(two.value(forKey: "k") == [2])
        two.close()
        #expect(try scratch.names("") == ["one", "two"])
    }

    @Test func `one cache per directory`() throws {
        let fixture = try EngineFixture()
        #expect {
            try Cache.open(fixture.options)
        } throws: { error in
            guard case .directoryInUse(_, let pid)? = error as? CacheError else { return false }
            return pid == getpid()
        }
        #expect(try fixture.cache.set([1], forKey: "k") > 0)
        fixture.close()
        let other = try Cache.open(fixture.options)
        #expect(other.value(forKey: "k") == [1])
        other.close()
    }

    @Test func `a directory that is not ours is left alone`() throws {
        let scratch = try TempDirectory()
        try scratch.write([1, 2, 3], to: "precious")
        var options = CacheOptions()
        options.disk = DiskOptions(directory: scratch.path)
        #expect(throws: CacheError.self) { try Cache.open(options) }
        #expect(try scratch.names("") == ["precious"])
    }

    /// Any byte of it: SQLite has an error of another kind for each.
    @Test func `an index with a damaged header is replaced, or does not matter`() throws {
        let fixture = try EngineFixture()
        try fixture.cache.set([1], forKey: "k")
        fixture.close()
        var options = fixture.options
        options.disk?.directory = fixture.scratch.path("copy")
        let index = "cache/store/index.db"
        let whole = try fixture.scratch.read(index)
        for byte in 0..<100 {
            var damaged = whole
            damaged[byte] ^= 0x80
            try fixture.scratch.write(damaged, to: index)
            try fixture.scratch.copy("cache", to: "copy")
            let cache = try Cache.open(options, clock: fixture.clock)
            let found = cache.value(forKey: "k")
            #expect(found == [1] || found == nil, "byte \(byte)")
            try cache.set([2], forKey: "k")
            #expect(cache.value(forKey: "k") == [2])
            cache.close()
            try FileManager.default.removeItem(atPath: fixture.scratch.path("copy"))
        }
    }

    @Test func `closing writes everything, and may be done again`() throws {
        let fixture = try EngineFixture()
        for number in 0..<3000 { try fixture.cache.set([1], forKey: "k\(number)") }
        fixture.cache.close()
        fixture.cache.close()
        try fixture.reopen()
        #expect(fixture.cache.startReport == "resumed after a clean stop")
        #expect(fixture.cache.entryCount(in: .disk) == 3000)
    }

    @Test(arguments: [true, false]) func `a last use that only memory knows survives a stop`(isEvicted: Bool) throws {
        let fixture = try EngineFixture()
        for key in ["used", "idle"] { try fixture.cache.set([1], forKey: key) }
        fixture.clock.advance(seconds: 3600)
        #expect(fixture.cache.value(forKey: "used") == [1])
        if isEvicted { fixture.dropMemory() }
        try fixture.reopen()
        #expect(fixture.cache.info(forKey: "used")?.idle == .zero)
        #expect(fixture.cache.info(forKey: "idle")?.idle == .seconds(3600))
    }

    @Test func `age and idle time go on over a boot`() throws {
        let fixture = try EngineFixture()
        try fixture.cache.set([1], forKey: "k", timeToLive: .seconds(5000))
        fixture.close()
        fixture.clock.advance(seconds: 1000)
        fixture.clock.reboot()
        try fixture.reopen()
        let info = try #require(fixture.cache.info(forKey: "k"))
        #expect(info.age == .seconds(1000))
        #expect(info.idle == .seconds(1000))
        #expect(info.timeToLive == .seconds(4000))
        // In memory, too, though it is older than the boot.
        #expect(fixture.cache.value(forKey: "k") == [1])
        #expect(fixture.cache.info(forKey: "k")?.age == .seconds(1000))
        #expect(fixture.cache.info(forKey: "k")?.idle == .zero)
        #expect(fixture.cache.trim(.memory, to: .age(.seconds(2000), .write)) == 0)
        #expect(fixture.cache.trim(.memory, to: .age(.seconds(900), .write)) == 1)
    }

    @Test func `a jump of the civil clock moves no deadline`() throws {
        let fixture = try EngineFixture()
        try fixture.cache.set([1], forKey: "k", timeToLive: .seconds(100))
        fixture.clock.jump(civilMilliseconds: 86_400_000)
        #expect(fixture.cache.info(forKey: "k")?.timeToLive == .seconds(100))
        fixture.settle()
        fixture.dropMemory()
        #expect(fixture.cache.entry(forKey: "k")?.timeToLive == .seconds(100))
    }

    /// Set back while the cache was closed: the disk's deadlines and times of writing are ahead of the clock then.
    @Test(arguments: [3600, 86_400 * 3650]) func `a clock that was set back gives no entry more time`(
        seconds: Int64
    ) throws {
        let fixture = try EngineFixture()
        let large = [UInt8](repeating: 1, count: 50_000)
        try fixture.cache.set([1], forKey: "row", timeToLive: .seconds(100))
        try fixture.cache.set(large, forKey: "file", timeToLive: .seconds(100))
        try fixture.cache.set([1], forKey: "touched", timeToLive: .seconds(100))
        try fixture.cache.set([1], forKey: "for ever")
        fixture.settle()
        fixture.holdWriter()
        #expect(fixture.cache.touch("touched", timeToLive: .seconds(50)))
        try fixture.cache.set([1], forKey: "journalled", timeToLive: .seconds(100))
        let journal = try fixture.reopenedCopy("with its journal")
        journal.close()
        try fixture.scratch.copy("cache", to: "copy")
        fixture.clock.jump(civilMilliseconds: -1000 * seconds)
        var options = fixture.options
        options.disk?.directory = fixture.scratch.path("copy")
        let cache = try Cache.open(options, clock: fixture.clock)
        for key in ["row", "file", "journalled"] {
            #expect(cache.info(forKey: key)?.timeToLive == .seconds(100), "\(key)")
            #expect(cache.entry(forKey: key)?.timeToLive == .seconds(100), "\(key)")
        }
        #expect(cache.entry(forKey: "touched")?.timeToLive == .seconds(50))
        #expect(cache.entry(forKey: "for ever")?.timeToLive == nil)
        // What is touched under the new clock has its new time, then and later.
        #expect(cache.touch("row", timeToLive: .seconds(70)))
        cache.settle()
        cache.close()
        let again = try Cache.open(options, clock: fixture.clock)
        #expect(again.entry(forKey: "row")?.timeToLive == .seconds(70))
        again.close()
    }

    /// Each read takes the entry out of the disk tier again, under a civil clock that does not catch up.
    @Test(arguments: [true, false]) func `reads from disk prolong no life under a clock that was set back`(
        isRebooted: Bool
    ) throws {
        let fixture = try EngineFixture()
        let large = [UInt8](repeating: 1, count: 50_000)
        try fixture.cache.set([1], forKey: "row", timeToLive: .seconds(10))
        try fixture.cache.set(large, forKey: "file", timeToLive: .seconds(10))
        for round in 1...9 {
            fixture.close()
            fixture.clock.jump(civilMilliseconds: -86_400_000)
            if isRebooted { fixture.clock.reboot(boot: 20_000 - Int64(round)) }
            try fixture.reopen()
            for _ in 0..<2 {
                for key in ["row", "file"] {
                    #expect(fixture.cache.info(forKey: key)?.timeToLive == .seconds(11 - round), "\(key) \(round)")
                    #expect(fixture.cache.entry(forKey: key)?.timeToLive == .seconds(11 - round), "\(key) \(round)")
                }
                fixture.settle()
                fixture.dropMemory()
            }
            fixture.clock.advance(seconds: 1)
        }
        fixture.clock.advance(seconds: 1)
        #expect(fixture.cache.entry(forKey: "row") == nil)
        #expect(fixture.cache.entry(forKey: "file") == nil)
    }

    /// The entry is walked in civil time, as the clock is set, whatever the store's clock says.
    @Test func `a restart under a clock that was set moves no deadline, and people see civil time`() throws {
        let fixture = try EngineFixture()
        for key in ["memory", "disk"] { try fixture.cache.set([1], forKey: key, timeToLive: .seconds(100)) }
        for jump: Int64 in [86_400_000 * 3650, -2 * 86_400_000 * 3650] {
            fixture.close()
            fixture.clock.jump(civilMilliseconds: jump)
            try fixture.reopen()
            #expect(fixture.cache.entry(forKey: "memory")?.timeToLive == .seconds(100))
            let found = fixture.walk().values.joined()
            #expect(found.count == 2)
            for entry in found {
                #expect(entry.deadline.seconds - fixture.clock.wall().seconds == 100)
                #expect(abs(entry.accessed.seconds - fixture.clock.wall().seconds) <= 1)
            }
        }
    }

    @Test func `a boot id that cannot be read equals no other`() throws {
        let scratch = try TempDirectory()
        #expect(DiskStart.bootID(at: scratch.path("absent")) == "")
        try scratch.write([], to: "empty")
        #expect(DiskStart.bootID(at: scratch.path("empty")) == "")
        try scratch.write(Array("7d2f\n".utf8), to: "id")
        #expect(DiskStart.bootID(at: scratch.path("id")) == "7d2f")
        #expect(!DiskStart.bootID.isEmpty)
    }

    @Test func `options that make no sense are refused`() {
        let changes: [(inout CacheOptions) -> Void] = [
            { $0.memory.shards = 3 }, { $0.memory.shards = 0 }, { $0.memory.bytesMax = 0 },
            { $0.memory.entriesMax = 0 },
            { $0.memory.ageMax = 0 }, { $0.name = "" }, { $0.name = "../x" }, { $0.name = "a/b" },
            { $0.entryBytesMax = -1 }, { $0.entryBytesMax = 1 << 40 }, { $0.memoryTrimInterval = 0 },
            { $0.disk = DiskOptions(directory: "") }, { $0.disk?.bytesMax = 1000 }, { $0.disk?.entriesMax = 0 },
            { $0.disk?.ageMax = 0 }, { $0.disk?.readers = 0 }, { $0.disk?.trimInterval = 0 },
            { $0.disk?.journalBytes = -1 },
        ]
        for (number, change) in changes.enumerated() {
            var options = CacheOptions()
            options.disk = DiskOptions(directory: "/nonexistent/never-made")
            change(&options)
            #expect(options.problem != nil, "change \(number)")
            #expect(throws: CacheError.self, "change \(number)") { try Cache.open(options) }
        }
        #expect(CacheOptions().problem == nil)
    }

    @Test func `keys and data have their limits`() throws {
        let fixture = try EngineFixture()
        let cache = fixture.cache
        try cache.set([1], forKey: String(repeating: "k", count: 250))
        #expect(throws: StorageError.keyLength(251)) { try cache.set([1], forKey: String(repeating: "k", count: 251)) }
        #expect(throws: StorageError.keyLength(0)) { try cache.set([1], forKey: "") }
        #expect(throws: StorageError.extendedTooLong(bytes: 4097)) {
            try cache.set([1], forKey: "k", extended: [UInt8](repeating: 1, count: 4097))
        }
        try cache.set([1], forKey: "k", extended: [UInt8](repeating: 1, count: 4096))
        #expect(cache.entry(forKey: "k")?.extended.count == 4096)
        // Any bytes are a key.
        for key in [[0], [0, 0], [255, 0, 39, 34], Array("a'; drop table entry; --".utf8)] as [[UInt8]] {
            try cache.set(key, forKey: key)
        }
        fixture.settle()
        fixture.dropMemory()
        for key in [[0], [0, 0], [255, 0, 39, 34], Array("a'; drop table entry; --".utf8)] as [[UInt8]] {
            #expect(cache.value(forKey: key) == key)
        }
        // What cannot be a key is not there.
        for key in ["", String(repeating: "k", count: 251), String(repeating: "k", count: 5000)] {
            #expect(cache.value(forKey: key) == nil)
            #expect(!cache.contains(key))
            #expect(!cache.remove(key))
            #expect(!cache.touch(key, timeToLive: nil))
            #expect(try cache.increment(key) == nil)
        }
    }
}
