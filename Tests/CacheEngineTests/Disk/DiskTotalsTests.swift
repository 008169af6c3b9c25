import Foundation
import Primitives
import TestSupport
import Testing

@testable import CacheEngine

/// What an entry should be.
private struct Expected: Equatable {
    var value: [UInt8]
    var isFile: Bool
    var generation: UInt64
}

/// Random operations against the index and against a dictionary, from one seed.
private struct DiskModel {
    let fixture: DiskFixture
    var numbers: SeededRandom
    var entries: [String: Expected] = [:]

    var totals: DiskTotals {
        var totals = DiskTotals()
        for (key, entry) in entries {
            let bytes =
                entry.isFile
                ? ValueFiles.allocatedBytes(keyBytes: key.utf8.count, valueBytes: entry.value.count) : 0
            totals.add(valueBytes: entry.value.count, fileBytes: bytes, sign: 1)
        }
        return totals
    }

    mutating func step() throws {
        let key = "key\(Int.random(in: 0..<40, using: &numbers))"
        let bytes = Array(key.utf8)
        switch Int.random(in: 0..<10, using: &numbers) {
        case 0...3: try put(key, count: Int.random(in: 0..<2000, using: &numbers), isFile: false)
        case 4...5: try put(key, count: Int.random(in: 0..<9000, using: &numbers), isFile: true)
        case 6:
            let replaced = try fixture.index.delete(hash: hashOf(key), key: bytes.span)
            #expect(replaced?.generation == entries[key]?.generation)
            entries[key] = nil
        case 7:
            let wrong = try fixture.index.delete(hash: hashOf(key), key: bytes.span, ifGeneration: 1)
            #expect(wrong == nil)
        case 8:
            let isTouched = try fixture.index.touch(
                hash: hashOf(key), key: bytes.span, deadline: .never, marks: [.won], cas: 5,
                accessed: WallTime(milliseconds: 1_700_000_000_000))
            #expect(isTouched == (entries[key] != nil))
        default:
            for candidate in try fixture.index.leastRecent(limit: 2) {
                _ = try fixture.index.deleteRow(candidate.rowID, ifGeneration: candidate.generation)
                entries = entries.filter { $0.value.generation != candidate.generation }
            }
        }
    }

    private mutating func put(_ key: String, count: Int, isFile: Bool) throws {
        let value = (0..<count).map { _ in UInt8.random(in: .min ... .max, using: &numbers) }
        let put = try isFile ? fixture.putFile(key, value) : fixture.put(key, value)
        #expect(put.replaced?.generation == entries[key]?.generation)
        #expect((put.replaced?.fileBytes ?? 0 > 0) == (entries[key]?.isFile ?? false))
        entries[key] = Expected(value: value, isFile: isFile, generation: put.metadata.generation)
    }
}

@Suite struct DiskTotalsTests {
    @Test(arguments: [UInt64(1), 2, 3])
    func totalsAreTheSumOfTheEntries(_ seed: UInt64) throws {
        var model = DiskModel(fixture: try DiskFixture(), numbers: SeededRandom(seed: seed))
        let fixture = model.fixture
        for round in 0..<60 {
            let (entries, counter) = (model.entries, fixture.counter)
            try fixture.index.begin()
            for _ in 0..<20 { try model.step() }
            switch Int.random(in: 0..<6, using: &model.numbers) {
            case 0:
                fixture.index.rollback()
                model.entries = entries
            case 1:
                // Closed in the middle of a transaction.
                fixture.index.close()
                fixture.index = try DiskIndex(directory: fixture.directory, options: IndexOptions())
                model.entries = entries
            default: try fixture.index.commit()
            }
            #expect(fixture.counter > counter)
            #expect(fixture.index.totals == model.totals, "seed \(seed), round \(round)")
        }
        #expect(try fixture.index.recount() == model.totals)
        try fixture.index.quickCheck()
        let reader = try fixture.reader()
        for number in 0..<40 {
            let key = "key\(number)"
            let entry = try reader.entry(key)
            let expected = model.entries[key]
            #expect(entry.metadata?.generation == expected?.generation)
            if expected?.isFile == false { #expect(entry.value == expected?.value) }
        }
    }

    @Test func totalsBeyond32BitsAndFarAboveDoNotOverflow() throws {
        let fixture = try DiskFixture()
        let huge = 5 << 30
        let key = Array("huge".utf8)
        var metadata = EntryMetadata.sample(generation: fixture.nextGeneration(), valueBytes: huge)
        try fixture.transaction {
            for number in 0..<3 {
                metadata.generation = fixture.nextGeneration()
                _ = try fixture.index.putFile(
                    hash: UInt64(number), key: key.span, metadata: metadata, extended: [UInt8]().span,
                    fileBytes: ValueFiles.allocatedBytes(keyBytes: 4, valueBytes: huge))
            }
        }
        let expected = DiskTotals(
            entries: 3, valueBytes: 3 * huge, inlineBytes: 0, fileEntries: 3, fileBytes: 3 * (huge + 4096))
        #expect(fixture.index.totals == expected)
        fixture.index.close()
        fixture.index = try DiskIndex(directory: fixture.directory, options: IndexOptions())
        #expect(fixture.index.totals == expected)
        metadata.valueBytes = .max - 10
        try fixture.transaction {
            for number in 10..<14 {
                metadata.generation = fixture.nextGeneration()
                _ = try fixture.index.putFile(
                    hash: UInt64(number), key: key.span, metadata: metadata, extended: [UInt8]().span,
                    fileBytes: .max - 4)
            }
            for number in 10..<14 { _ = try fixture.index.delete(hash: UInt64(number), key: key.span) }
        }
        #expect(try fixture.index.recount() == expected)
        try fixture.transaction { try fixture.index.setTotals(expected) }
        #expect(fixture.index.totals == expected)
    }
}
