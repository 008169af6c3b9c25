// Streams of entries: what goes in comes out, in any pieces; what is damaged is seen. And caches through them.

import Primitives
import TestSupport
import Testing

@testable import CacheEngine

/// Bytes that a stream is written to and read from.
private final class Tape {
    var bytes: [UInt8] = []
    var position = 0
    /// Longest piece that a read gives.
    var step = Int.max
    /// Writes fail with this errno beyond so many bytes.
    var room: Int?

    func write(_ span: Span<UInt8>) -> Int32 {
        if let room, bytes.count + span.count > room { return 28 }
        for index in span.indices { bytes.append(span[index]) }
        return 0
    }

    func read(_ count: Int) -> Result<[UInt8], EntryStreamError> {
        let part = bytes[position..<min(bytes.count, position + min(count, step))]
        position += part.count
        return .success(Array(part))
    }

    func writer(at time: WallTime = WallTime(milliseconds: 1_000_000)) -> EntryStreamWriter {
        EntryStreamWriter(writtenAt: time) { self.write($0) }
    }

    func reader() throws(EntryStreamError) -> EntryStreamReader {
        position = 0
        return try EntryStreamReader { self.read($0) }
    }
}

@Suite struct TransferTests {
    private static let entries: [(StreamedEntry, [UInt8])] = (0..<40).map { number in
        let value = [UInt8](repeating: UInt8(number), count: number * number * 37)
        return (
            StreamedEntry(
                key: Array("key\(number)".utf8), flags: UInt32(number) << 20, extended: number % 3 == 0 ? [1, 2] : [],
                timeToLive: number % 2 == 0 ? nil : Int64(number) * 1000, age: 5, hasBinaryKey: number % 5 == 0,
                valueBytes: value.count), value
        )
    }

    private func written() throws -> Tape {
        let tape = Tape()
        var writer = tape.writer()
        for (entry, value) in Self.entries {
            try writer.begin(entry)
            let half = value.count / 2
            try writer.append(value.span.extracting(..<half))
            try writer.append(value.span.extracting(half...))
            try writer.endEntry()
        }
        try writer.finish()
        return tape
    }

    /// Everything that can be read, and why no more.
    private func readAll(_ tape: Tape) -> (sound: [(StreamedEntry, [UInt8])], damaged: Int, error: EntryStreamError?) {
        var sound: [(StreamedEntry, [UInt8])] = []
        var damaged = 0
        do throws(EntryStreamError) {
            var reader = try tape.reader()
            while let entry = try reader.nextEntry() {
                var value: [UInt8] = []
                while try reader.nextPiece({ piece in for index in piece.indices { value.append(piece[index]) } }) {}
                if try reader.endEntry() { sound.append((entry, value)) } else { damaged += 1 }
            }
            return (sound, damaged, nil)
        } catch {
            return (sound, damaged, error)
        }
    }

    @Test(arguments: [1, 7, 4096, Int.max]) func `what is written is read, in pieces of any size`(step: Int) throws {
        let tape = try written()
        tape.step = step
        let (sound, damaged, error) = readAll(tape)
        #expect(error == nil)
        #expect(damaged == 0)
        #expect(sound.count == Self.entries.count)
        for (found, wanted) in zip(sound, Self.entries) {
            #expect(found.0 == wanted.0)
            #expect(found.1 == wanted.1)
        }
    }

    @Test func `every flipped bit and every cut is seen`() throws {
        let whole = try written().bytes
        var random = SeededRandom(seed: 9)
        for round in 0..<3000 {
            let tape = Tape()
            tape.bytes = whole
            if round % 10 == 0 {
                tape.bytes.removeLast(1 + random.below(whole.count))
            } else {
                // Mostly where the small parts are.
                let place = round % 2 == 0 ? random.below(whole.count) : random.below(min(whole.count, 3000))
                tape.bytes[place] ^= 1 << UInt8(random.below(8))
            }
            let (sound, damaged, error) = readAll(tape)
            #expect(error != nil || damaged == 1, "round \(round)")
            for (found, value) in sound {
                let wanted = Self.entries.first { $0.0.key == found.key }
                #expect(wanted?.0 == found && wanted?.1 == value, "round \(round)")
            }
        }
    }

    @Test func `a record that is given up is skipped`() throws {
        let tape = Tape()
        var writer = tape.writer()
        for number in 0..<3 {
            try writer.begin(StreamedEntry(key: [65 + UInt8(number)], flags: 0, timeToLive: nil, valueBytes: 1_000_000))
            try writer.append([UInt8](repeating: 1, count: 10).span)
            if number == 1 {
                try writer.endEntry(isWhole: false)
            } else {
                try writer.append([UInt8](repeating: 1, count: 999_990).span)
                try writer.endEntry()
            }
        }
        try writer.finish()
        let (sound, damaged, error) = readAll(tape)
        #expect(error == nil)
        #expect(damaged == 1)
        #expect(sound.map(\.0.key) == [[65], [67]])
    }

    @Test func `a full target is told with its errno`() throws {
        let tape = Tape()
        tape.room = 500_000
        var writer = tape.writer()
        #expect(throws: EntryStreamError.failed(operation: "write", errno: 28)) {
            try writer.begin(StreamedEntry(key: [65], flags: 0, timeToLive: nil, valueBytes: 1_000_000))
            try writer.append([UInt8](repeating: 0, count: 1_000_000).span)
        }
    }

    // MARK: Caches

    private func options(_ options: inout CacheOptions) {
        options.memory.bytesMax = 4 << 20
        options.memory.valueBytesMax = 100_000
    }

    @Test func `a cache moves to another with everything but CAS ids`() throws {
        let clock = ManualClock()
        let source = try EngineFixture(clock: clock) { options(&$0) }
        var model: [String: [UInt8]] = [:]
        for number in 0..<300 {
            let size = number % 50 == 0 ? 400_000 : number % 10 == 0 ? 30_000 : number
            let value = [UInt8](repeating: UInt8(truncatingIfNeeded: number), count: size)
            try source.cache.set(
                value, forKey: "k\(number)", timeToLive: number % 2 == 0 ? nil : .seconds(100),
                flags: UInt32(number), extended: [UInt8(truncatingIfNeeded: number)])
            model["k\(number)"] = value
        }
        source.cache.remove("k3")
        model["k3"] = nil
        let tape = Tape()
        var writer = tape.writer(at: clock.wall())
        let exported = try source.cache.export(to: &writer)
        #expect(exported.entries == 299)
        clock.advance(seconds: 40)
        let target = try EngineFixture(clock: clock) { options(&$0) }
        try target.cache.set([9], forKey: "k5")
        model["k5"] = [9]
        var reader = try tape.reader()
        let imported = try target.cache.importEntries(from: &reader)
        #expect(imported.entries == 298)
        #expect(imported.skipped == 1)
        for number in 0..<300 {
            let entry = target.cache.entry(forKey: "k\(number)")
            #expect(entry?.value == model["k\(number)"], "k\(number)")
            guard let entry, number != 5 else { continue }
            #expect(entry.flags == UInt32(number))
            #expect(entry.extended == [UInt8(truncatingIfNeeded: number)])
            #expect(entry.timeToLive == (number % 2 == 0 ? nil : .seconds(60)))
        }
        // A minute later all that had a time to live is over.
        clock.advance(seconds: 60)
        let late = try EngineFixture(clock: clock) { options(&$0) }
        var again = try tape.reader()
        #expect(try late.cache.importEntries(from: &again).entries == 150)
    }

    @Test func `entries marked as out of date stay behind`() throws {
        let source = try EngineFixture()
        try source.cache.set([1], forKey: "stale")
        try source.cache.set([1], forKey: "fresh")
        "stale".withKeyBytes { key in
            _ = source.cache.edit(key, now: source.clock.now()) { $0.isStale = true }
        }
        for isOnDisk in [false, true] {
            if isOnDisk {
                source.settle()
                source.dropMemory()
            }
            let tape = Tape()
            var writer = tape.writer(at: source.clock.wall())
            let exported = try source.cache.export(to: &writer)
            #expect(exported.entries == 1)
            #expect(exported.skipped == 1)
        }
    }
}
