// Writes one value file. Belongs to one disk thread.

import Glibc
import Hashing
import Primitives

/// What `finish` wrote.
struct FinishedValueFile: Sendable, Equatable {
    var valueBytes: Int
    var valueSum: UInt64
    /// Allocated bytes, rounded up to 4 KiB: `fileBytes` of `DiskIndex.putFile`.
    var fileBytes: Int
}

/// Owns a value file that is being written.
///
/// If it goes away before `finish`, the file is unlinked.
struct ValueFileWriter: ~Copyable {
    /// -1 once finished or abandoned.
    private var descriptor: Int32
    private let directory: Directory
    /// The directory of `directory`, if that was made for this file.
    private let parent: Directory?
    private let name: String
    private let generation: UInt64
    private let keyBytes: Int
    private let seed: UInt64
    private var valueBytes = 0
    private var hash: IncrementalHash

    init(
        descriptor: Int32, directory: Directory, parent: Directory?, name: String, generation: UInt64,
        key: Span<UInt8>
    ) throws(ValueFileError) {
        self.descriptor = descriptor
        self.directory = directory
        self.parent = parent
        self.name = name
        self.generation = generation
        keyBytes = key.count
        seed = EntrySum.seed(key: key, generation: generation)
        hash = IncrementalHash(seed: seed)
        // SAFETY: here and below, writeFully and the hash get a buffer's own base and count, and keep nothing.
        // The header's place stays empty until the end: a file without one is not complete.
        let isWritten = unsafe key.withUnsafeBytes { unsafe writeFully(descriptor, at: ValueFileHeader.bytes, $0) }
        if !isWritten { throw .failed("write") }
    }

    deinit {
        if descriptor >= 0 { Self.discard(descriptor, directory, name) }
    }

    /// Appends a piece of the value.
    mutating func append(_ bytes: UnsafeRawBufferPointer) throws(ValueFileError) {
        invariant(descriptor >= 0, "append to a finished value file")
        let offset = ValueFileHeader.bytes + keyBytes + valueBytes
        guard unsafe writeFully(descriptor, at: offset, bytes) else { throw .failed("write") }
        unsafe hash.update(bytes)
        valueBytes += bytes.count
    }

    /// Writes the header and closes the file; with `sync`, waits until file and name are on disk.
    ///
    /// - Throws: the file is unlinked then. Never sync again after a failed sync: the kernel has dropped the pages.
    mutating func finish(sync: Bool) throws(ValueFileError) -> FinishedValueFile {
        invariant(descriptor >= 0, "a value file finished twice")
        let sum = hash.digest()
        let header = ValueFileHeader(
            generation: generation, keyBytes: keyBytes, valueBytes: valueBytes, valueSum: sum)
        let isWritten = unsafe header.encoded(seed: seed).withUnsafeBytes { unsafe writeFully(descriptor, at: 0, $0) }
        do throws(ValueFileError) {
            if !isWritten { throw .failed("write") }
            if sync {
                if fsync(descriptor) != 0 { throw .failed("fsync") }
                if fsync(directory.descriptor) != 0 { throw .failed("fsync") }
                if let parent, fsync(parent.descriptor) != 0 { throw .failed("fsync") }
            }
        } catch {
            abandon()
            throw error
        }
        let closed = close(descriptor)
        descriptor = -1
        if closed != 0, errno != EINTR {
            // Some file systems tell only now that a write failed.
            let error = ValueFileError.failed("close")
            _ = unsafe unlinkat(directory.descriptor, name, 0)
            throw error
        }
        return FinishedValueFile(
            valueBytes: valueBytes, valueSum: sum,
            fileBytes: ValueFiles.allocatedBytes(keyBytes: keyBytes, valueBytes: valueBytes))
    }

    /// Gives up: closes and unlinks the file.
    ///
    /// Does nothing once finished.
    mutating func abandon() {
        guard descriptor >= 0 else { return }
        Self.discard(descriptor, directory, name)
        descriptor = -1
    }

    /// What cannot be unlinked here is an orphan, which the sweep of a later start removes.
    private static func discard(_ descriptor: Int32, _ directory: Directory, _ name: String) {
        close(descriptor)
        _ = unsafe unlinkat(directory.descriptor, name, 0)
    }
}
