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
        // The one that died counts until the background trims it, which a slow machine may see.
        #expect((600...601).contains(cache.entryCount(in: .memory)))
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
        #expect(waiting > 1_000_000)
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
