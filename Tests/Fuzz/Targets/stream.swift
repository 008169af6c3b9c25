// The import stream: any bytes, and streams with right sums whose fields are the input's. Read to the end or given up.
//
// The first byte says: bit 0 puts a right head before the rest, bit 1 makes each record's sums right as far as its
// lengths lead to the next, the bits above say how many bytes the source gives at a time. What can be read is imported
// into a cache in memory, which must come to the same end.

import Hashing
import Primitives

@testable import CacheEngine

private typealias Format = EntryStreamFormat
private let head = Format.head(writtenAt: WallTime(milliseconds: 1))

nonisolated(unsafe) private var cache: Cache = {
    var options = CacheOptions()
    options.memory.bytesMax = 4 << 20
    do { return try Cache.open(options, clock: SystemClock()) } catch { preconditionFailure("\(error)") }
}()

/// Reads the input as an export.
func fuzz(_ bytes: UnsafeRawBufferPointer) {
    guard let first = bytes.first else { return }
    var stream = first & 1 == 1 ? head : []
    stream += bytes.dropFirst()
    if first & 2 == 2 { repair(&stream) }
    let step = Int(first >> 2) + 1
    let read = ending { reader throws(EntryStreamError) in try readAll(&reader) }
    let imported = ending { reader throws(EntryStreamError) in
        let done = try cache.importEntries(from: &reader)
        precondition(done.entries >= 0 && done.skipped >= 0 && done.failed >= 0)
        cache.removeAll()
    }
    precondition(read == imported, "\(read.debugDescription), then \(imported.debugDescription)")

    /// How `body` ends with a stream that gives `step` bytes at a time; nil: well.
    func ending(_ body: (inout EntryStreamReader) throws(EntryStreamError) -> Void) -> EntryStreamError? {
        var place = 0
        var pulls = 0
        do throws(EntryStreamError) {
            var reader = try EntryStreamReader { wanted in
                precondition(wanted > 0)
                pulls += 1
                precondition(pulls < 100_000, "the source is asked for ever")
                let part = stream[place..<min(place + min(step, wanted), stream.count)]
                place += part.count
                return .success(Array(part))
            }
            try body(&reader)
            return nil
        } catch {
            precondition(!error.description.isEmpty)
            return error
        }
    }
}

private func readAll(_ reader: inout EntryStreamReader) throws(EntryStreamError) {
    while let entry = try reader.nextEntry() {
        precondition(!entry.key.isEmpty && entry.key.count <= 250)
        precondition(entry.age >= 0 && (entry.timeToLive ?? 0) >= 0)
        // What is claimed is not believed: bytes are counted as they come.
        var left = entry.valueBytes
        while try reader.nextPiece({ left -= $0.count }) { precondition(left >= 0) }
        precondition(left == 0)
        if try reader.endEntry() { check(entry) }
    }
}

/// What was read can be written, and means the same.
private func check(_ entry: StreamedEntry) {
    let record = Format.record(entry)
    guard
        case .entry(let again, let keyBytes, let extendedBytes) = Format.read(Array(record.prefix(Format.recordBytes)))
    else { preconditionFailure("a record of ours is not read") }
    precondition(keyBytes == entry.key.count && extendedBytes == entry.extended.count)
    precondition(again.flags == entry.flags && again.timeToLive == entry.timeToLive && again.age == entry.age)
    precondition(again.valueBytes == entry.valueBytes && again.hasBinaryKey == entry.hasBinaryKey)
}

private func sum(_ bytes: ArraySlice<UInt8>, seed: UInt64) -> UInt64 { bytes.withUnsafeBytes { xxh3($0, seed: seed) } }

/// Gives each record, and each value that is there whole, the sum that fits.
private func repair(_ stream: inout [UInt8]) {
    var start = head.count
    while stream.count - start >= Format.recordBytes {
        // Odd kinds become entries, so that most inputs lead somewhere.
        if stream[start] > 2 { stream[start] = 1 }
        let keyBytes = Int(stream[start + 2])
        let extendedBytes = Int(stream[start + 32])
        let rest = start + Format.recordBytes
        guard keyBytes + extendedBytes <= stream.count - rest else { return }
        let seed = sum(stream[rest..<rest + keyBytes + extendedBytes], seed: 0)
        stream.put(sum(stream[start..<start + 40], seed: seed), at: start + 40)
        let valueBytes = Int(stream[start + 24])
        let value = rest + keyBytes + extendedBytes
        guard stream[start] == 1, valueBytes + 8 <= stream.count - value else { return }
        stream.put(sum(stream[value..<value + valueBytes], seed: stream.number(at: start + 40)), at: value + valueBytes)
        start = value + valueBytes + 8
    }
}
