import Foundation
import Primitives
import TestSupport
import Testing

@testable import CacheEngine

/// The error that `body` throws.
private func fileError(_ body: () throws -> Void) -> ValueFileError? {
    do {
        try body()
    } catch let error as ValueFileError {
        return error
    } catch {
        Issue.record(error)
    }
    return nil
}

private func isDamaged(_ error: ValueFileError?) -> Bool {
    if case .damaged? = error { true } else { false }
}

/// A directory of value files.
private struct ValueFixture {
    let scratch: ScratchDirectory
    let files: ValueFiles

    init() throws {
        scratch = try ScratchDirectory()
        files = ValueFiles(directory: try Directory.open(path: scratch.path))
    }

    @discardableResult
    func write(_ generation: UInt64, _ key: String, _ value: [UInt8], sync: Bool = false, step: Int = .max)
        throws -> EntryMetadata
    {
        var writer = try files.create(generation: generation, key: Array(key.utf8).span)
        var rest = value[...]
        while !rest.isEmpty {
            try rest.prefix(step).withUnsafeBytes { try writer.append($0) }
            rest = rest.dropFirst(step)
        }
        let finished = try writer.finish(sync: sync)
        var metadata = EntryMetadata.sample(generation: generation, valueBytes: finished.valueBytes)
        metadata.valueSum = finished.valueSum
        return metadata
    }

    func load(_ key: String, _ metadata: EntryMetadata) throws -> [UInt8] {
        let reader = try files.open(key: Array(key.utf8).span, expecting: metadata)
        var value = [UInt8](repeating: 0, count: reader.valueBytes)
        try value.withUnsafeMutableBytes { try reader.load(into: $0) }
        try reader.verify()
        return value
    }

    func name(_ generation: UInt64) -> String {
        let name = ValueFiles.name(generation)
        return "\(name.directory)/\(name.file)"
    }
}

private func sampleBytes(_ count: Int, seed: UInt64 = 1) -> [UInt8] {
    var numbers = SeededRandom(seed: seed)
    return (0..<count).map { _ in UInt8.random(in: .min ... .max, using: &numbers) }
}

@Suite struct ValueFileTests {
    @Test(arguments: [0, 1, 4000, 262_144, 262_145, 1_000_001])
    func aValueComesBack(_ count: Int) throws {
        let fixture = try ValueFixture()
        let value = sampleBytes(count)
        let metadata = try fixture.write(0x0000_0100_0000_02ab, "key", value, sync: true, step: 70_000)
        #expect(fixture.scratch.exists("ab/00000100000002ab"))
        #expect(try fixture.scratch.read("ab/00000100000002ab").count == 64 + 3 + count)
        #expect(metadata.valueBytes == count)
        #expect(try fixture.load("key", metadata) == value)
        let seed = EntrySum.seed(key: Array("key".utf8).span, generation: metadata.generation)
        #expect(metadata.valueSum == EntrySum.value(value.span, seed: seed))
        let reader = try fixture.files.open(key: Array("key".utf8).span, expecting: metadata)
        let (offset, bytes) = (reader.valueOffset, reader.valueBytes)
        #expect(offset == 67)
        #expect(bytes == count)
        guard count > 10 else { return }
        var part = [UInt8](repeating: 0, count: 10)
        try part.withUnsafeMutableBytes { try reader.read(at: count - 10, into: $0) }
        #expect(part == Array(value.suffix(10)))
    }

    @Test func spaceIsCountedInBlocks() throws {
        #expect(ValueFiles.allocatedBytes(keyBytes: 0, valueBytes: 4096 - 64) == 4096)
        #expect(ValueFiles.allocatedBytes(keyBytes: 1, valueBytes: 4096 - 64) == 8192)
        let fixture = try ValueFixture()
        var writer = try fixture.files.create(generation: 5, key: Array("key".utf8).span)
        try sampleBytes(5000).withUnsafeBytes { try writer.append($0) }
        let finished = try writer.finish(sync: false)
        #expect(finished.fileBytes == 8192)
        #expect(try fixture.files.remove(generation: 5) == 8192)
        #expect(try fixture.files.remove(generation: 5) == 0)
        #expect(try fixture.files.remove(generation: 6) == 0)
        #expect(try fixture.scratch.names("05") == [])
    }

    @Test func anUnfinishedFileGoesAway() throws {
        let fixture = try ValueFixture()
        do {
            var writer = try fixture.files.create(generation: 5, key: Array("key".utf8).span)
            try sampleBytes(50).withUnsafeBytes { try writer.append($0) }
            #expect(fixture.scratch.exists(fixture.name(5)))
        }
        #expect(!fixture.scratch.exists(fixture.name(5)))
        var writer = try fixture.files.create(generation: 5, key: Array("key".utf8).span)
        writer.abandon()
        writer.abandon()
        #expect(!fixture.scratch.exists(fixture.name(5)))
    }

    @Test func aGenerationIsNotUsedTwice() throws {
        let fixture = try ValueFixture()
        let metadata = try fixture.write(5, "key", [1, 2])
        let error = fileError { try fixture.write(5, "key", [3]) }
        #expect(error == .io(operation: "open", errno: EEXIST))
        #expect(try fixture.load("key", metadata) == [1, 2])
    }

    @Test func aKilledWriterLeavesNoReadableFile() throws {
        let fixture = try ValueFixture()
        let metadata = try fixture.write(5, "key", sampleBytes(1000))
        var bytes = try fixture.scratch.read(fixture.name(5))
        for index in 0..<64 { bytes[index] = 0 }
        try fixture.scratch.write(bytes, to: fixture.name(5))
        #expect(isDamaged(fileError { _ = try fixture.load("key", metadata) }))
    }

    @Test func missingShortAndLongFiles() throws {
        let fixture = try ValueFixture()
        var metadata = try fixture.write(5, "key", sampleBytes(1000))
        let bytes = try fixture.scratch.read(fixture.name(5))
        for count in [0, 10, 63, 66, 67, 500, 1066] {
            try fixture.scratch.write(Array(bytes.prefix(count)), to: fixture.name(5))
            #expect(isDamaged(fileError { _ = try fixture.load("key", metadata) }), "\(count)")
        }
        try fixture.scratch.write(bytes + [0], to: fixture.name(5))
        #expect(isDamaged(fileError { _ = try fixture.load("key", metadata) }))
        try fixture.scratch.write(bytes, to: fixture.name(5))
        #expect(try fixture.load("key", metadata).count == 1000)
        metadata.valueBytes = -1
        #expect(isDamaged(fileError { _ = try fixture.load("key", metadata) }))
        metadata.generation = 6
        #expect(fileError { _ = try fixture.load("key", metadata) } == .missing)
        metadata.generation = 0x105
        #expect(fileError { _ = try fixture.load("key", metadata) } == .missing)
    }

    @Test func aFileThatShrinksUnderTheReader() throws {
        let fixture = try ValueFixture()
        let metadata = try fixture.write(5, "key", sampleBytes(600_000))
        let reader = try fixture.files.open(key: Array("key".utf8).span, expecting: metadata)
        #expect(truncate(fixture.scratch.path(fixture.name(5)), 300_000) == 0)
        var verified: ValueFileError?
        do throws(ValueFileError) { try reader.verify() } catch { verified = error }
        #expect(isDamaged(verified))
    }

    @Test func swappedFilesAreSeen() throws {
        let fixture = try ValueFixture()
        let value = sampleBytes(500)
        let one = try fixture.write(0x105, "one", value)
        let two = try fixture.write(0x205, "two", value)
        let newer = try fixture.write(0x305, "one", value)
        let names = [one, two, newer].map { fixture.name($0.generation) }
        let bytes = try names.map { try fixture.scratch.read($0) }
        for (metadata, key, index) in [(one, "one", 0), (two, "two", 1), (newer, "one", 2)] {
            for other in 0..<3 {
                try fixture.scratch.write(bytes[other], to: names[index])
                let error = fileError { () throws in #expect(try fixture.load(key, metadata) == value) }
                #expect(isDamaged(error) == (other != index), "\(index) \(other)")
            }
            try fixture.scratch.write(bytes[index], to: names[index])
        }
    }

    /// Each of the header's, the key's and a part of the value's bits, one at a time.
    @Test func everyFlippedBitIsSeen() throws {
        let fixture = try ValueFixture()
        let metadata = try fixture.write(5, "some-key", sampleBytes(300_000))
        let path = fixture.scratch.path(fixture.name(5))
        let descriptor = open(path, O_RDWR)
        defer { close(descriptor) }
        var numbers = SeededRandom(seed: 3)
        let head = Array(0..<(64 + 8) * 8)
        let body = (0..<300).map { _ in Int.random(in: 72 * 8..<300_072 * 8, using: &numbers) }
        for bit in head + body {
            var byte: UInt8 = 0
            pread(descriptor, &byte, 1, bit / 8)
            byte ^= 1 << UInt8(bit % 8)
            pwrite(descriptor, &byte, 1, bit / 8)
            #expect(isDamaged(fileError { _ = try fixture.load("some-key", metadata) }), "bit \(bit)")
            byte ^= 1 << UInt8(bit % 8)
            pwrite(descriptor, &byte, 1, bit / 8)
        }
        #expect(try fixture.load("some-key", metadata).count == 300_000)
    }

    @Test func theHeaderIsAsDocumented() throws {
        let fixture = try ValueFixture()
        let metadata = try fixture.write(0x0000_0100_0000_0005, "key", sampleBytes(300))
        let bytes = try fixture.scratch.read(fixture.name(0x0000_0100_0000_0005))
        #expect(String(decoding: bytes[..<8], as: UTF8.self) == "chdvalue")
        #expect((1..<7).map { bytes.number(at: 8 * $0) } == [1, 0x100_0000_0005, 3, 300, metadata.valueSum, 0])
        #expect(Array(bytes[64..<67]) == Array("key".utf8))
        #expect(Array(bytes[67...]) == sampleBytes(300))
    }

    /// In one piece and in steps: both ways of reading a value see a flipped bit of it.
    @Test(arguments: [67, 67 + 262_143, 67 + 262_144, 300_066]) func bothWaysOfReadingCheckTheSum(_ offset: Int) throws
    {
        let fixture = try ValueFixture()
        let metadata = try fixture.write(5, "key", sampleBytes(300_000))
        var bytes = try fixture.scratch.read(fixture.name(5))
        bytes[offset] ^= 1
        try fixture.scratch.write(bytes, to: fixture.name(5))
        let reader = try fixture.files.open(key: Array("key".utf8).span, expecting: metadata)
        var errors: [ValueFileError] = []
        do throws(ValueFileError) { try reader.verify() } catch { errors.append(error) }
        let room = UnsafeMutableRawBufferPointer.allocate(byteCount: 300_000, alignment: 8)
        defer { room.deallocate() }
        do throws(ValueFileError) { try reader.load(into: room) } catch { errors.append(error) }
        #expect(errors.map { isDamaged($0) } == [true, true])
    }

    @Test(arguments: ["link", "hard link", "fifo", "directory"])
    func whatIsNoPlainFileIsDamage(_ kind: String) throws {
        let fixture = try ValueFixture()
        let metadata = try fixture.write(5, "key", [1, 2, 3])
        let path = fixture.scratch.path(fixture.name(5))
        let aside = fixture.scratch.path("aside")
        try FileManager.default.moveItem(atPath: path, toPath: aside)
        switch kind {
        case "link": try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: aside)
        case "hard link": #expect(link(aside, path) == 0)
        case "fifo": #expect(mkfifo(path, 0o600) == 0)
        default: try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
        }
        #expect(isDamaged(fileError { _ = try fixture.load("key", metadata) }))
        #expect(FileManager.default.fileExists(atPath: aside))
    }

    @Test func aLinkedSubdirectoryIsNotFollowed() throws {
        let fixture = try ValueFixture()
        let metadata = try fixture.write(5, "key", [1, 2, 3])
        try FileManager.default.moveItem(atPath: fixture.scratch.path("05"), toPath: fixture.scratch.path("elsewhere"))
        try FileManager.default.createSymbolicLink(
            atPath: fixture.scratch.path("05"), withDestinationPath: fixture.scratch.path("elsewhere"))
        #expect(isDamaged(fileError { _ = try fixture.load("key", metadata) }))
        #expect(throws: ValueFileError.self) { try fixture.write(0x105, "key", [1]) }
        #expect(throws: ValueFileError.self) { try fixture.files.remove(generation: 5) }
        #expect(try fixture.scratch.names("elsewhere") == ["0000000000000005"])
    }
}
