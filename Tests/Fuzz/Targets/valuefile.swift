// Value files: any bytes against any expectation; what is accepted has the right length, key and sum.
//
// The input is the expected length, the length of the key, and the file. Bit 7 of the first byte makes header and sum
// right, so that lengths are judged on their own.

import Glibc
import Hashing
import Primitives

@testable import CacheEngine

private let path = "/dev/shm/cache-daemon-fuzz-\(getpid()).value"
private let memory = {
    // It needs a name until the end: a file without one is not ours.
    atexit { unlink(path) }
    return open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
}()

/// Opens the input as a value file that lives in memory, and reads it if it is accepted.
func fuzz(_ bytes: UnsafeRawBufferPointer) {
    guard bytes.count > 4 else { return }
    let repairs = bytes[0] & 0x80 != 0
    let key = Array(repeating: UInt8(ascii: "k"), count: Int(bytes[1]) % 251)
    var file = Array(bytes.dropFirst(4))
    let valueOffset = ValueFileHeader.bytes + key.count
    var metadata = EntryMetadata(
        generation: 9, cas: 1, flags: 0, marks: [], deadline: .never, written: WallTime(milliseconds: 0),
        accessed: WallTime(milliseconds: 0),
        valueBytes: Int(Int16(bitPattern: UInt16(bytes[2]) << 8 | UInt16(bytes[3]))),
        valueSum: UInt64(bytes[0] & 0x7F))
    if repairs, file.count >= valueOffset {
        let seed = EntrySum.seed(key: key.span, generation: 9)
        metadata.valueBytes = file.count - valueOffset
        metadata.valueSum = file[valueOffset...].withUnsafeBytes { xxh3($0, seed: seed) }
        let header = ValueFileHeader(
            generation: 9, keyBytes: key.count, valueBytes: metadata.valueBytes, valueSum: metadata.valueSum)
        file.replaceSubrange(0..<ValueFileHeader.bytes, with: header.encoded(seed: seed))
        file.replaceSubrange(ValueFileHeader.bytes..<valueOffset, with: key)
    }
    guard pwrite(memory, &file, file.count, 0) == file.count, ftruncate(memory, file.count) == 0 else { return }
    do {
        let reader = try ValueFileReader(descriptor: dup(memory), key: key.span, expecting: metadata)
        var value = [UInt8](repeating: 0, count: reader.valueBytes)
        try value.withUnsafeMutableBytes { try reader.load(into: $0) }
        try reader.verify()
        precondition(value == Array(file[valueOffset...]))
    } catch {
        precondition(
            !repairs || file.count < valueOffset || metadata.valueBytes < 0, "a whole file was refused: \(error)")
    }
}
