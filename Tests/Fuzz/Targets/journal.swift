// The journal's file: any bytes are recovered from, or given up; with right sums too.
//
// The first byte says which sums are made right: bit 0 the header and its marks, bit 1 the records, as far as their
// lengths lead to one another. What recovery believes is then walked as the disk writer walks it.

import Glibc
import Hashing

@testable import CacheEngine

private let seed: UInt64 = 0x5eed
private let ringBytes = 4096
private let memory = {
    let path = "/dev/shm/cache-daemon-fuzz-\(getpid()).journal"
    defer { unlink(path) }
    return open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
}()

/// Opens the input as a journal that lives in memory.
func fuzz(_ bytes: UnsafeRawBufferPointer) {
    guard bytes.count > 2 else { return }
    var file = makeFile(Array(bytes.dropFirst(2)), repairsHeader: bytes[0] & 1 == 1, repairsRecords: bytes[0] & 2 == 2)
    guard pwrite(memory, &file, file.count, 0) == file.count, ftruncate(memory, file.count) == 0 else { return }
    do {
        let found = try JournalFile.find(
            descriptor: dup(memory), seed: seed, boot: 7, indexSequence: UInt64(bytes[1]))
        if case .whole(let file) = found { walk(file) }
    } catch {}
}

private func makeFile(_ input: [UInt8], repairsHeader: Bool, repairsRecords: Bool) -> [UInt8] {
    guard repairsHeader else { return input }
    let fileBytes = JournalFile.headerBytes + ringBytes
    // The header page is mostly zero: the input gives its first 192 bytes, and then the ring.
    var file = [UInt8](repeating: 0, count: fileBytes)
    for (index, byte) in input.prefix(192).enumerated() { file[index] = byte }
    for (index, byte) in input.dropFirst(192).prefix(ringBytes).enumerated() {
        file[JournalFile.headerBytes + index] = byte
    }
    file.put(0x4c4e_524a_4448_4343, at: 0)
    file.put(1, at: 8)
    file.put(UInt64(ringBytes), at: 16)
    file.put(seed, at: 24)
    file.put(7, at: 32)
    file.put(file[8..<40].withUnsafeBytes { xxh3($0, seed: 0) }, at: 56)
    for mark in [64, 128] {
        let pair = (file.number(at: mark), file.number(at: mark + 8))
        file.put(withUnsafeBytes(of: pair) { xxh3($0, seed: seed) }, at: mark + 16)
    }
    if repairsRecords { repairRecords(&file) }
    return file
}

/// Gives each record the sum and the sequence that recovery expects, from each mark on.
private func repairRecords(_ file: inout [UInt8]) {
    for mark in [64, 128] {
        var place = Int(file.number(at: mark) % UInt64(ringBytes))
        var sequence = file.number(at: mark + 8)
        for _ in 0..<16 where ringBytes - place >= JournalHeader.bytes {
            let start = JournalFile.headerBytes + place
            sequence &+= 1
            file.put(sequence, at: start + 8)
            var header = file.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: start, as: JournalHeader.self) }
            let value = header.kind == JournalHeader.Kind.inlineEntry.rawValue ? Int(header.valueBytes) : 0
            let payload = Int(header.keyBytes) + Int(header.extendedBytes) + value
            guard payload <= ringBytes - place - JournalHeader.bytes else { break }
            let recordBytes = (JournalHeader.bytes + payload + 7) & ~7
            guard recordBytes <= ringBytes - place else { break }
            header.recordBytes = UInt32(recordBytes)
            let first = start + JournalHeader.bytes
            let sum = file[first..<first + payload].withUnsafeBytes { header.computedSum(payload: $0, seed: seed) }
            header.sum = sum
            withUnsafeBytes(of: header) { file.replaceSubrange(start..<start + JournalHeader.bytes, with: $0) }
            place += recordBytes
        }
    }
}

/// Walks what recovery left, as the disk writer does.
private func walk(_ file: JournalFile) {
    let journal = Journal(file) {}
    let (tail, head, _) = journal.extent
    var position = tail
    var sum = 0
    while position != head {
        position = journal.normalized(position)
        guard position != head else { break }
        let record = journal.record(at: position)
        precondition(record.kind != nil)
        for byte in record.key { sum = sum &* 31 &+ Int(byte) }
        for byte in record.extended { sum = sum &* 31 &+ Int(byte) }
        if record.kind == .inlineEntry { for byte in record.value { sum = sum &* 31 &+ Int(byte) } }
        position &+= UInt64(record.header.recordBytes)
    }
    precondition(sum != .min + 1)
}
