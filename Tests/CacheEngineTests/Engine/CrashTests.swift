// What a process finds that starts after another one was killed: a copy of the directory at some moment, or the
// directory of a child that was killed with SIGKILL.

import Foundation
import Primitives
import TestSupport
import Testing

@testable import CacheEngine

@Suite struct CrashTests {
    @Test func `everything acknowledged survives a kill at any moment`() throws {
        let fixture = try EngineFixture()
        var random = SeededRandom(seed: 6)
        var model: [String: [UInt8]] = [:]
        for step in 0..<1500 {
            let key = "k\(random.below(300))"
            if random.isOne(in: 5) {
                fixture.cache.remove(key)
                model[key] = nil
            } else {
                let value = random.bytes(random.isOne(in: 20) ? 25_000 : random.below(400))
                try fixture.cache.set(value, forKey: key)
                model[key] = value
            }
            guard step % 150 == 149 else { continue }
            let copy = try fixture.reopenedCopy("copy\(step)")
            for number in 0..<300 {
                #expect(copy.value(forKey: "k\(number)") == model["k\(number)"], "step \(step), k\(number)")
            }
            copy.settle()
            try copy.checkDiskCounters("step \(step)")
            copy.close()
        }
    }

    @Test func `all fields survive a kill`() throws {
        let fixture = try EngineFixture()
        try fixture.cache.set([1, 2], forKey: "k", timeToLive: .seconds(100), flags: 77, extended: [9])
        let before = try #require(fixture.cache.entry(forKey: "k"))
        let copy = try fixture.reopenedCopy()
        #expect(copy.entry(forKey: "k") == before)
        copy.close()
    }

    /// The index has the batch, the journal's mark does not say so yet.
    @Test func `a kill between commit and mark is no harm`() throws {
        let fixture = try EngineFixture()
        try fixture.cache.set([1], forKey: "changed")
        try fixture.cache.set([1], forKey: "removed")
        try fixture.cache.set(Array("5".utf8), forKey: "counter")
        try fixture.cache.set([UInt8](repeating: 1, count: 30_000), forKey: "file")
        fixture.settle()
        let early = try fixture.scratch.read("cache/journal")
        try fixture.cache.set([2], forKey: "changed")
        fixture.cache.remove("removed")
        try fixture.cache.increment("counter", by: 3)
        try fixture.cache.set([UInt8](repeating: 2, count: 30_000), forKey: "file")
        fixture.settle()
        try fixture.scratch.copy("cache", to: "copy")
        // The records of the second batch, with the marks of the first.
        var journal = try fixture.scratch.read("copy/journal")
        journal.replaceSubrange(64..<256, with: early[64..<256])
        try fixture.scratch.write(journal, to: "copy/journal")
        var options = fixture.options
        options.disk?.directory = fixture.scratch.path("copy")
        let copy = try Cache.open(options, clock: fixture.clock)
        #expect(copy.value(forKey: "changed") == [2])
        #expect(copy.value(forKey: "removed") == nil)
        #expect(copy.value(forKey: "counter") == Array("8".utf8))
        #expect(copy.value(forKey: "file") == [UInt8](repeating: 2, count: 30_000))
        copy.settle()
        try copy.checkDiskCounters()
        copy.close()
    }

    /// The tail of acknowledged writes is lost with it: the rows in the index may be out of date.
    @Test(arguments: ["removed", "emptied", "damaged"]) func `without its journal a store is not believed`(
        how: String
    ) throws {
        let fixture = try EngineFixture()
        try fixture.cache.set([1], forKey: "k")
        fixture.settle()
        try fixture.scratch.copy("cache", to: "copy")
        switch how {
        case "removed": try FileManager.default.removeItem(atPath: fixture.scratch.path("copy/journal"))
        case "emptied": try fixture.scratch.write([], to: "copy/journal")
        default:
            var journal = try fixture.scratch.read("copy/journal")
            journal.replaceSubrange(0..<256, with: [UInt8](repeating: 0, count: 256))
            try fixture.scratch.write(journal, to: "copy/journal")
        }
        var options = fixture.options
        options.disk?.directory = fixture.scratch.path("copy")
        let copy = try Cache.open(options, clock: fixture.clock)
        #expect(copy.value(forKey: "k") == nil)
        #expect(copy.startReport?.contains("quarantined") == true, "\(copy.startReport ?? "")")
        #expect(try !fixture.scratch.names("copy").filter { $0.hasPrefix("quarantine-") }.isEmpty)
        copy.close()
    }

    @Test func `a start tells of an index that it put aside`() throws {
        let fixture = try EngineFixture()
        try fixture.cache.set([1], forKey: "k")
        fixture.close()
        try fixture.scratch.write([UInt8](repeating: 0x5a, count: 8192), to: "cache/store/index.db")
        try fixture.reopen()
        #expect(fixture.cache.value(forKey: "k") == nil)
        let report = try #require(fixture.cache.startReport)
        #expect(report.hasPrefix("store quarantined, started empty: "), "\(report)")
    }

    @Test func `after a clean stop no journal is needed`() throws {
        let fixture = try EngineFixture()
        try fixture.cache.set([1], forKey: "k")
        fixture.close()
        try FileManager.default.removeItem(atPath: fixture.scratch.path("cache/journal"))
        try fixture.reopen()
        #expect(fixture.cache.value(forKey: "k") == [1])
    }

    @Test func `a file that a killed upload left is swept`() throws {
        let fixture = try EngineFixture()
        try fixture.cache.set([UInt8](repeating: 1, count: 30_000), forKey: "kept")
        fixture.settle()
        try fixture.scratch.copy("cache", to: "copy")
        // Of this epoch and unknown to any row: what a kill between file and journal leaves.
        let name = hexadecimal(fixture.cache.generations.next())
        let directory = fixture.scratch.path("copy/store/v/\(name.suffix(2))")
        try FileManager.default.createDirectory(
            atPath: directory, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        #expect(
            FileManager.default.createFile(
                atPath: "\(directory)/\(name)", contents: Data([1, 2, 3]), attributes: [.posixPermissions: 0o600]))
        var options = fixture.options
        options.disk?.directory = fixture.scratch.path("copy")
        let copy = try Cache.open(options, clock: fixture.clock)
        until { !fixture.scratch.exists("copy/store/v/\(name.suffix(2))/\(name)") }
        #expect(copy.value(forKey: "kept") == [UInt8](repeating: 1, count: 30_000))
        copy.close()
    }

    @Test func `durability none drops the disk after a kill, not after a stop`() throws {
        let fixture = try EngineFixture { $0.disk?.durability = .none }
        try fixture.cache.set([1], forKey: "k")
        fixture.settle()
        let copy = try fixture.reopenedCopy()
        #expect(copy.value(forKey: "k") == nil)
        copy.close()
        try fixture.reopen()
        #expect(fixture.cache.value(forKey: "k") == [1])
    }

    // MARK: A real kill

    /// What the child of the test below stores as number `number`.
    private static func killedWrite(_ number: Int) -> (key: String, value: [UInt8]) {
        let padding = [UInt8](repeating: 32, count: number % 50 == 0 ? 30_000 : number % 700 + 1)
        return ("key\(number % 97)", Array("\(number)".utf8) + padding)
    }

    /// The child kills itself right after an acknowledgement, while its disk threads are at work.
    @Test(arguments: [1, 37, 500, 3000]) func `what a killed process had acknowledged is there`(count: Int) async throws
    {
        let scratch = try TempDirectory()
        await #expect(processExitsWith: .signal(SIGKILL)) { [path = scratch.path("cache") as String, count] in
            var options = CacheOptions()
            var disk = DiskOptions(directory: path)
            disk.journalBytes = 1 << 20
            options.disk = disk
            let cache = try Cache.open(options)
            for number in 0..<count {
                let (key, value) = CrashTests.killedWrite(number)
                try await cache.set(value, forKey: key)
                if number % 10 == 9 { await cache.remove("key\((number - 5) % 97)") }
            }
            kill(getpid(), SIGKILL)
        }
        var expected: [String: [UInt8]] = [:]
        for number in 0..<count {
            let (key, value) = Self.killedWrite(number)
            expected[key] = value
            if number % 10 == 9 { expected["key\((number - 5) % 97)"] = nil }
        }
        var options = CacheOptions()
        options.disk = DiskOptions(directory: scratch.path("cache"))
        let cache = try Cache.open(options)
        for number in 0..<97 { #expect(await cache.value(forKey: "key\(number)") == expected["key\(number)"]) }
        cache.close()
    }
}
