// The offline check on copies of a store: sound ones, and each kind of damage. The program's own tests go through
// `Tests/Conformance/maintenance.py`.

import Foundation
import Primitives
import SQLite
import TestSupport
import Testing

@testable import CacheEngine

@Suite struct StoreCheckTests {
    /// A stopped store of 50 small entries and 3 files.
    private func stoppedStore() throws -> EngineFixture {
        let fixture = try EngineFixture()
        for number in 0..<50 { try fixture.cache.set([UInt8](repeating: 1, count: number), forKey: "k\(number)") }
        for number in 0..<3 { try fixture.cache.set([UInt8](repeating: 2, count: 30_000), forKey: "f\(number)") }
        fixture.close()
        return fixture
    }

    private func check(_ fixture: EngineFixture, _ name: String = "cache", repair: Bool = false) throws
        -> StoreCheckReport
    {
        try StoreCheck.run(directory: fixture.scratch.path(name), repair: repair)
    }

    @Test func `a stopped store is sound`() throws {
        let fixture = try stoppedStore()
        let report = try check(fixture)
        #expect(report.isSound)
        #expect(report.entries == 53)
        #expect(report.files == 3)
        #expect(report.valueBytes == 49 * 50 / 2 + 90_000)
        try fixture.reopen()
        #expect(fixture.cache.value(forKey: "k7") == [UInt8](repeating: 1, count: 7))
        #expect(throws: CacheError.self) { try check(fixture) }
    }

    @Test func `a killed store is sound, and keeps its journal through a repair`() throws {
        let fixture = try EngineFixture()
        try fixture.cache.set([1], forKey: "settled")
        fixture.settle()
        fixture.holdWriter()
        try fixture.cache.set([2], forKey: "journalled")
        try fixture.cache.set([UInt8](repeating: 2, count: 30_000), forKey: "file")
        fixture.cache.remove("settled")
        try fixture.scratch.copy("cache", to: "copy")
        let report = try check(fixture, "copy")
        #expect(report.isSound, "\(report)")
        #expect(report.journalChanges == 3)
        #expect(try check(fixture, "copy", repair: true).isRepaired)
        var options = fixture.options
        options.disk?.directory = fixture.scratch.path("copy")
        let copy = try Cache.open(options, clock: fixture.clock)
        #expect(copy.value(forKey: "journalled") == [2])
        #expect(copy.value(forKey: "file")?.count == 30_000)
        #expect(copy.value(forKey: "settled") == nil)
        copy.close()
    }

    @Test func `totals that do not fit the rows are set right`() throws {
        let fixture = try stoppedStore()
        do {
            let connection = try Connection(path: fixture.scratch.path("cache/store/index.db"), access: .readWrite)
            try connection.execute("DELETE FROM entry WHERE CAST(key AS TEXT) = 'k9'")
        }
        _ = try check(fixture, repair: true)
        try fixture.reopen()
        #expect(fixture.cache.entryCount(in: .disk) == 52)
        fixture.settle()
        try fixture.cache.checkDiskCounters()
    }

    /// Flips in the index: whatever the check leaves after a repair is right.
    @Test func `after a repair no flip in the index is left`() throws {
        let fixture = try stoppedStore()
        let whole = try fixture.scratch.read("cache/store/index.db")
        var random = SeededRandom(seed: 4)
        var found = 0
        for round in 0..<40 {
            let name = "copy\(round)"
            try fixture.scratch.copy("cache", to: name)
            var bytes = whole
            for _ in 0..<3 { bytes[100 + random.below(bytes.count - 100)] ^= 1 << UInt8(random.below(8)) }
            try fixture.scratch.write(bytes, to: "\(name)/store/index.db")
            if try !check(fixture, name).isSound { found += 1 }
            _ = try check(fixture, name, repair: true)
            #expect(try check(fixture, name).isSound, "round \(round)")
            var options = fixture.options
            options.disk?.directory = fixture.scratch.path(name)
            let copy = try Cache.open(options, clock: fixture.clock)
            for number in 0..<50 {
                let value = copy.value(forKey: "k\(number)")
                #expect(value == nil || value == [UInt8](repeating: 1, count: number), "round \(round)")
            }
            copy.close()
        }
        #expect(found > 5, "\(found) of 40 were found")
    }

    @Test func `a store without its journal after a crash is put aside`() throws {
        let fixture = try EngineFixture()
        try fixture.cache.set([1], forKey: "k")
        fixture.settle()
        try fixture.scratch.copy("cache", to: "copy")
        try FileManager.default.removeItem(atPath: fixture.scratch.path("copy/journal"))
        let report = try check(fixture, "copy")
        #expect(!report.isSound)
        #expect(report.nextStart.contains("the journal is lost"))
        #expect(try check(fixture, "copy", repair: true).isRepaired)
        #expect(try check(fixture, "copy").isSound)
        #expect(try fixture.scratch.names("copy").contains { $0.hasPrefix("quarantine-") })
    }
}
