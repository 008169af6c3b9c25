// Reads one value file, and says whether it can be trusted. Belongs to one thread at a time.

import Glibc
import Hashing
import Primitives

/// Owns an open value file whose size, header and key are right.
struct ValueFileReader: ~Copyable {
    /// Step of `verify`.
    private static let stepBytes = 256 << 10

    /// The file, for sendfile(2).
    ///
    /// Closed with the reader.
    let descriptor: Int32
    /// Where the value begins in the file.
    let valueOffset: Int
    let valueBytes: Int
    private let valueSum: UInt64
    private let seed: UInt64

    init(descriptor: Int32, key: Span<UInt8>, expecting metadata: EntryMetadata) throws(ValueFileError) {
        self.descriptor = descriptor
        valueOffset = ValueFileHeader.bytes + key.count
        valueBytes = metadata.valueBytes
        valueSum = metadata.valueSum
        seed = EntrySum.seed(key: key, generation: metadata.generation)
        // The deinit closes the descriptor when a check throws from here on: all properties are set.
        try check(key, metadata)
    }

    deinit { close(descriptor) }

    private func check(_ key: Span<UInt8>, _ metadata: EntryMetadata) throws(ValueFileError) {
        let status: FileStatus
        do throws(StoreError) {
            status = try FileStatus(descriptor: descriptor, path: "value file")
        } catch {
            throw ValueFileError(error)
        }
        guard status.isOurPlainFile else { throw .damaged("not a plain file of ours") }
        guard metadata.valueBytes >= 0, status.bytes - valueOffset == metadata.valueBytes else {
            throw .damaged("\(status.bytes) bytes, not \(valueOffset) + \(metadata.valueBytes)")
        }
        var head = [UInt8](repeating: 0, count: valueOffset)
        let count = unsafe head.withUnsafeMutableBytes { unsafe readFully(descriptor, at: 0, into: $0) }
        guard let count else { throw .failed("read") }
        guard count == valueOffset else { throw .damaged("the file became shorter") }
        let header = ValueFileHeader(
            generation: metadata.generation, keyBytes: key.count, valueBytes: metadata.valueBytes,
            valueSum: metadata.valueSum)
        guard Array(head[..<ValueFileHeader.bytes]) == header.encoded(seed: seed) else {
            throw .damaged("the header is wrong")
        }
        guard areEqual(head.span.extracting(ValueFileHeader.bytes...), key) else { throw .damaged("the key is wrong") }
    }

    /// Reads the whole value into `destination`, which has exactly `valueBytes`, and checks its sum.
    func load(into destination: UnsafeMutableRawBufferPointer) throws(ValueFileError) {
        invariant(destination.count == valueBytes, "\(destination.count) bytes of room for \(valueBytes)")
        try unsafe read(at: 0, into: destination)
        #if DEBUG
            if SeededBug.isActive(.fileSumUnchecked) { return }
        #endif
        let sum = unsafe xxh3(UnsafeRawBufferPointer(destination), seed: seed)
        guard sum == valueSum else { throw .damaged("the value's sum is wrong") }
    }

    /// Reads all in steps of 256 KiB and checks the sum.
    func verify() throws(ValueFileError) {
        var hash = IncrementalHash(seed: seed)
        var room = [UInt8](repeating: 0, count: min(Self.stepBytes, valueBytes))
        var offset = 0
        while offset < valueBytes {
            let count = min(Self.stepBytes, valueBytes - offset)
            // SAFETY: `count` is at most the room's size.
            let result: Result<Void, ValueFileError> = unsafe room.withUnsafeMutableBytes { room in
                let step = unsafe UnsafeMutableRawBufferPointer(rebasing: room[..<count])
                do throws(ValueFileError) {
                    try unsafe read(at: offset, into: step)
                } catch {
                    return .failure(error)
                }
                unsafe hash.update(UnsafeRawBufferPointer(step))
                return .success(())
            }
            try result.get()
            offset += count
        }
        guard hash.digest() == valueSum else { throw .damaged("the value's sum is wrong") }
    }

    /// A hash for bytes that are read in parts, to be compared with the value's sum at the end.
    func makeHash() -> IncrementalHash { IncrementalHash(seed: seed) }

    /// Whether `hash`, of all the value's bytes, is its sum.
    func isSum(_ hash: borrowing IncrementalHash) -> Bool { hash.digest() == valueSum }

    /// Reads a part of the value, filling `destination`.
    ///
    /// Unchecked: `verify` first.
    func read(at offset: Int, into destination: UnsafeMutableRawBufferPointer) throws(ValueFileError) {
        invariant(offset >= 0 && destination.count <= valueBytes - offset, "a read past the value's end")
        guard let count = unsafe readFully(descriptor, at: valueOffset + offset, into: destination) else {
            throw .failed("read")
        }
        guard count == destination.count else { throw .damaged("the file became shorter") }
    }
}
