// Several threads at once, with values that say who wrote them: nothing torn, nothing of another key, nothing older
// than what the thread itself has seen.

import Foundation
import Primitives
import TestSupport
import Testing

@testable import CacheEngine

/// A value that describes itself: key, writer, version, a filling made of them, and a sum.
private struct Described: Equatable {
    var key: Int
    var writer: Int
    var version: Int

    var bytes: [UInt8] {
        let head = "\(key) \(writer) \(version) "
        var random = SeededRandom(seed: UInt64(key) << 40 | UInt64(writer) << 32 | UInt64(version))
        let size = random.isOne(in: 40) ? 22_000 + random.below(100_000) : random.below(600)
        return Array(head.utf8) + random.bytes(size)
    }

    init(key: Int, writer: Int, version: Int) {
        self.key = key
        self.writer = writer
        self.version = version
    }

    /// nil if the bytes are not exactly those that some writer wrote for `key`.
    init?(_ bytes: [UInt8], of key: Int) {
        let words = bytes.split(separator: 32, maxSplits: 3, omittingEmptySubsequences: false)
        guard words.count == 4 else { return nil }
        let numbers = words[..<3].compactMap { Int(String(decoding: $0, as: UTF8.self)) }
        guard numbers.count == 3, numbers[0] == key else { return nil }
        self.init(key: key, writer: numbers[1], version: numbers[2])
        guard self.bytes == bytes else { return nil }
    }
}

@Suite struct ConcurrencyTests {
    private static let threads = 4

    private func inParallel(_ body: @escaping @Sendable (Int) throws -> Void) {
        let threads = (0..<Self.threads).map { number in
            OSThread(name: "test-\(number)") {
                do { try body(number) } catch { Issue.record(error) }
            }
        }
        for thread in threads { thread.join() }
    }

    private func fixture(_ adjust: (inout CacheOptions) -> Void = { _ in }) throws -> EngineFixture {
        try EngineFixture { options in
            options.memory.bytesMax = 400 << 10
            options.memory.shards = 2
            options.memoryTrimInterval = 1
            options.disk?.trimInterval = 1
            adjust(&options)
        }
    }

    /// Each key belongs to one thread, which must always find its own last write; all threads read all keys, and must
    /// never see a version go backwards.
    @Test(arguments: [1, 2] as [UInt64]) func `the last writer wins, for everybody`(seed: UInt64) throws {
        let fixture = try fixture()
        let cache = fixture.cache
        let finals = Answer<[Int: Int]>([:])
        inParallel { thread in
            var random = SeededRandom(seed: seed << 8 | UInt64(thread))
            var own: [Int: Int] = [:]
            var seen: [Int: Int] = [:]
            for version in 1...3000 {
                let key = random.below(100)
                if key % Self.threads == thread, random.isOne(in: 2) {
                    if random.isOne(in: 8) {
                        cache.remove("k\(key)")
                        own[key] = nil
                    } else {
                        let value = Described(key: key, writer: thread, version: version)
                        try cache.set(value.bytes, forKey: "k\(key)")
                        own[key] = version
                        seen[key] = version
                    }
                    continue
                }
                guard let bytes = cache.value(forKey: "k\(key)") else {
                    if key % Self.threads == thread { #expect(own[key] == nil, "seed \(seed): lost k\(key)") }
                    continue
                }
                let value = try #require(Described(bytes, of: key), "seed \(seed): k\(key) is torn or another's")
                #expect(value.version >= seen[key] ?? 0, "seed \(seed): k\(key) went backwards")
                seen[key] = value.version
                if key % Self.threads == thread {
                    #expect(own[key] == value.version, "seed \(seed): not its own k\(key)")
                }
            }
            let written = own
            finals.update { $0.merge(written) { $1 } }
        }
        let last = finals.value
        try check(cache, last, "seed \(seed)")
        cache.checkMemoryCounters()
        fixture.settle()
        try cache.checkDiskCounters()
        try fixture.reopen()
        try check(fixture.cache, last, "seed \(seed), reopened")
    }

    private func check(_ cache: Cache, _ last: [Int: Int], _ comment: String) throws {
        for key in 0..<100 {
            let version = cache.value(forKey: "k\(key)").flatMap { Described($0, of: key) }?.version
            #expect(version == last[key], "\(comment): k\(key)")
        }
    }

    /// Increments are never lost, wherever the counter is at the moment.
    @Test func `counters count`() throws {
        let fixture = try fixture { $0.memory.bytesMax = 40 << 10 }
        let cache = fixture.cache
        for key in 0..<20 { try cache.set(Array("0".utf8), forKey: "c\(key)") }
        inParallel { thread in
            var random = SeededRandom(seed: UInt64(thread))
            for number in 0..<2000 {
                try cache.increment("c\(number % 20)")
                if random.isOne(in: 5) { try cache.set(random.bytes(2000), forKey: "filler\(random.below(100))") }
            }
        }
        for key in 0..<20 { #expect(cache.value(forKey: "c\(key)") == Array("400".utf8)) }
        try fixture.reopen()
        for key in 0..<20 { #expect(fixture.cache.value(forKey: "c\(key)") == Array("400".utf8)) }
    }

    /// Of all who compare with the same version, one wins.
    @Test func `compare and set has one winner`() throws {
        let fixture = try fixture { $0.memory.bytesMax = 40 << 10 }
        let cache = fixture.cache
        try cache.set(Array("0".utf8), forKey: "k")
        let wins = Answer(0)
        inParallel { thread in
            var random = SeededRandom(seed: UInt64(thread))
            var done = 0
            while done < 200 {
                if random.isOne(in: 3) { try cache.set(random.bytes(3000), forKey: "filler\(random.below(50))") }
                guard let entry = cache.entry(forKey: "k"),
                    let number = Int(String(decoding: entry.value, as: UTF8.self))
                else {
                    Issue.record("the entry is lost")
                    return
                }
                let next = Array("\(number + 1)".utf8)
                if case .stored = try cache.compareAndSet(next, forKey: "k", cas: entry.cas) {
                    wins.update { $0 += 1 }
                    done += 1
                }
            }
        }
        #expect(wins.value == 800)
        #expect(cache.value(forKey: "k") == Array("800".utf8))
    }

    /// Add succeeds once per removal.
    @Test func `add has one winner`() throws {
        let fixture = try fixture { $0.memory.bytesMax = 40 << 10 }
        let cache = fixture.cache
        for round in 0..<150 {
            let winners = Answer(0)
            inParallel { thread in
                if try cache.add([UInt8(thread)], forKey: "k") != nil { winners.update { $0 += 1 } }
            }
            #expect(winners.value == 1, "round \(round)")
            if round % 3 == 0 { fixture.dropMemory() }
            let removed = Answer(0)
            inParallel { _ in if cache.remove("k") { removed.update { $0 += 1 } } }
            #expect(removed.value == 1, "round \(round)")
        }
    }

    /// Everything at the same time: flushes, trims, walks, limits, expiry.
    ///
    /// Nothing may be torn, trap or hang.
    @Test func `flushes, trims and walks under load`() throws {
        let fixture = try fixture()
        let cache = fixture.cache
        let clock = fixture.clock
        inParallel { thread in
            var random = SeededRandom(seed: 99 + UInt64(thread))
            for version in 1...1500 {
                let key = random.below(200)
                switch random.below(100) {
                case 0: cache.removeAll()
                case 1: cache.flushAll(at: clock.now().advanced(byMilliseconds: 50), now: clock.now())
                case 2: cache.trim(random.isOne(in: 2) ? .memory : .disk, to: .entries(50))
                case 3: cache.forEachEntry { entry, stop in stop = entry.valueBytes > 100_000 }
                case 4: cache.changeMemoryLimits { $0.bytesMax = 200_000 + random.below(300_000) }
                case 5: cache.changeDiskLimits { $0.inlineBytesMax = random.below(30_000) }
                case 6: clock.advance(milliseconds: Int64(random.below(100)))
                case 7: _ = cache.values(forKeys: (0..<50).map { "k\($0)" })
                case 8: cache.trim(.disk, to: .unexpired)
                case 9: _ = cache.info(forKey: "k\(key)")
                case 10..<20: cache.remove("k\(key)")
                case 20..<25: cache.touch("k\(key)", timeToLive: .milliseconds(random.below(300)))
                case 25..<60:
                    let value = Described(key: key, writer: thread, version: version)
                    let ttl: Duration? = random.isOne(in: 3) ? .milliseconds(random.below(500)) : nil
                    try cache.set(value.bytes, forKey: "k\(key)", timeToLive: ttl)
                default:
                    guard let bytes = cache.value(forKey: "k\(key)") else { continue }
                    #expect(Described(bytes, of: key) != nil, "k\(key) is torn or another's")
                }
            }
        }
        cache.checkMemoryCounters()
        clock.advance(seconds: 10)
        _ = cache.value(forKey: "k0")
        fixture.settle()
        try cache.checkDiskCounters()
        #expect(cache.disk?.state == .ok)
        try fixture.reopen()
        fixture.settle()
        try fixture.cache.checkDiskCounters()
    }
}
