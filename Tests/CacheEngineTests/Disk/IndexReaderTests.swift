// What a read-only connection sees: the last commit, hints that prove nothing, lists of hashes, scans.

import Foundation
import Primitives
import SQLite
import Testing

@testable import CacheEngine

@Suite struct IndexReaderTests {
    @Test func aReadSeesTheLastCommitOnly() throws {
        let fixture = try DiskFixture()
        let reader = try fixture.reader()
        try fixture.transaction { try fixture.put("key", [1]) }
        try fixture.index.begin()
        try fixture.put("key", [2])
        #expect(try reader.entry("key").value == [1])
        try fixture.index.commit()
        #expect(try reader.entry("key").value == [2])
        var seen: [[UInt8]?] = []
        try reader.holdSnapshot(asOf: 1)
        seen.append(try reader.entry("key").value)
        try fixture.transaction { try fixture.put("key", [3]) }
        try reader.holdSnapshot(asOf: 1)
        seen.append(try reader.entry("key").value)
        // One of a later commit is asked for.
        try reader.holdSnapshot(asOf: 2)
        seen.append(try reader.entry("key").value)
        #expect(seen == [[2], [2], [3]])
        try fixture.transaction { try fixture.put("key", [4]) }
        reader.releaseSnapshot()
        #expect(try reader.entry("key").value == [4])
    }

    @Test func hintsAreNotBelieved() throws {
        let fixture = try DiskFixture()
        let hints = RowHints(bytes: 4096)
        fixture.index.hints = hints
        try fixture.transaction { for number in 0..<20 { try fixture.put("key\(number)", [UInt8(number)]) } }
        let reader = try IndexReader(location: fixture.directory.location, hints: hints)
        let hash = hashOf(Array("key7".utf8))
        #expect(hints.find(hash) == 8)
        #expect(try reader.entry("key7").value == [7])
        // Of a row that is another's, of one that is gone, and of one that was put anew.
        hints.note(hash, 3)
        #expect(try reader.entry("key7").value == [7])
        #expect(hints.find(hash) == 8)
        hints.note(hash, 1000)
        #expect(try reader.entry("key7").value == [7])
        let key = Array("key7".utf8)
        try fixture.transaction { _ = try fixture.index.delete(hash: hash, key: key.span) }
        #expect(try reader.entry("key7").lookup == .absent)
        try fixture.transaction { try fixture.put("key7", [77]) }
        #expect(try reader.entry("key7").value == [77])
    }

    @Test func hintsFindWhatThereIsRoomFor() {
        let hints = RowHints(bytes: 1 << 16)
        var hashes: [UInt64] = []
        var random = SystemRandomNumberGenerator()
        for number in 0..<4096 {
            hashes.append(random.next())
            hints.note(hashes[number], Int64(number + 1))
        }
        let right = hashes.enumerated().filter { hints.find($1) == Int64($0 + 1) }.count
        // 8,192 slots: hardly a bucket of four gets more.
        #expect(right > 3800)
        hints.note(hashes[5], 1 << 40)
        #expect(hints.find(hashes[5]) != 1 << 40)
    }

    @Test func hashesAreListedOnceEach() throws {
        let fixture = try DiskFixture()
        let extremes: [UInt64] = [0, 1, .max, 1 << 63, (1 << 63) - 1, (1 << 63) + 1]
        try fixture.transaction {
            for (number, hash) in extremes.enumerated() { try fixture.put("key\(number)", [1], hash: hash) }
        }
        for limit in 1...7 {
            var hashes: [UInt64] = []
            while true {
                let more = try fixture.index.hashes(after: hashes.last.map { Int64(bitPattern: $0) }, limit: limit)
                #expect(more.count <= limit)
                if more.isEmpty { break }
                hashes += more
            }
            #expect(hashes.count == extremes.count, "limit \(limit)")
            #expect(Set(hashes) == Set(extremes))
        }
    }

    @Test func aScanGivesEveryEntryOnce() throws {
        let fixture = try DiskFixture()
        var expected: [String: EntryMetadata] = [:]
        try fixture.transaction {
            for number in 0..<25 {
                expected["key\(number)"] = try fixture.put("key\(number)", [UInt8(number)]).metadata
            }
            try fixture.putFile("large", [UInt8](repeating: 1, count: 100))
        }
        let reader = try fixture.reader()
        for limit in [1, 7, 26, 100] {
            for usesReader in [false, true] {
                var keys: [String] = []
                var after: Int64? = 0
                while let from = after {
                    let page =
                        try usesReader
                        ? reader.scan(after: from, limit: limit) : fixture.index.scan(after: from, limit: limit)
                    for entry in page.entries {
                        let key = String(decoding: entry.key, as: UTF8.self)
                        keys.append(key)
                        #expect(entry.hash == hashOf(key))
                        #expect(entry.metadata.generation == expected[key]?.generation ?? entry.metadata.generation)
                        #expect(entry.fileBytes == (key == "large" ? 4096 : 0))
                    }
                    after = page.next
                }
                #expect(keys.count == 26)
                #expect(Set(keys).count == 26)
            }
        }
    }
}
