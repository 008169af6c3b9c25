import Foundation
import Primitives
import SQLite
import TestSupport
import Testing

@testable import CacheEngine

/// How a read of a damaged store went.
private enum Outcome { case right, miss, refused, wrong }

/// A store with known content, to be damaged in copies.
private struct DamageFixture {
    let source: ScratchDirectory
    let expected: [String: [UInt8]]
    let metadata: [String: EntryMetadata]
    let deleted: [String]

    /// `isLogged`: everything is in the write-ahead log; else in the database file.
    init(isLogged: Bool, entries: Int = 60) throws {
        let fixture = try DiskFixture(options: IndexOptions(pageSize: 4096))
        var numbers = SeededRandom(seed: 5)
        var expected: [String: [UInt8]] = [:]
        var metadata: [String: EntryMetadata] = [:]
        let deleted = (0..<10).map { "deleted\($0)" }
        try fixture.transaction {
            for key in deleted { try fixture.put(key, [1, 2, 3]) }
        }
        for batch in 0..<3 {
            try fixture.transaction {
                for number in 0..<entries {
                    let key = "key\(number)"
                    let count = Int.random(in: 0..<1200, using: &numbers)
                    let value = (0..<count).map { _ in UInt8.random(in: .min ... .max, using: &numbers) }
                    expected[key] = value
                    metadata[key] = try fixture.put(key, value) {
                        $0.deadline = number % 2 == 0 ? .never : WallTime(milliseconds: 1_900_000_000_000)
                    }.metadata
                }
                for key in deleted where batch == 1 {
                    _ = try fixture.index.delete(hash: hashOf(key), key: Array(key.utf8).span)
                }
                fixture.index.setSequence(UInt64(batch + 1))
            }
            try fixture.directory.writeAnchor(sequence: UInt64(batch + 1), clean: false, sync: false)
        }
        if !isLogged { _ = try fixture.index.checkpoint(.truncate) }
        (self.expected, self.metadata, self.deleted) = (expected, metadata, deleted)
        source = try fixture.scratch.copyAsAfterAKill()
        if !isLogged { try FileManager.default.removeItem(atPath: source.path("store/index.db-wal")) }
    }

    /// Opens a copy and reads everything.
    func examine(_ copy: ScratchDirectory) throws -> [Outcome] {
        let fixture: DiskFixture
        do {
            fixture = try DiskFixture(copy)
        } catch let error as DiskError {
            #expect(error.kind == .corrupt, "\(error)")
            return [.refused]
        }
        guard fixture.verdict == .resumed(afterCrash: true) else { return [.refused] }
        let reader = try fixture.reader()
        var outcomes: [Outcome] = []
        for key in Array(expected.keys) + deleted {
            do {
                let entry = try reader.entry(key)
                guard entry.lookup == .found, var found = entry.metadata else {
                    outcomes.append(.miss)
                    continue
                }
                // The access time and the sum itself are not the point.
                found.accessed = metadata[key]?.accessed ?? found.accessed
                found.valueSum = metadata[key]?.valueSum ?? found.valueSum
                let isRight = entry.value == expected[key] && found == metadata[key]
                outcomes.append(isRight ? .right : .wrong)
            } catch let error as DiskError {
                #expect(error.kind == .corrupt, "\(error)")
                outcomes.append(.refused)
            }
        }
        return outcomes
    }
}

@Suite struct DiskDamageTests {
    /// One flipped bit per case: what is read is right, or missed, or refused as corrupt.
    ///
    /// Never wrong, never deleted entries, never a trap.
    @Test(arguments: ["store/index.db", "store/index.db-wal"])
    func flippedBitsNeverServeAWrongValue(_ file: String) throws {
        let isLogged = file.hasSuffix("-wal")
        let fixture = try DamageFixture(isLogged: isLogged)
        let bytes = try fixture.source.read(file)
        #expect(bytes.count > 80_000)
        let untouched = try fixture.examine(fixture.source.copyAsAfterAKill())
        #expect(untouched.filter { $0 == .right }.count == 60)
        #expect(untouched.filter { $0 == .miss }.count == 10)
        var numbers = SeededRandom(seed: 17)
        var noticed = 0
        for _ in 0..<300 {
            var damaged = bytes
            let bit = Int.random(in: 0..<bytes.count * 8, using: &numbers)
            damaged[bit / 8] ^= 1 << UInt8(bit % 8)
            let copy = try fixture.source.copyAsAfterAKill()
            try copy.write(damaged, to: file)
            let outcomes = try fixture.examine(copy)
            #expect(!outcomes.contains(.wrong), "bit \(bit)")
            let right = outcomes.filter { $0 == .right }.count
            if right < 60 { noticed += 1 }
            // A page of the database can take some entries along; the log is either whole or refused.
            if isLogged { #expect(outcomes == [.refused] || right == 60, "bit \(bit)") }
        }
        // Unused space, and superseded pages of the log, are harmless; the rest is not.
        #expect(noticed > 50)
    }

    @Test func cutFilesNeverServeAWrongValue() throws {
        for file in ["store/index.db", "store/index.db-wal"] {
            let fixture = try DamageFixture(isLogged: file.hasSuffix("-wal"))
            let bytes = try fixture.source.read(file)
            var numbers = SeededRandom(seed: 23)
            for _ in 0..<60 {
                let copy = try fixture.source.copyAsAfterAKill()
                let count = Int.random(in: 0..<bytes.count, using: &numbers)
                try copy.write(Array(bytes.prefix(count)), to: file)
                let outcomes = try fixture.examine(copy)
                #expect(!outcomes.contains(.wrong), "\(file) \(count)")
            }
        }
    }

    /// Rows changed behind our back, through SQLite itself: the file is sound, the content is not.
    @Test(arguments: [
        "value = X'00'", "value = NULL", "value = 'text'", "value = zeroblob(length(value))", "flags = flags + 1",
        "cas = cas + 1", "deadline = 5", "deadline = NULL", "marks = 0", "marks = 300", "flags = -1",
        "generation = generation + 1", "written = 0", "valueBytes = valueBytes - 1", "valueBytes = -1",
        "fileBytes = 4096", "fileBytes = -1", "valueSum = 0", "sum = 0", "extended = X'01'", "flags = 'many'",
        "accessed = 9223372036854775807",
    ])
    func aChangedRowIsDamagedOrHarmless(_ change: String) throws {
        let fixture = try DiskFixture()
        try fixture.transaction {
            try fixture.put("key", [1, 2, 3]) { $0.deadline = WallTime(milliseconds: 1_900_000_000_000) }
        }
        try fixture.index.open?.connection.execute("UPDATE entry SET \(change)")
        let entry = try fixture.reader().entry("key")
        if change.hasPrefix("accessed") {
            #expect(entry.value == [1, 2, 3])
            return
        }
        guard case .damaged(let generation) = entry.lookup else {
            Issue.record("\(entry.lookup)")
            return
        }
        #expect(entry.value == nil)
        #expect(try fixture.index.scan(after: 0, limit: 10).entries.isEmpty || change.hasPrefix("value = "))
        let key = Array("key".utf8)
        try fixture.transaction {
            if !change.hasPrefix("value = ") {
                let isTouched = try fixture.index.touch(
                    hash: hashOf(key), key: key.span, deadline: .never, marks: [], cas: 1, accessed: .never)
                #expect(!isTouched, "a touch must not make a damaged row sound")
            }
            let wrong = try fixture.index.delete(hash: hashOf(key), ifGeneration: generation + 1)
            #expect(wrong == nil)
            let gone = try fixture.index.delete(hash: hashOf(key), ifGeneration: generation)
            #expect(gone?.generation == generation)
        }
        #expect(fixture.index.totals.entries == 0)
        #expect(try fixture.reader().entry("key").lookup == .absent)
    }

    @Test func aChangedKeyIsAMiss() throws {
        let fixture = try DiskFixture()
        try fixture.transaction { try fixture.put("key", [1]) }
        try fixture.index.open?.connection.execute("UPDATE entry SET key = CAST('kez' AS BLOB)")
        #expect(try fixture.reader().entry("key").lookup == .absent)
        #expect(try fixture.reader().entry("kez", hash: hashOf("key")).lookup != .found)
    }

    @Test func aRowUnderAnotherHashIsDamaged() throws {
        let fixture = try DiskFixture()
        var generation: UInt64 = 0
        try fixture.transaction { generation = try fixture.put("key", [1]).metadata.generation }
        try fixture.index.open?.connection.execute("UPDATE entry SET hash = 7")
        #expect(try fixture.reader().entry("key", hash: 7).lookup == .damaged(generation: generation))
        #expect(try fixture.reader().entry("key").lookup == .absent)
    }

    /// A value moved from one row to another one of the same length.
    @Test func swappedValuesAreDamaged() throws {
        let fixture = try DiskFixture()
        try fixture.transaction {
            try fixture.put("one", [1, 2, 3])
            try fixture.put("two", [4, 5, 6])
        }
        try fixture.index.open?.connection.execute(
            "UPDATE entry SET value = iif(value = X'010203', X'040506', X'010203')")
        let reader = try fixture.reader()
        for key in ["one", "two"] {
            guard case .damaged = try reader.entry(key).lookup else {
                Issue.record("\(key) is not damaged")
                continue
            }
        }
    }
}
