// A store in a directory of its own, and entries to put into it.

import Foundation
import Primitives
import Testing

@testable import CacheEngine

/// A directory that goes away with its owner.
final class ScratchDirectory {
    let path: String

    init() throws {
        let made = FileManager.default.temporaryDirectory.resolvingSymlinksInPath()
            .appendingPathComponent("cache-daemon-test-\(UUID().uuidString)")
        try FileManager.default.createDirectory(
            at: made, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        path = made.path
    }

    deinit {
        do { try FileManager.default.removeItem(atPath: path) } catch { Issue.record(error) }
    }

    func path(_ name: String) -> String { "\(path)/\(name)" }

    func names(_ name: String = "") throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: path(name)).sorted()
    }

    func read(_ name: String) throws -> [UInt8] { try Array(Data(contentsOf: URL(fileURLWithPath: path(name)))) }

    func write(_ bytes: [UInt8], to name: String) throws {
        try Data(bytes).write(to: URL(fileURLWithPath: path(name)))
    }

    func exists(_ name: String) -> Bool { FileManager.default.fileExists(atPath: path(name)) }
}

/// An opened store, its index and a counter of generations.
final class DiskFixture {
    let scratch: ScratchDirectory
    var directory: StoreDirectory
    var index: DiskIndex
    var counter: UInt64 = 0
    let verdict: StartVerdict

    init(
        _ scratch: ScratchDirectory? = nil, boot: String = "boot-a", policy: UncleanRebootPolicy = .discard,
        durability: StoreDurability = .process, options: IndexOptions = IndexOptions()
    ) throws {
        self.scratch = try scratch ?? ScratchDirectory()
        directory = try StoreDirectory.open(path: self.scratch.path)
        verdict = try directory.start(policy: policy, durability: durability, bootID: boot)
        index = try DiskIndex(directory: directory, options: options)
    }

    func reader() throws -> IndexReader { try IndexReader(location: directory.location) }

    func nextGeneration() -> UInt64 {
        counter += 1
        return UInt64(directory.epoch) << 40 | counter
    }

    func transaction(_ body: () throws -> Void) throws {
        try index.begin()
        try body()
        try index.commit()
    }

    /// Puts one inline entry in the open transaction.
    @discardableResult
    func put(_ key: String, _ value: [UInt8], hash: UInt64? = nil, _ change: (inout EntryMetadata) -> Void = { _ in })
        throws -> (metadata: EntryMetadata, replaced: Replaced?)
    {
        var metadata = EntryMetadata.sample(generation: nextGeneration(), valueBytes: value.count)
        change(&metadata)
        let key = Array(key.utf8)
        let replaced = try index.putInline(
            hash: hash ?? hashOf(key), key: key.span, metadata: metadata, extended: [UInt8]().span, value: value.span)
        return (metadata, replaced)
    }

    /// Writes a value file and puts its entry in the open transaction.
    @discardableResult
    func putFile(_ key: String, _ value: [UInt8]) throws -> (metadata: EntryMetadata, replaced: Replaced?) {
        let generation = nextGeneration()
        let key = Array(key.utf8)
        var writer = try directory.valueFiles().create(generation: generation, key: key.span)
        try value.withUnsafeBytes { try writer.append($0) }
        let file = try writer.finish(sync: false)
        var metadata = EntryMetadata.sample(generation: generation, valueBytes: file.valueBytes)
        metadata.valueSum = file.valueSum
        let replaced = try index.putFile(
            hash: hashOf(key), key: key.span, metadata: metadata, extended: [UInt8]().span, fileBytes: file.fileBytes)
        return (metadata, replaced)
    }
}

extension EntryMetadata {
    static func sample(generation: UInt64, valueBytes: Int) -> EntryMetadata {
        EntryMetadata(
            generation: generation, cas: generation &+ 7, flags: 0xdead_beef, marks: [.fetched],
            deadline: .never, written: WallTime(milliseconds: 1_700_000_000_123),
            accessed: WallTime(milliseconds: 1_700_000_005_000), valueBytes: valueBytes, valueSum: 0)
    }
}

/// The tests' stand-in for the engine's keyed hash.
func hashOf(_ key: [UInt8]) -> UInt64 { EntrySum.seed(key: key.span, generation: 0x5eed) }

func hashOf(_ key: String) -> UInt64 { hashOf(Array(key.utf8)) }

/// A read's outcome, copied out.
struct ReadEntry: Equatable {
    var lookup: IndexLookup
    var metadata: EntryMetadata?
    var extended: [UInt8]?
    var value: [UInt8]?
}

extension IndexReader {
    func entry(_ key: String, hash: UInt64? = nil) throws -> ReadEntry {
        let bytes = Array(key.utf8)
        var entry = ReadEntry(lookup: .absent)
        entry.lookup = try read(hash: hash ?? hashOf(bytes), key: bytes.span) { metadata, extended, value in
            entry.metadata = metadata
            entry.extended = Array(extended)
            entry.value = value.map { Array($0) }
        }
        return entry
    }
}
