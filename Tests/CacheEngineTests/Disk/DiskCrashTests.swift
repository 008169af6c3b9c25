import Foundation
import Primitives
import SQLite
import Testing

@testable import CacheEngine

extension ScratchDirectory {
    /// A copy of everything as the page cache has it now: what a killed process would leave.
    func copyAsAfterAKill() throws -> ScratchDirectory {
        let copy = try ScratchDirectory()
        for name in try names() where name != "lock" {
            try FileManager.default.copyItem(atPath: path(name), toPath: copy.path(name))
        }
        return copy
    }
}

@Suite struct DiskCrashTests {
    @Test func whatWasCommittedSurvivesAKillAndNothingElse() throws {
        let fixture = try DiskFixture()
        var committed: [String: [UInt8]] = [:]
        for round in 0..<10 {
            try fixture.transaction {
                for number in 0..<30 {
                    let key = "key\((round * 7 + number) % 50)"
                    committed[key] = [UInt8(round), UInt8(number)]
                    try fixture.put(key, [UInt8(round), UInt8(number)])
                }
                try fixture.putFile("large\(round)", [UInt8](repeating: UInt8(round), count: 5000))
                fixture.index.setSequence(UInt64(round + 1))
            }
            if round == 5 { _ = try fixture.index.checkpoint(.passive) }
            try fixture.directory.writeAnchor(sequence: UInt64(round + 1), clean: false, sync: false)
        }
        let totals = fixture.index.totals
        try fixture.index.begin()
        for number in 0..<50 { try fixture.put("key\(number)", [99]) }
        let after = try DiskFixture(fixture.scratch.copyAsAfterAKill())
        #expect(after.verdict == .resumed(afterCrash: true))
        #expect(after.index.sequence == 10)
        #expect(after.index.totals == totals)
        #expect(try after.index.recount() == totals)
        let reader = try after.reader()
        for (key, value) in committed { #expect(try reader.entry(key).value == value) }
        for round in 0..<10 {
            let key = Array("large\(round)".utf8)
            let metadata = try #require(try reader.entry("large\(round)").metadata)
            let file = try after.directory.valueFiles().open(key: key.span, expecting: metadata)
            try file.verify()
        }
        fixture.index.rollback()
    }

    @Test func anIndexBehindItsAnchorIsCorrupt() throws {
        let scratch = try ScratchDirectory()
        do {
            let fixture = try DiskFixture(scratch)
            try fixture.transaction { fixture.index.setSequence(8) }
            try fixture.directory.writeAnchor(sequence: 9, clean: false, sync: false)
        }
        let directory = try StoreDirectory.open(path: scratch.path)
        #expect(try directory.start(policy: .discard, durability: .process, bootID: "boot-a").journalIsValid)
        let error = diskError { _ = try DiskIndex(directory: directory, options: IndexOptions()) }
        #expect(error?.kind == .corrupt)
        #expect(error?.message == "the index is at sequence 8, the anchor at 9")
        try directory.quarantine(error?.message ?? "")
        let index = try DiskIndex(directory: directory, options: IndexOptions())
        #expect(index.totals == DiskTotals())
    }

    /// A store directory swapped for another one, or an anchor put back from a backup.
    @Test func anIndexOfALaterEpochIsCorrupt() throws {
        let scratch = try ScratchDirectory()
        do { _ = try DiskFixture(scratch) }
        let anchor = try scratch.read("anchor")
        do { _ = try DiskFixture(scratch) }
        try scratch.write(anchor, to: "anchor")
        #expect(diskError { _ = try DiskFixture(scratch) }?.kind == .corrupt)
    }

    @Test func aLostLogAloneIsNotANewIndex() throws {
        let scratch = try ScratchDirectory()
        do {
            let fixture = try DiskFixture(scratch)
            try fixture.transaction {
                try fixture.put("key", [1])
                fixture.index.setSequence(3)
            }
            try fixture.directory.writeAnchor(sequence: 3, clean: false, sync: false)
            let copy = try scratch.copyAsAfterAKill()
            try FileManager.default.removeItem(atPath: copy.path("store/index.db-wal"))
            #expect(diskError { _ = try DiskFixture(copy) }?.kind == .corrupt)
            try FileManager.default.removeItem(atPath: copy.path("store/index.db"))
            #expect(diskError { _ = try DiskFixture(copy) }?.kind == .corrupt)
        }
    }

    @Test(arguments: [
        "DROP INDEX entry_file", "ALTER TABLE entry ADD COLUMN x", "CREATE TABLE more (a)",
        "PRAGMA user_version = 2", "PRAGMA application_id = 7", "DELETE FROM meta",
        "UPDATE meta SET flushGeneration = 1",
        "UPDATE meta SET entries = entries + 1",
    ])
    func anIndexThatIsNotOursIsCorrupt(_ change: String) throws {
        let scratch = try ScratchDirectory()
        let path: String
        do {
            let fixture = try DiskFixture(scratch)
            path = fixture.directory.location.path
        }
        try Connection(path: path, access: .readWrite).execute(change)
        #expect(diskError { _ = try DiskFixture(scratch) }?.kind == .corrupt)
        #expect(scratch.exists("store/index.db"))
    }

    @Test func whatIsNoDatabaseIsCorrupt() throws {
        let scratch = try ScratchDirectory()
        do { _ = try DiskFixture(scratch) }
        try scratch.write([UInt8](repeating: 0x41, count: 40_000), to: "store/index.db")
        #expect(diskError { _ = try DiskFixture(scratch) }?.kind == .corrupt)
    }

    /// Someone else's lock says nothing about the content.
    @Test func aLockedIndexIsNotCorruptAndNotTouched() throws {
        let scratch = try ScratchDirectory()
        let path: String
        do {
            let fixture = try DiskFixture(scratch)
            path = fixture.directory.location.path
            try fixture.transaction { try fixture.put("key", [1]) }
        }
        do {
            let holder = try Connection(path: path, access: .readWrite)
            try holder.execute("BEGIN IMMEDIATE")
            #expect(diskError { _ = try DiskFixture(scratch) }?.kind == .other)
            try holder.execute("ROLLBACK")
        }
        #expect(try DiskFixture(scratch).index.totals.entries == 1)
    }

    @Test func anIndexThatCannotBeOpenedIsNotCorrupt() throws {
        let scratch = try ScratchDirectory()
        do { _ = try DiskFixture(scratch) }
        let path = scratch.path("store/index.db")
        try FileManager.default.moveItem(atPath: path, toPath: scratch.path("store/aside"))
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
        #expect(diskError { _ = try DiskFixture(scratch) }?.kind == .other)
        #expect(scratch.exists("store/aside"))
    }

    /// A limit on file sizes stands for a full disk: write(2) fails with EFBIG in the middle of a commit.
    @Test func afterAFailedCommitTheIndexWantsToBeReopened() async {
        await #expect(processExitsWith: .success) {
            signal(SIGXFSZ, SIG_IGN)
            let fixture = try DiskFixture()
            try fixture.transaction { try fixture.put("kept", [1]) }
            var limit = rlimit(rlim_cur: 200_000, rlim_max: .max)
            setrlimit(__rlimit_resource_t(1), &limit)
            try fixture.index.begin()
            for number in 0..<100 { try fixture.put("key\(number)", [UInt8](repeating: 1, count: 4000)) }
            fixture.index.setSequence(7)
            let failed = diskError { try fixture.index.commit() }
            try #require(failed?.kind == .full, "\(String(describing: failed))")
            try #require(fixture.index.sequence == 0)
            try #require(fixture.index.totals.entries == 1)
            try #require(diskError { try fixture.index.begin() }?.message == "a commit failed: reopen the index")
            let reader = try fixture.reader()
            try #require(reader.entry("kept").value == [1])

            fixture.index.close()
            limit.rlim_cur = .max
            setrlimit(__rlimit_resource_t(1), &limit)
            fixture.index = try DiskIndex(directory: fixture.directory, options: IndexOptions())
            try #require(fixture.index.totals.entries == 1)
            try fixture.transaction { try fixture.put("more", [2]) }
            try #require(reader.entry("more").value == [2])
            try #require(try fixture.index.recount() == fixture.index.totals)
        }
    }
}
