import Foundation
import Testing

@testable import CacheEngine

/// The error that `body` throws.
func storeError(_ body: () throws -> Void) -> StoreError? {
    do {
        try body()
    } catch let error as StoreError {
        return error
    } catch {
        Issue.record(error)
    }
    return nil
}

private func isNotOurs(_ error: StoreError?) -> Bool {
    if case .notOurs? = error { true } else { false }
}

@Suite struct StoreDirectoryTests {
    @Test func makesThePartsForTheOwnerOnly() throws {
        let scratch = try ScratchDirectory()
        let path = scratch.path("a/b/cache")
        let directory = try StoreDirectory.open(path: path + "//")
        _ = try directory.start(policy: .discard, durability: .process, bootID: "b")
        close(try directory.openJournal())
        let index = try DiskIndex(directory: directory, options: IndexOptions())
        try index.begin()
        try index.commit()
        #expect(try scratch.names("a/b/cache") == ["FORMAT", "anchor", "journal", "lock", "store"])
        #expect(try scratch.names("a/b/cache/store") == ["index.db", "index.db-shm", "index.db-wal", "v"])
        let all = FileManager.default.enumerator(atPath: scratch.path("a"))?.compactMap { $0 as? String } ?? []
        #expect(all.count == 11)
        for name in all {
            var status = stat()
            #expect(lstat(scratch.path("a/\(name)"), &status) == 0)
            let isDirectory = status.st_mode & S_IFMT == S_IFDIR
            #expect(status.st_mode & 0o7777 == (isDirectory ? 0o700 : 0o600), "\(name)")
        }
        index.close()
    }

    @Test func theSecondOneLearnsWhoHoldsIt() throws {
        let scratch = try ScratchDirectory()
        var first: StoreDirectory? = try StoreDirectory.open(path: scratch.path)
        #expect(storeError { _ = try StoreDirectory.open(path: scratch.path) } == .heldBy(getpid()))
        #expect(first != nil)
        first = nil
        _ = try StoreDirectory.open(path: scratch.path)
    }

    @Test func anotherProcessHoldsItUntilItDies() throws {
        let scratch = try ScratchDirectory()
        try scratch.write(Array("4711\n".utf8), to: "lock")
        let holder = Process()
        let output = Pipe()
        holder.executableURL = URL(fileURLWithPath: "/usr/bin/flock")
        holder.arguments = ["--no-fork", scratch.path("lock"), "sh", "-c", "echo locked; exec cat"]
        let input = Pipe()
        holder.standardInput = input
        holder.standardOutput = output
        try holder.run()
        #expect(String(decoding: output.fileHandleForReading.readData(ofLength: 7), as: UTF8.self) == "locked\n")
        #expect(storeError { _ = try StoreDirectory.open(path: scratch.path) } == .heldBy(4711))
        kill(holder.processIdentifier, SIGKILL)
        holder.waitUntilExit()
        input.fileHandleForWriting.closeFile()
        _ = output.fileHandleForReading.readDataToEndOfFile()
        _ = try StoreDirectory.open(path: scratch.path)
        #expect(try String(decoding: scratch.read("lock"), as: UTF8.self) == "\(getpid())\n")
    }

    @Test func aNewerFormatIsRefusedAndNothingTouched() throws {
        let scratch = try ScratchDirectory()
        var format = StoreFormat(seed: 9)
        format.major = 3
        try scratch.write(Array(format.text.utf8), to: "FORMAT")
        try FileManager.default.createDirectory(atPath: scratch.path("store"), withIntermediateDirectories: false)
        #expect(storeError { _ = try StoreDirectory.open(path: scratch.path) } == .newerFormat(major: 3, minor: 0))
        #expect(try scratch.names() == ["FORMAT", "store"])
        #expect(try scratch.read("FORMAT") == Array(format.text.utf8))
    }

    @Test func aSymbolicLinkIsRefused() throws {
        let scratch = try ScratchDirectory()
        try FileManager.default.createDirectory(
            atPath: scratch.path("real"), withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
        try FileManager.default.createSymbolicLink(
            atPath: scratch.path("link"), withDestinationPath: scratch.path("real"))
        #expect(isNotOurs(storeError { _ = try StoreDirectory.open(path: scratch.path("link")) }))
        #expect(isNotOurs(storeError { _ = try StoreDirectory.open(path: scratch.path("link/")) }))
        try scratch.write([], to: "file")
        #expect(isNotOurs(storeError { _ = try StoreDirectory.open(path: scratch.path("file")) }))
        #expect(try scratch.names("real") == [])
    }

    @Test(arguments: [0o770, 0o702, 0o777])
    func aDirectoryThatOthersMayWriteIsRefused(_ mode: Int) throws {
        let scratch = try ScratchDirectory()
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: scratch.path)
        #expect(isNotOurs(storeError { _ = try StoreDirectory.open(path: scratch.path) }))
        #expect(try scratch.names() == [])
    }

    @Test(.enabled(if: geteuid() == 0)) func aDirectoryOfAnotherUserIsRefused() throws {
        let scratch = try ScratchDirectory()
        #expect(chown(scratch.path, 65534, 65534) == 0)
        #expect(isNotOurs(storeError { _ = try StoreDirectory.open(path: scratch.path) }))
        #expect(try scratch.names() == [])
    }

    @Test func foreignContentIsRefusedAndNothingTouched() throws {
        let scratch = try ScratchDirectory()
        try scratch.write([1], to: "thesis.tex")
        let error = storeError { _ = try StoreDirectory.open(path: scratch.path) }
        #expect(isNotOurs(error))
        #expect(error?.description.contains("thesis.tex") == true)
        #expect(try scratch.names() == ["thesis.tex"])
    }

    @Test func foreignFilesBesideAStoreAreLeftAlone() throws {
        let scratch = try ScratchDirectory()
        do { _ = try DiskFixture(scratch) }
        try scratch.write([1], to: "notes")
        let fixture = try DiskFixture(scratch)
        #expect(fixture.verdict == .resumed(afterCrash: true))
        #expect(scratch.exists("notes"))
    }

    @Test(arguments: ["lock", "FORMAT", "anchor", "journal", "store/index.db"])
    func aLinkInPlaceOfAFileIsNotFollowed(_ name: String) throws {
        let scratch = try ScratchDirectory()
        do { _ = try DiskFixture(scratch) }
        let target = try ScratchDirectory()
        try target.write([7, 7, 7], to: "victim")
        if scratch.exists(name) { try FileManager.default.removeItem(atPath: scratch.path(name)) }
        try FileManager.default.createSymbolicLink(
            atPath: scratch.path(name), withDestinationPath: target.path("victim"))
        #expect(throws: (any Error).self) {
            let fixture = try DiskFixture(scratch)
            close(try fixture.directory.openJournal())
        }
        #expect(try target.read("victim") == [7, 7, 7])
    }

    @Test(arguments: ["lock", "FORMAT", "anchor", "journal"])
    func aFifoOrHardLinkInPlaceOfAFileIsRefused(_ name: String) throws {
        for isFifo in [true, false] {
            let scratch = try ScratchDirectory()
            do { _ = try DiskFixture(scratch) }
            if scratch.exists(name) { try FileManager.default.removeItem(atPath: scratch.path(name)) }
            if isFifo {
                #expect(mkfifo(scratch.path(name), 0o600) == 0)
            } else {
                try scratch.write(Array(repeating: 1, count: 100), to: "other")
                #expect(link(scratch.path("other"), scratch.path(name)) == 0)
            }
            #expect(throws: StoreError.self) {
                let fixture = try DiskFixture(scratch)
                close(try fixture.directory.openJournal())
            }
        }
    }

    @Test func itNoticesWhenItIsMovedOrRemoved() throws {
        let scratch = try ScratchDirectory()
        let inner = scratch.path("inner")
        let directory = try StoreDirectory.open(path: inner)
        _ = try directory.start(policy: .discard, durability: .process, bootID: "b")
        try directory.checkIntact()
        try FileManager.default.moveItem(atPath: inner + "/store", toPath: inner + "/elsewhere")
        #expect(storeError { try directory.checkIntact() } != nil)
        try FileManager.default.moveItem(atPath: inner + "/elsewhere", toPath: inner + "/store")
        try directory.checkIntact()
        try FileManager.default.moveItem(atPath: inner, toPath: scratch.path("moved"))
        #expect(storeError { try directory.checkIntact() } != nil)
        try FileManager.default.createDirectory(atPath: inner, withIntermediateDirectories: false)
        #expect(storeError { try directory.checkIntact() } != nil)
        try FileManager.default.removeItem(atPath: scratch.path("moved"))
        #expect(storeError { try directory.checkIntact() } != nil)
    }

    @Test func freeSpaceIsThatOfTheFileSystem() throws {
        let fixture = try DiskFixture()
        #expect(try fixture.directory.availableBytes() > 0)
    }

    @Test func theSeedOutlivesRestarts() throws {
        let scratch = try ScratchDirectory()
        let seed = try DiskFixture(scratch).directory.hashSeed
        #expect(try DiskFixture(scratch).directory.hashSeed == seed)
        #expect(try DiskFixture().directory.hashSeed != seed)
    }

    @Test func theJournalIsOneFileKeptOverRestarts() throws {
        let scratch = try ScratchDirectory()
        do {
            let fixture = try DiskFixture(scratch)
            let journal = try fixture.directory.openJournal()
            #expect(write(journal, "abc", 3) == 3)
            close(journal)
        }
        let fixture = try DiskFixture(scratch)
        #expect(fixture.verdict.journalIsValid)
        close(try fixture.directory.openJournal())
        #expect(try scratch.read("journal") == Array("abc".utf8))
        #expect(fixture.directory.journalPath == scratch.path("journal"))
    }
}
