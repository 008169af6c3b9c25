// The journal: a ring that is found again after a kill at any byte.

import Glibc
import Hashing
import Primitives
import TestSupport
import Testing

@testable import CacheEngine

/// A journal in a file of its own.
private final class JournalBench {
    let scratch: TempDirectory
    static let capacity = 8192
    static let seed: UInt64 = 77
    static let boot: UInt64 = 5

    init() throws { scratch = try TempDirectory() }

    var path: String { scratch.path("journal") }

    func find(boot: UInt64 = boot, indexSequence: UInt64 = 0) throws -> JournalFile.Found {
        try JournalFile.find(
            descriptor: Glibc.open(path, O_RDWR | O_CREAT, 0o600), seed: Self.seed, boot: boot,
            indexSequence: indexSequence)
    }

    /// The journal that is there if it is whole, else a new one.
    func open(boot: UInt64 = boot, indexSequence: UInt64 = 0) throws -> Journal {
        if case .whole(let file) = try find(boot: boot, indexSequence: indexSequence) { return Journal(file) {} }
        let file = try JournalFile.make(
            descriptor: Glibc.open(path, O_RDWR), capacity: Self.capacity, seed: Self.seed, boot: boot,
            sequence: indexSequence, syncs: false)
        return Journal(file) {}
    }

    /// Where the header notes the newest record.
    static let newest = 48

    /// Whether a start would find that records are missing.
    func isLost() throws -> Bool {
        switch try find() {
        case .lost: return true
        case .ofAnotherBoot: return false
        case .whole(let file):
            file.unmap()
            return false
        }
    }

    func bytes() throws -> [UInt8] { try scratch.read("journal") }
    func write(_ bytes: [UInt8]) throws { try scratch.write(bytes, to: "journal") }
}

extension Journal {
    /// Appends an inline entry; nil when there is no room.
    fileprivate func append(_ key: String, value: [UInt8]) -> (position: UInt64, sequence: UInt64)? {
        var header = JournalHeader(kind: .inlineEntry)
        header.hash = UInt64(key.utf8.count)
        header.valueBytes = UInt32(value.count)
        return Array(key.utf8).withUnsafeBytes { key in
            value.withUnsafeBytes { value in
                append(header, key: key, extended: UnsafeRawBufferPointer(start: nil, count: 0), value: value)
            }
        }
    }

    /// Key and value of every record between tail and head.
    fileprivate func contents() -> [(key: String, value: [UInt8])] {
        var contents: [(key: String, value: [UInt8])] = []
        let (tail, head, _) = extent
        var position = tail
        while position < head {
            position = normalized(position)
            if position >= head { break }
            let record = record(at: position)
            contents.append((String(decoding: record.key, as: UTF8.self), Array(record.value)))
            position += UInt64(record.header.recordBytes)
        }
        return contents
    }

    /// Gives up the oldest `count` records, as the writer does after a commit.
    fileprivate func drop(_ count: Int) {
        var position = extent.tail
        var sequence: UInt64 = 0
        for _ in 0..<count {
            position = normalized(position)
            let record = record(at: position)
            sequence = record.header.sequence
            position += UInt64(record.header.recordBytes)
        }
        advance(to: position, sequence: sequence)
    }
}

@Suite struct JournalTests {
    @Test func `records come back in order with their bytes`() throws {
        let bench = try JournalBench()
        let journal = try bench.open()
        #expect(journal.append("a", value: [1, 2, 3])?.sequence == 1)
        #expect(journal.append("bb", value: [])?.sequence == 2)
        let contents = journal.contents()
        #expect(contents.map(\.key) == ["a", "bb"])
        #expect(contents.map(\.value) == [[1, 2, 3], []])
    }

    @Test func `a full ring refuses and takes again after the tail has moved`() throws {
        let bench = try JournalBench()
        let journal = try bench.open()
        var count = 0
        while journal.append("key", value: [UInt8](repeating: 7, count: 200)) != nil { count += 1 }
        // 88 header + 3 key + 200 value = 291, rounded up to 296.
        #expect(count == JournalBench.capacity / 296)
        #expect(journal.usedBytes == count * 296)
        journal.drop(2)
        #expect(journal.append("key", value: [UInt8](repeating: 8, count: 200)) != nil)
        #expect(journal.contents().count == count - 1)
    }

    @Test func `no record straddles the end and none is lost over many laps`() throws {
        let bench = try JournalBench()
        let journal = try bench.open()
        var random = SeededRandom(seed: 3)
        var expected: [[UInt8]] = []
        for lap in 0..<3000 {
            let value = random.bytes(random.below(900))
            while journal.append("k", value: value) == nil {
                try #require(!expected.isEmpty, "an empty ring refuses a record, lap \(lap)")
                journal.drop(1)
                expected.removeFirst()
            }
            expected.append(value)
            #expect(journal.contents().map(\.value) == expected, "lap \(lap)")
        }
        #expect(journal.extent.head > UInt64(JournalBench.capacity * 100))
    }

    @Test func `a record of more than half the ring is refused for good`() throws {
        let bench = try JournalBench()
        let journal = try bench.open()
        #expect(journal.append("k", value: [UInt8](repeating: 1, count: JournalBench.capacity / 2)) == nil)
        #expect(journal.append("k", value: [UInt8](repeating: 1, count: JournalBench.capacity / 2 - 96)) != nil)
    }

    @Test func `an opened journal goes on where the last one ended`() throws {
        let bench = try JournalBench()
        let sequence: UInt64
        do {
            let journal = try bench.open()
            for number in 0..<40 {
                if journal.append("n\(number)", value: [UInt8](repeating: 1, count: 300)) == nil { journal.drop(10) }
            }
            sequence = journal.extent.sequence
        }
        let journal = try bench.open(indexSequence: sequence - 5)
        #expect(journal.contents().count == 5)
        #expect(journal.append("next", value: [])?.sequence == sequence + 1)
    }

    /// What a kill in the middle of an append leaves: the bytes of the last record up to any point.
    ///
    /// It is not noted as complete then; one that is noted and not whole is damage.
    @Test func `a record torn at any byte ends the journal before it`() throws {
        let bench = try JournalBench()
        let whole: [UInt8]
        let last: Int
        do {
            let journal = try bench.open()
            for number in 0..<3 { _ = journal.append("key\(number)", value: [UInt8](repeating: 9, count: 20)) }
            let (position, _) = try #require(journal.append("last", value: Array(0..<100)))
            last = JournalFile.headerBytes + Int(position)
            whole = try bench.bytes()
        }
        let end = last + 88 + 4 + 100
        for torn in last..<end {
            var bytes = whole
            for index in torn..<end { bytes[index] = 0 }
            // Zero bytes at the end may be what was there anyway.
            if bytes == whole { continue }
            try bench.write(bytes)
            #expect(try bench.isLost(), "noted, and torn at byte \(torn - last)")
            bytes[JournalBench.newest] = 3
            try bench.write(bytes)
            let journal = try bench.open()
            #expect(journal.contents().count == 3, "torn at byte \(torn - last)")
            #expect(journal.extent.sequence == 3)
        }
        try bench.write(whole)
        #expect(try bench.open().contents().count == 4)
    }

    @Test func `a flipped bit in any byte of a completed record is damage`() throws {
        let bench = try JournalBench()
        let whole: [UInt8]
        do {
            let journal = try bench.open()
            for number in 0..<3 { _ = journal.append("key\(number)", value: [UInt8](repeating: 9, count: 20)) }
            whole = try bench.bytes()
        }
        let record = (88 + 4 + 20 + 7) & ~7
        // Padding after the payload is not covered by the sum, and not read.
        for last in [1, 2] {
            for offset in record * last..<(record * last + 88 + 4 + 20) {
                var bytes = whole
                bytes[JournalFile.headerBytes + offset] ^= 0x10
                try bench.write(bytes)
                #expect(try bench.isLost(), "byte \(offset)")
            }
        }
        try bench.write(whole)
        #expect(try !bench.isLost())
    }

    @Test func `records of an earlier lap are not taken for new ones`() throws {
        let bench = try JournalBench()
        let sequence: UInt64
        do {
            let journal = try bench.open()
            // Equal sizes, so that old records lie exactly where new ones are looked for.
            for _ in 0..<100 {
                if journal.append("k", value: [UInt8](repeating: 3, count: 200)) == nil { journal.drop(20) }
            }
            sequence = journal.extent.sequence
            journal.drop(journal.contents().count)
        }
        let journal = try bench.open(indexSequence: sequence)
        #expect(journal.contents().isEmpty)
        #expect(journal.extent.sequence == sequence)
    }

    // MARK: Marks

    @Test(arguments: [64, 128]) func `one torn mark does not matter`(offset: Int) throws {
        let bench = try JournalBench()
        do {
            let journal = try bench.open()
            for _ in 0..<6 { _ = journal.append("k", value: [1]) }
            journal.drop(2)
            journal.drop(2)
        }
        var bytes = try bench.bytes()
        bytes[offset + 3] ^= 0xff
        try bench.write(bytes)
        // With the newer mark gone, the index's sequence still says what it has.
        let journal = try bench.open(indexSequence: 4)
        #expect(journal.contents().count == 2)
        #expect(journal.extent.sequence == 6)
    }

    @Test func `without a whole mark the journal starts empty at the index`() throws {
        let bench = try JournalBench()
        do {
            let journal = try bench.open()
            for _ in 0..<6 { _ = journal.append("k", value: [1]) }
        }
        var bytes = try bench.bytes()
        bytes[64] ^= 0xff
        bytes[128] ^= 0xff
        try bench.write(bytes)
        let journal = try bench.open(indexSequence: 2)
        #expect(journal.contents().isEmpty)
        #expect(journal.append("k", value: [])?.sequence == 3)
    }

    /// Numbers that no journal reaches, with a right sum: they must not overflow, nor lead out of the ring.
    @Test(
        arguments: [(.max - 7, 3), (1 << 63, 3), (8188, 3), (8189, 3), (0, .max), (16, 1 << 62)] as [(UInt64, UInt64)])
    func `a mark that cannot be ours is not believed`(position: UInt64, sequence: UInt64) throws {
        let bench = try JournalBench()
        do { _ = try bench.open().append("k", value: [1]) }
        var bytes = try bench.bytes()
        for offset in [64, 128] {
            let pair = (position, sequence)
            bytes.put(position, at: offset)
            bytes.put(sequence, at: offset + 8)
            bytes.put(withUnsafeBytes(of: pair) { xxh3($0, seed: JournalBench.seed) }, at: offset + 16)
        }
        try bench.write(bytes)
        let journal = try bench.open(indexSequence: .max - 1)
        #expect(journal.contents().isEmpty)
    }

    @Test func `a commit that was not marked is skipped`() throws {
        let bench = try JournalBench()
        do {
            let journal = try bench.open()
            for number in 0..<6 { _ = journal.append("k\(number)", value: [1]) }
        }
        #expect(try bench.open(indexSequence: 4).contents().map(\.key) == ["k4", "k5"])
    }

    @Test func `a journal that lacks records which the index has is not believed`() throws {
        let bench = try JournalBench()
        do {
            let journal = try bench.open()
            for _ in 0..<3 { _ = journal.append("k", value: [1]) }
        }
        let journal = try bench.open(indexSequence: 9)
        #expect(journal.contents().isEmpty)
        #expect(journal.append("k", value: [])?.sequence == 10)
    }

    @Test func `a journal of another boot is not replayed, nor changed by a look at it`() throws {
        let bench = try JournalBench()
        do {
            let journal = try bench.open()
            _ = journal.append("k", value: [1])
        }
        let before = try bench.bytes()
        guard case .ofAnotherBoot(isBarred: false) = try bench.find(boot: 6) else {
            Issue.record("of another boot")
            return
        }
        #expect(try bench.bytes() == before)
        #expect(try bench.open(boot: 6).contents().isEmpty)
    }

    /// Version, capacity, seed and boot: a journal that seems to be another boot's would be left out in silence.
    @Test func `a flipped bit in the fixed part of the header is damage`() throws {
        let bench = try JournalBench()
        do {
            let journal = try bench.open()
            _ = journal.append("k", value: [1])
        }
        let whole = try bench.bytes()
        for offset in 0..<40 {
            var bytes = whole
            bytes[offset] ^= 0x10
            try bench.write(bytes)
            #expect(try bench.isLost(), "byte \(offset)")
        }
    }

    @Test func `the barred flag lasts`() throws {
        let bench = try JournalBench()
        func reopened(boot: UInt64 = JournalBench.boot) throws -> Bool {
            let found = try bench.find(boot: boot)
            if case .whole(let file) = found { file.unmap() }
            return found.isBarred
        }
        let journal = try bench.open()
        #expect(try !reopened())
        #expect(journal.setBarred(true, syncs: true))
        #expect(try reopened())
        let barred = try bench.bytes()
        for bit in 0..<64 {
            var flipped = barred
            flipped[40 + bit / 8] ^= 1 << (bit % 8)
            try bench.write(flipped)
            #expect(try reopened(), "bit \(bit)")
        }
        try bench.write(barred)
        // After a reboot the records are not believed; that some are missing still is.
        #expect(try reopened(boot: JournalBench.boot + 1))
        try bench.write(barred)
        #expect(try reopened())
        journal.setBarred(false)
        #expect(try !reopened())
        #expect(try !reopened(boot: JournalBench.boot + 1))
    }
}
