// The hot list: which keys were in memory, the hottest first, as hashes in the file `hot` beside the store.
//
// A hint and nothing more: who reads it looks each hash up in the index, where everything is checked, so a list that is
// old, torn, of another store or forged costs useless lookups and never a wrong value. Hence no fsync, and a list with
// a wrong sum is as good as none. docs/DISK_FORMAT.md gives the bytes. Reading and writing happen on the disk writer's
// thread, which has the directory; the rest is pure.

import Glibc
import Hashing
import Primitives

/// Hashes of keys, the hottest first.
struct HotList: Equatable, Sendable {
    static let fileName = "hot"
    static let newName = "hot.new"
    /// Longest list: 8 MiB.
    static let entriesMax = 1 << 20
    private static let magic: UInt64 = 0x7965_6b74_6f68_6463  // "cdhotkey" in little-endian order
    private static let version: UInt64 = 1
    private static let headerBytes = 24
    private static let sumBytes = 8

    var hashes: [UInt64]

    init(hashes: [UInt64]) { self.hashes = hashes }

    /// How long a list may be: it takes at most a 512th of the directory's limit, and of memory while it is made.
    static func limit(memoryBytes: Int?, diskBytes: Int) -> Int {
        max(0, min(entriesMax, (memoryBytes ?? .max) / 256, diskBytes / 512 / 8))
    }

    /// Size of a list's file.
    static func fileBytes(entries: Int) -> Int { headerBytes + entries * 8 + sumBytes }

    /// The file's content.
    var bytes: [UInt8] {
        var bytes = [UInt8](repeating: 0, count: Self.fileBytes(entries: hashes.count))
        bytes.put(Self.magic, at: 0)
        bytes.put(Self.version, at: 8)
        bytes.put(UInt64(hashes.count), at: 16)
        for (index, hash) in hashes.enumerated() { bytes.put(hash, at: Self.headerBytes + index * 8) }
        bytes.put(Self.sum(of: bytes), at: bytes.count - Self.sumBytes)
        return bytes
    }

    /// Reads a file's content; nil if anything is wrong with it.
    init?(bytes: [UInt8]) {
        guard bytes.count >= Self.fileBytes(entries: 0), bytes.number(at: 0) == Self.magic,
            bytes.number(at: 8) == Self.version,
            let count = Int(exactly: bytes.number(at: 16)), count <= Self.entriesMax,
            bytes.count == Self.fileBytes(entries: count),
            bytes.number(at: bytes.count - Self.sumBytes) == Self.sum(of: bytes)
        else { return nil }
        hashes = (0..<count).map { bytes.number(at: Self.headerBytes + $0 * 8) }
    }

    /// The list in `directory`; nil if there is none that can be used.
    static func read(from directory: Directory) -> HotList? {
        do throws(StoreError) {
            let bytes = try readSmallFile(directory, fileName, bytesMax: fileBytes(entries: entriesMax))
            return bytes.flatMap(HotList.init(bytes:))
        } catch {
            return nil
        }
    }

    /// Writes the list under another name and renames it: it is there as a whole, or not.
    ///
    /// The list that was there before stays if this throws.
    func write(to directory: Directory) throws(StoreError) {
        try directory.unlink(Self.newName)
        guard let descriptor = try directory.openFile(Self.newName, O_WRONLY | O_CREAT | O_EXCL) else { return }
        defer { close(descriptor) }
        // SAFETY: writeFully gets a buffer's own base and count, and keeps nothing.
        guard unsafe bytes.withUnsafeBytes({ unsafe writeFully(descriptor, at: 0, $0) }) else {
            let failure = StoreError.failed("write", "\(directory.path)/\(Self.newName)")
            try directory.unlink(Self.newName)
            throw failure
        }
        try directory.rename(Self.newName, to: Self.fileName)
    }

    private static func sum(of bytes: [UInt8]) -> UInt64 {
        // SAFETY: the sum is over a part of the array's own bytes; xxh3 keeps nothing.
        unsafe bytes.withUnsafeBytes { bytes in
            unsafe xxh3(UnsafeRawBufferPointer(rebasing: bytes[..<(bytes.count - sumBytes)]), seed: magic)
        }
    }
}
