import Foundation
import Primitives
import Testing

@testable import CacheEngine

@Suite struct OrphanSweepTests {
    /// Sweeps to the end in steps of `budget`.
    private func sweep(_ fixture: DiskFixture, budget: Int) throws -> SweepProgress {
        var sweep = try fixture.directory.valueFiles().sweep(epochsBefore: fixture.directory.epoch)
        var progress = SweepProgress()
        while !progress.isDone {
            let examined = progress.examined
            progress = try sweep.step(budget: budget) { generation throws(DiskError) in
                try fixture.index.hasFile(generation: generation)
            }
            #expect(progress.examined - examined <= budget)
        }
        return progress
    }

    private func makeOrphan(_ directory: StoreDirectory, _ generation: UInt64) throws {
        var writer = try directory.valueFiles().create(generation: generation, key: Array("gone".utf8).span)
        _ = try writer.finish(sync: false)
    }

    @Test(arguments: [1, 7, 1000])
    func onlyOldUnreferencedFilesGo(_ budget: Int) throws {
        let scratch = try ScratchDirectory()
        do {
            let first = try DiskFixture(scratch)
            try first.transaction {
                for number in 0..<20 { try first.putFile("key\(number)", [UInt8](repeating: 1, count: 5000)) }
            }
            for counter in 100..<UInt64(120) { try makeOrphan(first.directory, 1 << 40 | counter) }
            // One subdirectory with several of them.
            for counter in 1..<UInt64(6) { try makeOrphan(first.directory, 1 << 40 | counter << 8 | 3) }
        }
        let second = try DiskFixture(scratch)
        try makeOrphan(second.directory, 2 << 40 | 1)
        let progress = try sweep(second, budget: budget)
        #expect(progress.removed == 25)
        #expect(progress.removedBytes == 25 * 4096)
        #expect(progress.examined == 46)
        #expect(progress.foreign == 0)
        #expect(progress.failed == 0)
        #expect(scratch.exists("store/v/01/0000020000000001"))
        for generation in try second.index.fileGenerations(after: 0, limit: 100) {
            let name = ValueFiles.name(generation)
            #expect(scratch.exists("store/v/\(name.directory)/\(name.file)"))
        }
        #expect(try sweep(second, budget: budget).removed == 0)
    }

    @Test func foreignNamesAreCountedAndLeftAlone() throws {
        let scratch = try ScratchDirectory()
        do { try makeOrphan(DiskFixture(scratch).directory, 1 << 40 | 5) }
        let second = try DiskFixture(scratch)
        let foreign = [
            "05/notes", "05/0000010000000005.bak", "05/000001000000AB05", "05/10000000005", "05/0000010000000006",
            "05/+000010000000005",
        ]
        for name in foreign { try scratch.write([1], to: "store/v/\(name)") }
        try FileManager.default.createDirectory(
            atPath: scratch.path("store/v/05/0000010000000105"), withIntermediateDirectories: false)
        try FileManager.default.createSymbolicLink(
            atPath: scratch.path("store/v/05/0000010000000205"), withDestinationPath: "/dev/null")
        try scratch.write([1], to: "store/v/readme")
        try FileManager.default.createDirectory(
            atPath: scratch.path("store/v/abc"), withIntermediateDirectories: false)
        let progress = try sweep(second, budget: 10)
        #expect(progress.removed == 1)
        #expect(progress.foreign == foreign.count + 4)
        #expect(try scratch.names("store/v/05").count == foreign.count + 2)
        #expect(scratch.exists("store/v/readme"))
    }

    @Test func anIndexFailureStopsTheSweepAndRemovesNothing() throws {
        let scratch = try ScratchDirectory()
        do { try makeOrphan(DiskFixture(scratch).directory, 1 << 40 | 5) }
        let second = try DiskFixture(scratch)
        var sweep = try second.directory.valueFiles().sweep(epochsBefore: 2)
        let failure = DiskError(kind: .io, operation: "test", code: 0, message: "test")
        #expect(throws: DiskError.self) {
            _ = try sweep.step(budget: 10_000) { _ throws(DiskError) in throw failure }
        }
        #expect(scratch.exists("store/v/05/0000010000000005"))
    }
}

@Suite struct OldStoresTests {
    private func quarantine(_ fixture: DiskFixture) throws {
        try fixture.transaction {
            for number in 0..<10 { try fixture.putFile("key\(number)", [UInt8](repeating: 1, count: 5000)) }
        }
        fixture.index.close()
        try fixture.directory.quarantine("test")
        fixture.index = try DiskIndex(directory: fixture.directory, options: IndexOptions())
    }

    @Test func oldStoresGoInBoundedStepsAndTheNewestQuarantineStays() throws {
        let fixture = try DiskFixture()
        for _ in 0..<3 { try quarantine(fixture) }
        #expect(try fixture.directory.oldStoreBytes() > 3 * 10 * 8192)
        var removed = 0
        var progress = RemovalProgress()
        while !progress.isDone {
            progress = try fixture.directory.removeOldStores(keepNewestQuarantine: true, budget: 4)
            #expect(progress.removedFiles <= 4)
            #expect(progress.removedFiles == 0 || progress.removedBytes > 0)
            removed += progress.removedFiles
        }
        // 10 value files, the index and the reason, twice; the last connection removed log and index of it.
        #expect(removed == 24)
        #expect(try fixture.scratch.names().filter { $0.hasPrefix("quarantine-") } == ["quarantine-4"])
        let rest = try fixture.directory.removeOldStores(keepNewestQuarantine: false, budget: 1000)
        #expect(rest.isDone)
        #expect(try fixture.scratch.names() == ["FORMAT", "anchor", "lock", "store"])
        #expect(try fixture.directory.oldStoreBytes() == 0)
    }

    @Test func theNewestIsToldByNumberNotByName() throws {
        let fixture = try DiskFixture()
        for name in ["quarantine-9", "quarantine-10", "quarantine-10-2"] {
            try FileManager.default.createDirectory(
                atPath: fixture.scratch.path(name), withIntermediateDirectories: false)
        }
        _ = try fixture.directory.removeOldStores(keepNewestQuarantine: true, budget: 1000)
        #expect(try fixture.scratch.names().filter { $0.hasPrefix("quarantine-") } == ["quarantine-10-2"])
    }

    @Test func foreignFilesInAnOldStoreKeepItsDirectory() throws {
        let fixture = try DiskFixture()
        try quarantine(fixture)
        try fixture.scratch.write([1], to: "quarantine-2/v/keep-me")
        try FileManager.default.createSymbolicLink(
            atPath: fixture.scratch.path("discarded-1"), withDestinationPath: fixture.scratch.path("store"))
        try fixture.scratch.write([1], to: "quarantine-1")
        let progress = try fixture.directory.removeOldStores(keepNewestQuarantine: false, budget: 1000)
        #expect(progress.isDone)
        #expect(try fixture.scratch.names("quarantine-2") == ["v"])
        #expect(try fixture.scratch.names("quarantine-2/v") == ["keep-me"])
        #expect(fixture.scratch.exists("store/index.db"))
        #expect(try fixture.scratch.names().filter { $0.hasSuffix("-1") } == ["discarded-1", "quarantine-1"])
    }
}
