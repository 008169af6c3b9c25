import Foundation
import Primitives
import SQLite
import Testing

@testable import CacheEngine

@Suite struct DiskTrimmingTests {
    private func time(_ seconds: Int64) -> WallTime { WallTime(milliseconds: seconds * 1000) }

    @Test func theLeastRecentComesFirst() throws {
        let fixture = try DiskFixture()
        var generations: [Int64: UInt64] = [:]
        try fixture.transaction {
            for second: Int64 in [50, 10, 40, 20, 30] {
                let put = try fixture.put("key\(second)", [UInt8](repeating: 1, count: Int(second))) {
                    $0.accessed = time(second)
                }
                generations[second] = put.metadata.generation
            }
        }
        let first = try fixture.index.leastRecent(limit: 3)
        #expect(first.map(\.accessed) == [time(10), time(20), time(30)])
        #expect(first.map(\.generation) == [10, 20, 30].map { generations[$0] })
        #expect(first.map(\.valueBytes) == [10, 20, 30])
        #expect(first.map(\.hash) == [10, 20, 30].map { hashOf("key\($0)") })
        #expect(first.allSatisfy { $0.fileBytes == 0 })
        try fixture.transaction {
            try fixture.index.setAccessed(hash: hashOf("key10"), time(60))
            for candidate in first.dropFirst() {
                let replaced = try fixture.index.deleteRow(candidate.rowID, ifGeneration: candidate.generation)
                #expect(replaced == Replaced(generation: candidate.generation, fileBytes: 0))
            }
        }
        #expect(try fixture.index.leastRecent(limit: 9).map(\.accessed) == [time(40), time(50), time(60)])
        #expect(try fixture.index.idle(accessedBefore: time(50), limit: 9).map(\.accessed) == [time(40)])
        #expect(try fixture.index.idle(accessedBefore: time(99), limit: 2).map(\.accessed) == [time(40), time(50)])
    }

    @Test func expiredOnesComeByDeadline() throws {
        let fixture = try DiskFixture()
        try fixture.transaction {
            try fixture.put("never", [1])
            for milliseconds: Int64 in [3000, 1000, 2000, 2001] {
                try fixture.put("key\(milliseconds)", [1]) { $0.deadline = WallTime(milliseconds: milliseconds) }
            }
        }
        func expired(_ now: Int64, _ limit: Int = 10) throws -> [UInt64] {
            try fixture.index.expired(before: WallTime(milliseconds: now), limit: limit).map(\.hash)
        }
        #expect(try expired(999) == [])
        #expect(try expired(1000) == [hashOf("key1000")])
        #expect(try expired(2000) == [hashOf("key1000"), hashOf("key2000")])
        #expect(try expired(.max) == [1000, 2000, 2001, 3000].map { hashOf("key\($0)") })
        #expect(try expired(.max, 1) == [hashOf("key1000")])
    }

    @Test func walksExamineEveryRowOnceInBoundedSteps() throws {
        let fixture = try DiskFixture()
        var generations: [UInt64] = []
        try fixture.transaction {
            for number in 0..<23 {
                let put = try fixture.put("key\(number)", [UInt8](repeating: 1, count: number * 10)) {
                    $0.written = time(Int64(number))
                }
                generations.append(put.metadata.generation)
            }
        }
        func walk(_ limit: Int, _ step: (Int64) throws -> TrimPage) throws -> [UInt64] {
            var found: [UInt64] = []
            var steps = 0
            var after: Int64? = 0
            while let from = after {
                let page = try step(from)
                #expect(page.candidates.count <= limit)
                found += page.candidates.map(\.generation)
                after = page.next
                steps += 1
            }
            #expect(steps >= 23 / limit)
            return found
        }
        for limit in [1, 5, 23, 100] {
            let index = fixture.index
            #expect(
                try walk(limit) { try index.flushed(upTo: generations[9], after: $0, limit: limit) }
                    == Array(generations[...9]))
            #expect(
                try walk(limit) { try index.larger(than: 150, after: $0, limit: limit) } == Array(generations[16...]))
            #expect(
                try walk(limit) { try index.writtenBefore(time(4), after: $0, limit: limit) }
                    == Array(generations[..<4]))
        }
    }

    @Test func fileEntriesAreFoundByGeneration() throws {
        let fixture = try DiskFixture()
        var files: [UInt64] = []
        try fixture.transaction {
            for number in 0..<10 {
                if number % 2 == 0 {
                    try fixture.put("key\(number)", [1])
                } else {
                    files.append(try fixture.putFile("key\(number)", [1]).metadata.generation)
                }
            }
        }
        #expect(try fixture.index.fileGenerations(after: 0, limit: 100) == files)
        #expect(try fixture.index.fileGenerations(after: files[1], limit: 2) == Array(files[2...3]))
        for generation in 1...UInt64(10) {
            let isFile = files.contains(1 << 40 | generation)
            #expect(try fixture.index.hasFile(generation: 1 << 40 | generation) == isFile)
        }
        let candidates = try fixture.index.leastRecent(limit: 100)
        #expect(candidates.filter { $0.fileBytes == 4096 }.count == 5)
    }

    /// No trim may read a whole table or sort: that is what the indexes are for.
    @Test func everyTrimQueryUsesItsIndex() throws {
        let fixture = try DiskFixture()
        let connection = try #require(fixture.index.open?.connection)
        func plan(_ sql: String) throws -> String {
            var statement = try connection.prepare("EXPLAIN QUERY PLAN \(sql)", name: "plan")
            var lines: [String] = []
            while try statement.step() { lines.append(statement.text(at: 3)) }
            return lines.joined(separator: "; ")
        }
        let columns = DiskIndexSchema.candidateColumns
        #expect(
            try plan("SELECT \(columns) FROM entry ORDER BY accessed LIMIT 5")
                == "SCAN entry USING INDEX entry_accessed")
        #expect(
            try plan("SELECT \(columns) FROM entry WHERE deadline <= 5 ORDER BY deadline LIMIT 5")
                == "SEARCH entry USING INDEX entry_deadline (deadline<?)")
        #expect(
            try plan("SELECT \(columns) FROM entry WHERE accessed < 5 ORDER BY accessed LIMIT 5")
                == "SEARCH entry USING INDEX entry_accessed (accessed<?)")
        #expect(
            try plan("SELECT generation FROM entry WHERE generation > 5 AND fileBytes > 0 ORDER BY generation LIMIT 5")
                == "SEARCH entry USING INDEX entry_file (generation>?)")
        #expect(
            try plan("SELECT hash FROM entry WHERE hash >= 5 ORDER BY hash LIMIT 5")
                == "SEARCH entry USING COVERING INDEX entry_hash (hash>?)")
        #expect(
            try plan("DELETE FROM entry WHERE hash = 5 AND (?2 IS NULL OR generation = ?2) RETURNING generation")
                == "SEARCH entry USING INDEX entry_hash (hash=?)")
    }
}

@Suite struct DiskSpaceTests {
    @Test func deletedSpaceIsGivenBack() throws {
        let fixture = try DiskFixture()
        try fixture.transaction {
            for number in 0..<400 { try fixture.put("key\(number)", [UInt8](repeating: 1, count: 8000)) }
        }
        let full = fixture.index.pageBytes
        #expect(full > 400 * 8000)
        #expect(fixture.index.walBytes > 400 * 8000)
        #expect(fixture.index.freePages == 0)
        #expect(try fixture.index.checkpoint(.truncate).isComplete)
        #expect(fixture.index.walBytes == 0)
        #expect(try fixture.scratch.read("store/index.db").count == full)

        try fixture.transaction {
            for candidate in try fixture.index.leastRecent(limit: 390) {
                _ = try fixture.index.deleteRow(candidate.rowID, ifGeneration: candidate.generation)
            }
        }
        let free = fixture.index.freePages
        #expect(free > 300)
        #expect(fixture.index.pageBytes == full)
        try fixture.index.incrementalVacuum(pages: 100)
        #expect(fixture.index.freePages == free - 100)
        try fixture.index.incrementalVacuum(pages: 10_000)
        #expect(fixture.index.freePages == 0)
        #expect(fixture.index.pageBytes < full / 8)
        _ = try fixture.index.checkpoint(.truncate)
        #expect(try fixture.scratch.read("store/index.db").count == fixture.index.pageBytes)
        #expect(fixture.index.totals.entries == 10)
        try fixture.index.quickCheck()
    }

    @Test func aReaderDoesNotHoldBackACheckpointBetweenReads() throws {
        let fixture = try DiskFixture()
        try fixture.transaction { try fixture.put("key", [1]) }
        let reader = try fixture.reader()
        #expect(try reader.entry("key").lookup == .found)
        #expect(try fixture.index.checkpoint(.truncate).isComplete)
        var held: CheckpointResult?
        try reader.holdSnapshot(asOf: 1)
        _ = try reader.entry("key")
        try fixture.transaction { try fixture.put("key", [2]) }
        held = try fixture.index.checkpoint(.passive)
        reader.releaseSnapshot()
        #expect(held?.isComplete == false)
        #expect(try fixture.index.checkpoint(.passive).isComplete)
    }

    @Test func syncLeavesNothingInTheLog() throws {
        let fixture = try DiskFixture()
        try fixture.transaction { try fixture.put("key", [1]) }
        try fixture.index.sync()
        #expect(fixture.index.walBytes == 0)
        #expect(try fixture.index.open?.connection.integer("PRAGMA synchronous") == 2)
    }

    @Test func thePragmasAreTheOnesThatWeWant() throws {
        let fixture = try DiskFixture(options: IndexOptions(pageSize: 4096, synchronous: .normal, cacheBytes: 8 << 20))
        let connection = try #require(fixture.index.open?.connection)
        let expected: [(String, Int64)] = [
            ("page_size", 4096), ("synchronous", 1), ("cache_size", -8192), ("auto_vacuum", 2), ("secure_delete", 0),
            ("mmap_size", 0), ("wal_autocheckpoint", 0), ("journal_size_limit", 64 << 20), ("cell_size_check", 1),
            ("trusted_schema", 0), ("temp_store", 2), ("application_id", 0x6363_6865), ("user_version", 1),
        ]
        for (pragma, value) in expected { #expect(try connection.integer("PRAGMA \(pragma)") == value, "\(pragma)") }
        #expect(try connection.text("PRAGMA journal_mode") == "wal")
        #expect(try connection.text("PRAGMA locking_mode") == "normal")
        // An index keeps the page size that it was made with.
        fixture.index.close()
        fixture.index = try DiskIndex(directory: fixture.directory, options: IndexOptions(pageSize: 8192))
        #expect(fixture.index.pageSize == 4096)
    }
}
