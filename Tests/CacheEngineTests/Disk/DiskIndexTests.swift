import Foundation
import Primitives
import SQLite
import Testing

@testable import CacheEngine

/// The error that `body` throws.
func diskError(_ body: () throws -> Void) -> DiskError? {
    do {
        try body()
    } catch let error as DiskError {
        return error
    } catch {
        Issue.record(error)
    }
    return nil
}

@Suite struct DiskIndexTests {
    @Test func anEntryComesBackWhole() throws {
        let fixture = try DiskFixture()
        let key = Array("key".utf8)
        let extended: [UInt8] = [9, 0, 255]
        let value = (0..<3000).map { UInt8(truncatingIfNeeded: $0) }
        var metadata = EntryMetadata(
            generation: fixture.nextGeneration(), cas: .max, flags: .max, marks: [.stale, .won, .fetched, .binaryKey],
            deadline: WallTime(milliseconds: 1_800_000_000_999), written: WallTime(milliseconds: -5),
            accessed: WallTime(milliseconds: 1_700_000_000_000), valueBytes: value.count, valueSum: 0)
        try fixture.transaction {
            let replaced = try fixture.index.putInline(
                hash: hashOf(key), key: key.span, metadata: metadata, extended: extended.span, value: value.span)
            #expect(replaced == nil)
        }
        let entry = try fixture.reader().entry("key")
        metadata.valueSum = entry.metadata?.valueSum ?? 0
        #expect(entry == ReadEntry(lookup: .found, metadata: metadata, extended: extended, value: value))
        #expect(try fixture.reader().entry("kez") == ReadEntry(lookup: .absent))
    }

    @Test(arguments: [0, 1, 20 << 10, 3 << 20])
    func valuesOfEverySizeComeBack(_ count: Int) throws {
        let fixture = try DiskFixture()
        let value = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 7) }
        try fixture.transaction { try fixture.put("key", value) }
        let entry = try fixture.reader().entry("key")
        #expect(entry.lookup == .found)
        #expect(entry.value == value)
        #expect(entry.metadata?.deadline == .never)
    }

    @Test func keysAreAnyBytes() throws {
        let fixture = try DiskFixture()
        let keys: [[UInt8]] = [
            [0], Array("';DROP TABLE entry;--".utf8), [0xff, 0xfe, 0], Array(repeating: 0x61, count: 250), [],
        ]
        try fixture.transaction {
            for key in keys {
                let metadata = EntryMetadata.sample(generation: fixture.nextGeneration(), valueBytes: key.count)
                _ = try fixture.index.putInline(
                    hash: hashOf(key), key: key.span, metadata: metadata, extended: [UInt8]().span, value: key.span)
            }
        }
        let reader = try fixture.reader()
        for key in keys {
            var value: [UInt8]?
            #expect(try reader.read(hash: hashOf(key), key: key.span) { value = $2.map { Array($0) } } == .found)
            #expect(value == key)
        }
    }

    @Test func aPutReplacesAndSaysWhat() throws {
        let fixture = try DiskFixture()
        var first: Replaced?
        var second: Replaced?
        try fixture.transaction { try fixture.putFile("key", [UInt8](repeating: 1, count: 5000)) }
        try fixture.transaction { first = try fixture.put("key", [1]).replaced }
        try fixture.transaction { second = try fixture.put("key", [2]).replaced }
        #expect(first == Replaced(generation: 1 << 40 | 1, fileBytes: 8192))
        #expect(second == Replaced(generation: 1 << 40 | 2, fileBytes: 0))
        #expect(fixture.index.totals == DiskTotals(entries: 1, valueBytes: 1, inlineBytes: 1))
        #expect(try fixture.reader().entry("key").value == [2])
    }

    @Test func twoKeysOfOneHashReplaceEachOther() throws {
        let fixture = try DiskFixture()
        try fixture.transaction { try fixture.put("one", [1], hash: 42) }
        let reader = try fixture.reader()
        #expect(try reader.entry("two", hash: 42).lookup == .absent)
        try fixture.transaction { () throws in
            #expect(try fixture.index.delete(hash: 42, key: Array("two".utf8).span) == nil)
            #expect(try fixture.put("two", [2], hash: 42).replaced?.generation == 1 << 40 | 1)
        }
        #expect(try reader.entry("one", hash: 42).lookup == .absent)
        #expect(try reader.entry("two", hash: 42).value == [2])
        #expect(fixture.index.totals.entries == 1)
    }

    @Test func aConditionalDeleteSparesANewerVersion() throws {
        let fixture = try DiskFixture()
        let key = Array("key".utf8)
        var old: UInt64 = 0
        try fixture.transaction { old = try fixture.put("key", [1]).metadata.generation }
        try fixture.transaction { try fixture.put("key", [2]) }
        try fixture.transaction { () throws in
            #expect(try fixture.index.delete(hash: hashOf(key), key: key.span, ifGeneration: old) == nil)
            #expect(try fixture.index.delete(hash: hashOf(key), ifGeneration: old) == nil)
            let row = try fixture.index.leastRecent(limit: 1)[0].rowID
            #expect(try fixture.index.deleteRow(row, ifGeneration: old) == nil)
        }
        #expect(try fixture.reader().entry("key").value == [2])
        try fixture.transaction {
            let replaced = try fixture.index.delete(hash: hashOf(key), key: key.span, ifGeneration: old + 1)
            #expect(replaced == Replaced(generation: old + 1, fileBytes: 0))
            #expect(try fixture.index.delete(hash: hashOf(key), key: key.span) == nil)
        }
        #expect(try fixture.reader().entry("key").lookup == .absent)
        #expect(fixture.index.totals == DiskTotals())
    }

    @Test func aTouchChangesMetadataAndKeepsTheRowSound() throws {
        let fixture = try DiskFixture()
        let key = Array("key".utf8)
        var metadata = EntryMetadata.sample(generation: 0, valueBytes: 0)
        try fixture.transaction { metadata = try fixture.put("key", [1, 2, 3]).metadata }
        let deadline = WallTime(milliseconds: 1_900_000_000_000)
        let accessed = WallTime(milliseconds: 1_700_000_009_000)
        func touch(_ generation: UInt64?) throws -> Bool {
            try fixture.index.touch(
                hash: hashOf(key), key: key.span, ifGeneration: generation, deadline: deadline, marks: [.stale],
                cas: 99,
                accessed: accessed)
        }
        try fixture.transaction { () throws in
            #expect(try !touch(metadata.generation + 1))
            #expect(try touch(metadata.generation))
            #expect(try touch(nil))
            let other = Array("other".utf8)
            #expect(
                try !fixture.index.touch(
                    hash: hashOf(key), key: other.span, deadline: .never, marks: [], cas: 1, accessed: accessed))
        }
        let entry = try fixture.reader().entry("key")
        #expect(entry.lookup == .found)
        #expect(entry.value == [1, 2, 3])
        #expect(entry.metadata?.deadline == deadline)
        #expect(entry.metadata?.marks == [.stale])
        #expect(entry.metadata?.cas == 99)
        #expect(entry.metadata?.accessed == accessed)
        #expect(entry.metadata?.generation == metadata.generation)
        #expect(try fixture.index.expired(before: deadline, limit: 10).count == 1)
    }

    @Test func theAccessTimeOnlyMovesForward() throws {
        let fixture = try DiskFixture()
        let (early, late) = (WallTime(milliseconds: 1_600_000_000_000), WallTime(milliseconds: 1_800_000_000_700))
        try fixture.transaction { try fixture.put("key", [1]) }
        try fixture.transaction {
            try fixture.index.setAccessed(hash: hashOf("key"), late)
            try fixture.index.setAccessed(hash: hashOf("key"), early)
            try fixture.index.setAccessed(hash: hashOf("missing"), late)
        }
        let entry = try fixture.reader().entry("key")
        #expect(entry.lookup == .found)
        #expect(entry.metadata?.accessed == WallTime(milliseconds: 1_800_000_000_000))
    }

    @Test func rollbackUndoesRowsTotalsAndMarks() throws {
        let fixture = try DiskFixture()
        try fixture.transaction {
            try fixture.put("kept", [1])
            fixture.index.setSequence(4)
        }
        let before = fixture.index.totals
        try fixture.index.begin()
        try fixture.put("lost", [1, 2])
        try fixture.put("kept", [9])
        fixture.index.setSequence(5)
        fixture.index.setFlush(generation: 77, at: WallTime(milliseconds: 5))
        fixture.index.rollback()
        #expect(fixture.index.totals == before)
        #expect(fixture.index.sequence == 4)
        #expect(fixture.index.flushGeneration == 0)
        #expect(fixture.index.flushAt == nil)
        #expect(try fixture.index.recount() == before)
        #expect(try fixture.reader().entry("kept").value == [1])
        try fixture.transaction { try fixture.put("next", [3]) }
        #expect(fixture.index.totals.entries == 2)
    }

    @Test func theMetaRowOutlivesTheConnection() throws {
        let scratch = try ScratchDirectory()
        do {
            let fixture = try DiskFixture(scratch)
            try fixture.transaction {
                try fixture.put("key", [1, 2])
                try fixture.putFile("large", [UInt8](repeating: 7, count: 9000))
                fixture.index.setSequence(1 << 50)
                fixture.index.setFlush(generation: 3, at: WallTime(milliseconds: 1_700_000_000_001))
            }
        }
        let again = try DiskFixture(scratch)
        #expect(again.index.sequence == 1 << 50)
        #expect(again.index.flushGeneration == 3)
        #expect(again.index.flushAt == WallTime(milliseconds: 1_700_000_000_001))
        #expect(
            again.index.totals
                == DiskTotals(entries: 2, valueBytes: 9002, inlineBytes: 2, fileEntries: 1, fileBytes: 12288))
        try again.transaction { again.index.setFlush(generation: 4, at: nil) }
        #expect(again.index.flushAt == nil)
    }

    @Test func noStatementStaysOpen() throws {
        let fixture = try DiskFixture()
        let index = fixture.index
        let key = Array("key".utf8)
        func check() { #expect(index.open?.connection.busyStatements == 0) }
        check()
        try fixture.transaction {
            for number in 0..<5 { try fixture.put("key\(number)", [1]) }
            try fixture.put("key0", [2])
            _ = try index.delete(hash: hashOf("key1"), key: Array("key1".utf8).span)
            _ = try index.touch(hash: 1, key: key.span, deadline: .never, marks: [], cas: 1, accessed: .never)
            try index.setAccessed(hash: 1, .never)
            // BEGIN and COMMIT complete at once; only a SELECT could stay open here.
            check()
        }
        _ = try index.leastRecent(limit: 2)
        _ = try index.expired(before: .never, limit: 2)
        _ = try index.idle(accessedBefore: .never, limit: 2)
        _ = try index.larger(than: 0, after: 0, limit: 2)
        _ = try index.scan(after: 0, limit: 2)
        _ = try index.hasFile(generation: 1)
        _ = try index.fileGenerations(after: 0, limit: 2)
        _ = (index.pageBytes, index.freePages)
        _ = try index.recount()
        try index.quickCheck()
        check()
        let reader = try fixture.reader()
        _ = try reader.entry("key0")
        _ = try reader.scan(after: 0, limit: 2)
        #expect(try index.checkpoint(.truncate).isComplete)
    }

    @Test func aClosedIndexRefusesPolitely() throws {
        let fixture = try DiskFixture()
        fixture.index.close()
        #expect(diskError { try fixture.index.begin() }?.message == "the index is closed")
        #expect(diskError { _ = try fixture.index.leastRecent(limit: 1) }?.kind == .other)
        let reader = try DiskFixture().reader()
        reader.close()
        #expect(diskError { _ = try reader.entry("key") }?.message == "the index is closed")
    }

    @Test func closingRollsBack() throws {
        let fixture = try DiskFixture()
        try fixture.index.begin()
        try fixture.put("key", [1])
        fixture.index.close()
        fixture.index = try DiskIndex(directory: fixture.directory, options: IndexOptions())
        #expect(fixture.index.totals.entries == 0)
    }

    @Test func aFullIndexSaysSoAndGoesOnAfterARollback() throws {
        let fixture = try DiskFixture()
        try fixture.transaction { try fixture.put("kept", [1]) }
        try fixture.index.open?.connection.execute("PRAGMA max_page_count = 20")
        let before = fixture.index.totals
        try fixture.index.begin()
        let error = diskError {
            for number in 0..<100 { try fixture.put("key\(number)", [UInt8](repeating: 1, count: 4000)) }
        }
        #expect(error?.kind == .full)
        fixture.index.rollback()
        #expect(fixture.index.totals == before)
        #expect(try fixture.reader().entry("kept").value == [1])
        try fixture.index.open?.connection.execute("PRAGMA max_page_count = 1000000")
        try fixture.transaction { try fixture.put("more", [2]) }
        #expect(try fixture.index.recount() == fixture.index.totals)
    }

    /// SQLite ends a transaction by itself after some errors; what comes next must not be committed on its own.
    @Test func aTransactionThatSQLiteEndedTakesNoMoreChanges() throws {
        let fixture = try DiskFixture()
        try fixture.index.begin()
        try fixture.put("one", [1])
        try fixture.index.open?.connection.execute("ROLLBACK")
        #expect(diskError { try fixture.put("two", [2]) }?.message == "the transaction was rolled back")
        #expect(diskError { try fixture.index.setAccessed(hash: 1, .never) }?.kind == .other)
        fixture.index.rollback()
        try fixture.transaction { try fixture.put("three", [3]) }
        #expect(try fixture.index.recount().entries == 1)
        #expect(fixture.index.totals.entries == 1)
    }
}
