// Which entries reach the disk under each rule, and that none of the rules ever lets an old value return.

import Primitives
import TestSupport
import Testing

@testable import CacheEngine

/// A set of rules under which a cache may run.
struct Rules: CustomTestStringConvertible, Sendable {
    var write = DiskWriteMode.through
    var admission = DiskAdmission.all
    var budget: Int?

    var testDescription: String { "\(write) \(admission) \(budget.map { "\($0) B" } ?? "")" }

    static let closed = [
        Rules(write: .onEvict), Rules(admission: .secondHit), Rules(write: .onEvict, admission: .secondHit),
        Rules(budget: 1), Rules(write: .onEvict, admission: .secondHit, budget: 1 << 40),
    ]

    func apply(to options: inout CacheOptions) {
        options.disk?.write = write
        options.disk?.admission = admission
        options.disk?.writeBudget = budget
    }
}

@Suite struct AdmissionTests {
    private static let large = [UInt8](repeating: 7, count: 60_000)

    private func fixture(_ rules: Rules, memory: Int = 1 << 20) throws -> EngineFixture {
        try EngineFixture {
            $0.memory.bytesMax = memory
            rules.apply(to: &$0)
        }
    }

    private func rows(_ fixture: EngineFixture) -> Int {
        fixture.settle()
        return fixture.cache.entryCount(in: .disk)
    }

    private func disk(_ fixture: EngineFixture) throws -> DiskStatistics {
        try #require(fixture.cache.statistics().disk)
    }

    // MARK: When

    @Test(arguments: [[1, 2, 3], large]) func `on eviction an entry reaches the disk, and comes back whole`(
        value: [UInt8]
    ) throws {
        let fixture = try fixture(Rules(write: .onEvict))
        try fixture.cache.set(value, forKey: "k", timeToLive: .seconds(100), flags: 9, extended: [4])
        let before = try #require(fixture.cache.entry(forKey: "k"))
        #expect(rows(fixture) == 0)
        fixture.dropMemory()
        #expect(!fixture.cache.isResident("k"))
        #expect(fixture.cache.entry(forKey: "k") == before)
        #expect(rows(fixture) == 1)
        let statistics = try disk(fixture)
        #expect(statistics.admittedEntries == 1)
        #expect(statistics.admittedBytes == value.count)
        #expect(statistics.deviceBytes >= value.count)
    }

    @Test func `an entry that came from disk is not written again`() throws {
        let fixture = try fixture(Rules(write: .onEvict))
        try fixture.cache.set([1], forKey: "k")
        for _ in 0..<3 {
            fixture.dropMemory()
            #expect(fixture.cache.value(forKey: "k") == [1])
        }
        fixture.settle()
        #expect(try disk(fixture).admittedEntries == 1)
        // A touch goes to its row; a new value does not.
        #expect(fixture.cache.touch("k", timeToLive: .seconds(5)))
        fixture.dropMemory()
        fixture.clock.advance(seconds: 4)
        #expect(fixture.cache.value(forKey: "k") == [1])
        fixture.clock.advance(seconds: 1)
        #expect(fixture.cache.value(forKey: "k") == nil)
        #expect(try disk(fixture).admittedEntries == 1)
    }

    @Test(arguments: [[1], large]) func `a stop writes what is only in memory`(value: [UInt8]) throws {
        let fixture = try fixture(Rules(write: .onEvict), memory: 8 << 20)
        for number in 0..<300 { try fixture.cache.set(number == 0 ? value : [5], forKey: "k\(number)") }
        try fixture.cache.set([UInt8](repeating: 3, count: 19_000), forKey: "big")
        try fixture.reopen()
        #expect(fixture.cache.value(forKey: "k0") == value)
        #expect(fixture.cache.value(forKey: "big") == [UInt8](repeating: 3, count: 19_000))
        #expect((1..<300).allSatisfy { fixture.cache.value(forKey: "k\($0)") == [5] })
    }

    /// More than the journal holds: 1 MiB.
    @Test func `a stop waits for room in the journal`() throws {
        let fixture = try fixture(Rules(write: .onEvict), memory: 16 << 20)
        for number in 0..<600 { try fixture.cache.set([UInt8](repeating: 1, count: 10_000), forKey: "k\(number)") }
        try fixture.reopen()
        #expect((0..<600).allSatisfy { fixture.cache.value(forKey: "k\($0)")?.count == 10_000 })
    }

    /// 20 times the memory, evicted faster than the disk takes it: stores wait, nothing is lost.
    @Test func `stores wait until evicted entries find room`() throws {
        let fixture = try fixture(Rules(write: .onEvict), memory: 300_000)
        for number in 0..<3000 { try fixture.cache.set([UInt8](repeating: 1, count: 2000), forKey: "k\(number)") }
        #expect((0..<3000).allSatisfy { fixture.cache.value(forKey: "k\($0)")?.count == 2000 })
        #expect(try disk(fixture).notAdmittedForRoom == 0)
    }

    // MARK: Which

    @Test(arguments: [DiskWriteMode.through, .onEvict]) func `what was never wanted again is not written`(
        write: DiskWriteMode
    ) throws {
        let fixture = try fixture(Rules(write: write, admission: .secondHit))
        for number in 0..<100 { try fixture.cache.set([1], forKey: "once\(number)") }
        for number in 0..<100 { try fixture.cache.set([2], forKey: "read\(number)") }
        for number in 0..<100 { #expect(fixture.cache.value(forKey: "read\(number)") == [2]) }
        fixture.dropMemory()
        #expect(rows(fixture) == 100)
        #expect((0..<100).allSatisfy { fixture.cache.value(forKey: "read\($0)") == [2] })
        #expect((0..<100).allSatisfy { fixture.cache.value(forKey: "once\($0)") == nil })
        #expect(try disk(fixture).notAdmittedByPolicy == 100)
        // The second time the key is known.
        for number in 0..<100 { try fixture.cache.set([3], forKey: "once\(number)") }
        fixture.dropMemory()
        #expect((0..<100).count(where: { fixture.cache.value(forKey: "once\($0)") == [3] }) >= 95)
    }

    @Test func `over the budget nothing is written, until there is more`() throws {
        // An hour's share is 4096 bytes: some thirty entries.
        let fixture = try fixture(Rules(budget: 24 * 4096))
        for number in 0..<100 { try fixture.cache.set([1], forKey: "k\(number)") }
        let first = rows(fixture)
        #expect((25...35).contains(first), "\(first)")
        fixture.dropMemory()
        #expect(rows(fixture) == first)
        #expect(try disk(fixture).notAdmittedByBudget == 100 - first)
        fixture.clock.advance(seconds: 1800)
        for number in 100..<200 { try fixture.cache.set([1], forKey: "k\(number)") }
        let second = rows(fixture) - first
        #expect((10...20).contains(second), "\(second)")
        // Not more than an hour's share, however long it was quiet.
        fixture.clock.advance(seconds: 100_000)
        for number in 200..<400 { try fixture.cache.set([1], forKey: "k\(number)") }
        let third = rows(fixture) - first - second
        #expect((25...35).contains(third), "\(third)")
    }

    @Test func `a value too large for memory is written whatever the rules`() throws {
        for rules in Rules.closed {
            let fixture = try EngineFixture {
                $0.memory.valueBytesMax = 10_000
                rules.apply(to: &$0)
            }
            try fixture.cache.set(Self.large, forKey: "k")
            fixture.dropMemory()
            #expect(fixture.cache.value(forKey: "k") == Self.large, "\(rules)")
        }
    }

    @Test func `always needs every entry on disk`() throws {
        for rules in Rules.closed {
            #expect(throws: CacheError.self) {
                try EngineFixture {
                    rules.apply(to: &$0)
                    $0.disk?.durability = .always
                }
            }
        }
    }

    // MARK: Never stale

    /// What is on disk under one rule must not come back after a change under another that wrote nothing.
    @Test(arguments: Rules.closed, [[2], large]) func `a value that is not written buries the one on disk`(
        rules: Rules, fresh: [UInt8]
    ) throws {
        for old in [[1], Self.large] {
            let fixture = try EngineFixture()
            try fixture.cache.set(old, forKey: "k")
            try fixture.reopen { rules.apply(to: &$0) }
            try fixture.cache.set(fresh, forKey: "k")
            // Killed now: the new value, or none.
            let copy = try fixture.reopenedCopy("copy")
            let found = copy.value(forKey: "k")
            #expect(found == nil || found == fresh)
            copy.close()
            fixture.dropMemory()
            let after = fixture.cache.value(forKey: "k")
            #expect(after == nil || after == fresh)
            fixture.settle()
            try fixture.cache.checkDiskCounters()
        }
    }

    /// A large value is on its way to its file when the key is written, deleted or flushed.
    @Test(arguments: ["set", "remove", "flush", "add", "append", "touch", "increment"]) func `a demotion overtaken`(
        by operation: String
    ) throws {
        let fixture = try fixture(Rules(write: .onEvict))
        for _ in 0..<20 {
            try fixture.cache.set(Self.large, forKey: "k")
            fixture.dropMemory(waits: false)
            switch operation {
            case "set":
                try fixture.cache.set([1], forKey: "k")
                #expect(fixture.cache.value(forKey: "k") == [1])
            case "remove":
                #expect(fixture.cache.remove("k"))
                #expect(fixture.cache.value(forKey: "k") == nil)
            case "flush":
                fixture.cache.removeAll()
                #expect(fixture.cache.value(forKey: "k") == nil)
            case "add": #expect(try fixture.cache.add([1], forKey: "k") == nil)
            case "append":
                #expect(try fixture.cache.append([1], toValueForKey: "k") != nil)
                #expect(fixture.cache.value(forKey: "k") == Self.large + [1])
            case "touch": #expect(fixture.cache.touch("k", timeToLive: .seconds(9)))
            default: #expect(throws: StorageError.notNumeric) { try fixture.cache.increment("k") }
            }
        }
        fixture.settle()
        try fixture.cache.checkDiskCounters()
        fixture.cache.checkMemoryCounters()
    }
}
