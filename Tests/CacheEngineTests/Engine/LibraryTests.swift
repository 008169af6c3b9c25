// The engine as a library: what programs use beside single values.

import Foundation
import Primitives
import TestSupport
import Testing

@testable import CacheEngine

private func text(_ keys: [[UInt8]]) -> [String] { keys.map { String(decoding: $0, as: UTF8.self) } }

@Suite struct EnumerationTests {
    @Test func `shows every live entry of either tier once`() throws {
        let fixture = try EngineFixture { $0.memory.shards = 4 }
        let cache = fixture.cache
        for number in 0..<3000 { try cache.set([1], forKey: "disk\(number)") }
        try cache.set([1], forKey: "expired", timeToLive: .seconds(1))
        fixture.settle()
        fixture.dropMemory()
        for number in 0..<500 { try cache.set([1], forKey: "both\(number)") }
        try cache.set([1], forKey: "dies", timeToLive: .seconds(1))
        for number in 0..<100 { #expect(cache.value(forKey: "disk\(number)") == [1]) }
        fixture.clock.advance(seconds: 2)
        let all = (0..<3000).map { "disk\($0)" } + (0..<500).map { "both\($0)" }
        #expect(text(cache.keys()).sorted() == all.sorted())
        #expect(text(cache.keys(in: .disk)).sorted() == all.sorted())
        #expect(cache.keys(in: .memory).count == 600)
        // Nothing was promoted or used by looking.
        #expect(cache.entryCount(in: .memory) == 601)
    }

    @Test func `stops when told`() throws {
        let fixture = try EngineFixture()
        for number in 0..<2000 { try fixture.cache.set([1], forKey: "k\(number)") }
        fixture.settle()
        for tier in [Tier.memory, .disk, nil] {
            var seen = 0
            fixture.cache.forEachEntry(in: tier) { _, stop in
                seen += 1
                stop = seen == 700
            }
            #expect(seen == 700)
        }
        fixture.dropMemory()
        var seen = 0
        fixture.cache.forEachEntry { _, stop in
            seen += 1
            stop = seen == 1100
        }
        #expect(seen == 1100)
    }

    @Test func `holds no lock while the program looks`() throws {
        let fixture = try EngineFixture()
        for number in 0..<300 { try fixture.cache.set([1], forKey: "k\(number)") }
        var removed = 0
        fixture.cache.forEachEntry { entry, _ in if fixture.cache.remove(entry.key) { removed += 1 } }
        #expect(removed == 300)
        #expect(fixture.cache.keys().isEmpty)
    }

    @Test func `what stays is shown, whatever comes and goes`() throws {
        let fixture = try EngineFixture()
        for number in 0..<1500 { try fixture.cache.set([1], forKey: "stays\(number)") }
        fixture.settle()
        var random = SeededRandom(seed: 2)
        var seen: [String: Int] = [:]
        fixture.cache.forEachEntry { entry, _ in
            seen[String(decoding: entry.key, as: UTF8.self), default: 0] += 1
            for _ in 0..<3 {
                let key = "comes\(random.below(5000))"
                if random.isOne(in: 2) {
                    fixture.cache.remove([key])
                } else {
                    do { try fixture.cache.set([2], forKey: key) } catch { Issue.record(error) }
                }
            }
            if random.isOne(in: 200) { fixture.dropMemory() }
        }
        for number in 0..<1500 { #expect(seen["stays\(number)"] == 1, "stays\(number)") }
    }
}

@Suite struct TrimTests {
    private func filled(_ adjust: (inout CacheOptions) -> Void = { _ in }) throws -> EngineFixture {
        let fixture = try EngineFixture(adjust)
        for number in 0..<1000 {
            try fixture.cache.set([UInt8](repeating: 1, count: number), forKey: "k\(number)")
            fixture.clock.advance(seconds: 1)
        }
        fixture.settle()
        return fixture
    }

    private func numbers(_ fixture: EngineFixture, in tier: Tier) -> [Int] {
        text(fixture.cache.keys(in: tier)).compactMap { Int($0.dropFirst()) }.sorted()
    }

    @Test(arguments: Tier.allCases, [1, 4]) func `to a number of entries`(tier: Tier, shards: Int) throws {
        let fixture = try filled { $0.memory.shards = shards }
        if tier == .disk { fixture.dropMemory() }
        #expect(fixture.cache.trim(tier, to: .entries(100)) == 900)
        #expect(numbers(fixture, in: tier) == Array(900..<1000))
        #expect(fixture.cache.entryCount(in: tier) == 100)
        // The other tier is left alone.
        #expect(fixture.cache.entryCount(in: tier == .disk ? .memory : .disk) == (tier == .disk ? 0 : 1000))
        #expect(fixture.cache.trim(tier, to: .entries(100)) == 0)
        #expect(fixture.cache.trim(tier, to: .entries(0)) == 100)
        try fixture.cache.checkDiskCounters()
        fixture.cache.checkMemoryCounters()
    }

    @Test func `to a number of bytes in memory`() throws {
        let fixture = try filled()
        let before = fixture.cache.byteCount(in: .memory)
        #expect(fixture.cache.trim(.memory, to: .bytes(before / 2)) > 0)
        #expect(fixture.cache.byteCount(in: .memory) <= before / 2)
        #expect(fixture.cache.byteCount(in: .memory) > before / 2 - 1200)
        #expect(numbers(fixture, in: .memory).last == 999)
    }

    @Test func `to a number of bytes on disk`() throws {
        let fixture = try EngineFixture()
        for number in 0..<60 { try fixture.cache.set([UInt8](repeating: 1, count: 100_000), forKey: "k\(number)") }
        fixture.settle()
        fixture.dropMemory()
        #expect(fixture.cache.trim(.disk, to: .bytes(3 << 20)) > 20)
        #expect((fixture.cache.statistics().disk?.fileBytes ?? .max) <= 3 << 20)
        #expect(fixture.cache.entryCount(in: .disk) > 20)
        #expect(
            fixture.scratch.files(below: "cache/store/v").filter { $0.contains("/") }.count
                == fixture.cache.entryCount(in: .disk))
    }

    @Test(arguments: Tier.allCases, [AgeBase.access, .write]) func `by age and by date`(tier: Tier, base: AgeBase)
        throws
    {
        let fixture = try filled()
        // Number 10 is used again, and the index may learn it.
        fixture.clock.advance(seconds: 600)
        #expect(fixture.cache.value(forKey: "k10")?.count == 10)
        if tier == .disk { fixture.dropMemory() }
        let border = fixture.clock.wall().seconds - 600 - 500
        #expect(fixture.cache.trim(tier, to: .date(secondsSince1970: border, base)) == (base == .access ? 499 : 500))
        #expect(numbers(fixture, in: tier) == (base == .access ? [10] : []) + Array(500..<1000))
        #expect(fixture.cache.trim(tier, to: .age(.seconds(600 + 100), base)) == 400)
        #expect(numbers(fixture, in: tier) == (base == .access ? [10] : []) + Array(900..<1000))
    }

    @Test(arguments: Tier.allCases) func `by size of values`(tier: Tier) throws {
        let fixture = try filled()
        #expect(fixture.cache.trim(tier, to: .valueBytes(300)) == 699)
        #expect(numbers(fixture, in: tier) == Array(0...300))
    }

    @Test(arguments: Tier.allCases) func `of what has expired`(tier: Tier) throws {
        let fixture = try filled()
        for number in 0..<400 { fixture.cache.touch("k\(number)", timeToLive: .seconds(5)) }
        fixture.settle()
        fixture.clock.advance(seconds: 5)
        if tier == .memory {
            #expect(fixture.cache.trim(.memory, to: .unexpired) == 400)
        } else {
            // The writer may have come first.
            fixture.cache.trim(.disk, to: .unexpired)
        }
        #expect(fixture.cache.entryCount(in: tier) == 600)
    }

    @Test func `with progress that may stop it`() throws {
        let fixture = try filled()
        fixture.dropMemory()
        var steps: [Int] = []
        let removed = fixture.cache.trim(.disk, to: .entries(0)) { removed, stop in
            steps.append(removed)
            stop = steps.count == 2
        }
        #expect(steps.count == 2)
        #expect(removed == steps.last)
        #expect(removed < 1000)
    }

    @Test func `async`() async throws {
        let fixture = try filled()
        fixture.dropMemory()
        #expect(await fixture.cache.trim(.disk, to: .entries(10)) == 990)
        await fixture.cache.removeAll()
        #expect(fixture.cache.entryCount(in: .memory) == 0)
    }

    @Test func `shrinks under pressure, step by step`() throws {
        let fixture = try filled()
        let before = fixture.cache.byteCount(in: .memory)
        let freed = fixture.cache.shrinkMemory(toFraction: 0.75)
        let after = fixture.cache.byteCount(in: .memory)
        #expect(freed == before - after)
        #expect(after <= before * 3 / 4)
        #expect(after > before * 3 / 4 - 1200)
        #expect(fixture.cache.shrinkMemory(toFraction: 1) == 0)
        #expect(fixture.cache.shrinkMemory(toFraction: .nan) == 0)
        #expect(fixture.cache.entryCount(in: .disk) == 1000)
        #expect(fixture.cache.memoryLimits.bytesMax == fixture.options.memory.bytesMax)
        fixture.cache.shrinkMemory(toFraction: -1)
        #expect(fixture.cache.entryCount(in: .memory) == 0)
    }
}

@Suite struct LimitTests {
    @Test func `memory limits change at run time, down and up`() throws {
        let fixture = try EngineFixture()
        let cache = fixture.cache
        for number in 0..<1000 { try cache.set([UInt8](repeating: 1, count: 1000), forKey: "k\(number)") }
        cache.changeMemoryLimits { $0.bytesMax = 200_000 }
        #expect(cache.byteCount(in: .memory) <= 200_000)
        #expect(cache.statistics().memoryBytesMax == 200_000)
        cache.changeMemoryLimits { $0.entriesMax = 50 }
        #expect(cache.entryCount(in: .memory) == 50)
        #expect(cache.keysOldestFirst().last == "k999")
        cache.changeMemoryLimits {
            $0.bytesMax = nil
            $0.entriesMax = nil
        }
        for number in 0..<1000 { #expect(cache.value(forKey: "k\(number)") != nil) }
        #expect(cache.entryCount(in: .memory) == 1000)
    }

    @Test func `disk limits change at run time`() throws {
        let fixture = try EngineFixture()
        for number in 0..<1000 { try fixture.cache.set([1], forKey: "k\(number)") }
        fixture.settle()
        fixture.dropMemory()
        fixture.cache.changeDiskLimits { $0.entriesMax = 300 }
        until { fixture.cache.entryCount(in: .disk) == 300 }
        #expect(fixture.cache.diskLimits?.entriesMax == 300)
    }

    @Test func `the memory age limit changes at run time`() throws {
        let fixture = try EngineFixture { $0.memoryTrimInterval = 1 }
        try fixture.cache.set([1], forKey: "k")
        fixture.clock.advance(seconds: 100)
        fixture.cache.changeMemoryLimits { $0.ageMax = 50_000 }
        until { fixture.cache.entryCount(in: .memory) == 0 }
        #expect(fixture.cache.value(forKey: "k") == [1])
    }

    @Test func `counts and bytes are those of a recount`() throws {
        let fixture = try EngineFixture()
        for number in 0..<200 {
            try fixture.cache.set([UInt8](repeating: 1, count: number * 200), forKey: "k\(number)")
        }
        for number in 0..<50 { fixture.cache.remove("k\(number)") }
        fixture.settle()
        #expect(fixture.cache.entryCount(in: .memory) == 150)
        #expect(fixture.cache.entryCount(in: .disk) == 150)
        fixture.cache.checkMemoryCounters()
        try fixture.cache.checkDiskCounters()
        try fixture.reopen()
        #expect(fixture.cache.entryCount(in: .disk) == 150)
        #expect(fixture.cache.byteCount(in: .disk) > 100 * 200 * 150)
    }
}

@Suite struct BatchTests {
    @Test func `gets, sets and removes many`() throws {
        let fixture = try EngineFixture { $0.memory.valueBytesMax = 50_000 }
        let cache = fixture.cache
        let large = [UInt8](repeating: 7, count: 300_000)
        try cache.set((0..<500).map { (key: "k\($0)", value: [UInt8($0 % 256)]) }, timeToLive: .seconds(100))
        try cache.set(large, forKey: "large")
        fixture.settle()
        fixture.dropMemory()
        let keys = (0..<600).map { "k\($0)" } + ["large"]
        let values = cache.values(forKeys: keys)
        #expect(values.count == 601)
        for number in 0..<600 { #expect(values[number] == (number < 500 ? [UInt8(number % 256)] : nil)) }
        #expect(values[600] == large)
        #expect(cache.entries(forKeys: ["k1", "k2"]).map(\.?.timeToLive) == [.seconds(100), .seconds(100)])
        cache.remove((0..<300).map { "k\($0)" })
        #expect(cache.values(forKeys: keys).filter { $0 != nil }.count == 201)
        #expect(cache.info(forKeys: ["k0", "k300"]).map { $0 != nil } == [false, true])
        #expect(cache.values(forKeys: [String]()) == [])
        cache.remove([String(repeating: "x", count: 300), ""])
    }

    @Test func `async, the same`() async throws {
        let fixture = try EngineFixture()
        for number in 0..<300 { try await fixture.cache.set([1], forKey: "k\(number)") }
        fixture.settle()
        fixture.dropMemory()
        let values = await fixture.cache.values(forKeys: (0..<400).map { "k\($0)" })
        #expect(values.filter { $0 == [1] }.count == 300)
    }
}

@Suite struct AsyncTests {
    @Test func `every operation, from disk`() async throws {
        let fixture = try EngineFixture { $0.memory.valueBytesMax = 100_000 }
        let cache = fixture.cache
        func cool() {
            fixture.settle()
            fixture.dropMemory()
        }
        let large = [UInt8](repeating: 3, count: 1_000_000)
        try await cache.set(Array("5".utf8), forKey: "n", timeToLive: .seconds(9), flags: 4, extended: [1])
        try await cache.set(large, forKey: "large")
        cool()
        #expect(await cache.entry(forKey: "n")?.flags == 4)
        #expect(await cache.value(forKey: "large") == large)
        cool()
        #expect(await cache.tier(ofKey: "n") == .disk)
        #expect(await cache.contains("large"))
        #expect(await !cache.contains("nothing"))
        #expect(try await cache.add([1], forKey: "n") == nil)
        #expect(try await cache.increment("n", by: 5) == 10)
        #expect(try await cache.decrement("n", by: 3) == 7)
        cool()
        #expect(try await cache.append(Array("x".utf8), toValueForKey: "n") != nil)
        #expect(try await cache.prepend(Array("y".utf8), toValueForKey: "n") != nil)
        await #expect(throws: StorageError.notNumeric) { try await cache.increment("n") }
        cool()
        #expect(await cache.touch("n", timeToLive: .seconds(50)))
        #expect(await cache.entry(forKey: "n", newTimeToLive: .seconds(60))?.timeToLive == .seconds(60))
        let cas = try #require(await cache.info(forKey: "n")?.cas)
        #expect(try await cache.compareAndSet([2], forKey: "n", cas: cas + 1) == .changed)
        #expect(try await cache.compareAndSet([2], forKey: "nothing", cas: cas) == .absent)
        #expect(try await cache.replace([3], forKey: "n") != nil)
        #expect(try await cache.replace([3], forKey: "nothing") == nil)
        cool()
        #expect(await cache.remove("n"))
        #expect(await !cache.remove("n"))
        #expect(await cache.value(forKey: "n") == nil)
        await #expect(throws: StorageError.keyLength(0)) { try await cache.set([1], forKey: "") }
        await #expect(throws: StorageError.valueTooLarge(bytes: 65 << 20)) {
            try await cache.set([UInt8](repeating: 0, count: 65 << 20), forKey: "n")
        }
    }

    @Test func `many tasks at once`() async throws {
        let fixture = try EngineFixture { $0.memory.bytesMax = 64 << 10 }
        let cache = fixture.cache
        try await withThrowingTaskGroup(of: Void.self) { group in
            for task in 0..<20 {
                group.addTask {
                    for number in 0..<50 {
                        let key = "k\(task)-\(number)"
                        try await cache.set([UInt8](repeating: UInt8(task), count: 100 + number * 10), forKey: key)
                        #expect(await cache.value(forKey: key)?.count == 100 + number * 10)
                    }
                }
            }
            try await group.waitForAll()
        }
        for task in 0..<20 { #expect(await cache.value(forKey: "k\(task)-0")?.first == UInt8(task)) }
    }
}

@Suite struct EventTests {
    @Test func `come with their reasons and in order`() throws {
        let fixture = try EngineFixture { options in
            options.disk = nil
            options.memory.entriesMax = 3
            options.memoryTrimInterval = 1
        }
        let cache = fixture.cache
        let seen = Answer<[String]>([])
        let observation = cache.observe { events, _ in
            seen.update { $0 += events.map { "\($0.reason) \(String(decoding: $0.key, as: UTF8.self))" } }
        }
        try cache.set([1], forKey: "a")
        try cache.set([1], forKey: "b")
        try cache.set([2], forKey: "a")
        try cache.append([3], toValueForKey: "a")
        cache.remove("b")
        try cache.set([1], forKey: "c", timeToLive: .seconds(1))
        fixture.clock.advance(seconds: 1)
        #expect(cache.value(forKey: "c") == nil)
        for key in ["d", "e", "f"] { try cache.set([1], forKey: key) }
        cache.removeAll()
        let expected = ["replaced a", "replaced a", "deleted b", "expired c", "evicted a", "flushed "]
        until { seen.value.count >= expected.count }
        #expect(seen.value == expected)
        observation.cancel()
        try cache.set([1], forKey: "x")
        cache.remove("x")
        let other = Answer(0)
        let second = cache.observe { events, _ in other.update { $0 += events.count } }
        try cache.set([1], forKey: "y")
        cache.remove("y")
        until { other.value == 1 }
        #expect(seen.value == expected)
        second.cancel()
    }

    @Test func `an observer may use the cache`() throws {
        let fixture = try EngineFixture { $0.memoryTrimInterval = 1 }
        let cache = fixture.cache
        let count = Answer(0)
        let observation = cache.observe { events, _ in
            for event in events where event.reason == .deleted {
                _ = cache.value(forKey: event.key)
                count.update { $0 += 1 }
            }
        }
        for number in 0..<100 {
            try cache.set([1], forKey: "k\(number)")
            cache.remove("k\(number)")
        }
        until { count.value == 100 }
        observation.cancel()
    }

    @Test func `too many are dropped and counted, not kept`() throws {
        let fixture = try EngineFixture { options in
            options.disk = nil
            options.memoryTrimInterval = 1
        }
        let held = Primitives.Semaphore()
        let release = Primitives.Semaphore()
        let total = Answer((events: 0, dropped: 0, calls: 0))
        let observation = fixture.cache.observe { events, dropped in
            total.update { $0 = ($0.events + events.count, $0.dropped + dropped, $0.calls + 1) }
            if total.value.calls == 1 {
                held.signal()
                release.wait()
            }
        }
        try fixture.cache.set([1], forKey: "first")
        fixture.cache.remove("first")
        held.wait()
        for number in 0..<10_000 {
            try fixture.cache.set([1], forKey: "k")
            if number == 9_999 { fixture.cache.remove("k") }
        }
        release.signal()
        until { total.value.calls == 2 }
        #expect(total.value.events == 1 + 8192)
        #expect(total.value.dropped == 10_000 - 8192)
        observation.cancel()
    }
}

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

@Suite struct ReleaseTests {
    /// The background thread is kept busy by an observer; nobody waits for it, and little waits for it.
    @Test func `large values are freed by the background thread`() throws {
        let fixture = try EngineFixture { options in
            options.disk = nil
            options.memory.bytesMax = 256 << 20
        }
        let cache = fixture.cache
        let held = Primitives.Semaphore()
        let goOn = Primitives.Semaphore()
        let isFirst = Answer(true)
        let observation = cache.observe { _, _ in
            guard isFirst.value else { return }
            isFirst.value = false
            held.signal()
            goOn.wait()
        }
        try cache.set([1], forKey: "small")
        cache.remove("small")
        held.wait()
        #expect(cache.memory.release.waitingBytes == 0)
        for number in 0..<40 {
            try cache.set([UInt8](repeating: UInt8(number), count: 1_000_000), forKey: "large")
        }
        let waiting = cache.memory.release.waitingBytes
        #expect(waiting > 7_000_000)
        #expect(waiting <= DeferredRelease.bytesMax)
        #expect(cache.value(forKey: "large")?.last == 39)
        goOn.signal()
        until { cache.memory.release.waitingBytes == 0 }
        cache.checkMemoryCounters()
        observation.cancel()
        fixture.close()
        // Nobody is left to free for others.
        #expect(cache.memory.release.waitingBytes == 0)
    }
}
