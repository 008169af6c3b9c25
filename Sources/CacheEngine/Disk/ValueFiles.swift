// Values too large for the index: one file each, named by the entry's generation.
//
//   v/<xx>/<generation, 16 hexadecimal digits>      xx: the generation's low byte
//   header (64 bytes)  key  value                   see docs/DISK_FORMAT.md
//
// A file is written under its final name, once, header last; without a row it does not exist. Readers check size,
// header, key and sum, so a missing, short, long, flipped or swapped file is a miss. Sendable: any disk thread may use
// it; the calls block. The generation is the only source of names, so no key ever reaches the file system.

import Glibc

/// Why a value file cannot be used.
enum ValueFileError: Error, Sendable, Equatable {
    /// There is none of this generation.
    case missing
    /// Wrong size, header, key or sum, or not a plain file of ours.
    case damaged(String)
    /// The tier's limit leaves no room for it.
    case noRoom
    /// A system call failed.
    case io(operation: String, errno: Int32)

    static func failed(_ operation: String) -> ValueFileError { .io(operation: operation, errno: errno) }

    init(_ error: StoreError) {
        if case .io(let operation, _, let code) = error {
            self = .io(operation: operation, errno: code)
        } else {
            self = .damaged(error.description)
        }
    }
}

/// The value files of one store.
struct ValueFiles: Sendable {
    /// Allocation unit that space is counted in.
    static let blockBytes = 4096
    /// Subdirectories that files are spread over.
    static let directories = 256

    let directory: Directory

    /// Bytes that a value's file is counted with: header, key and value, rounded up to 4 KiB.
    static func allocatedBytes(keyBytes: Int, valueBytes: Int) -> Int {
        rounded(ValueFileHeader.bytes + keyBytes + valueBytes)
    }

    static func rounded(_ bytes: Int) -> Int {
        (bytes + blockBytes - 1) / blockBytes * blockBytes
    }

    /// The subdirectory's name and the file's.
    static func name(_ generation: UInt64) -> (directory: String, file: String) {
        let file = hexadecimal(generation)
        return (String(file.suffix(2)), file)
    }

    /// The name of subdirectory `number`, 0 to 255.
    static func directoryName(_ number: Int) -> String { String(hexadecimal(UInt64(number)).suffix(2)) }

    /// Makes the file of `generation`.
    ///
    /// Append the value, then `finish`; a writer that goes away before unlinks it.
    ///
    /// - Throws: `.io` with EEXIST if there is one: a generation was used twice.
    func create(generation: UInt64, key: Span<UInt8>) throws(ValueFileError) -> ValueFileWriter {
        let name = Self.name(generation)
        let subdirectory: Directory
        let descriptor: Int32
        var isNew = false
        do throws(StoreError) {
            var found = try directory.subdirectory(name.directory, create: false)
            if found == nil {
                isNew = true
                found = try directory.subdirectory(name.directory, create: true)
            }
            // Both are made where missing, so nil cannot come.
            guard let found, let opened = try found.openFile(name.file, O_WRONLY | O_CREAT | O_EXCL) else {
                throw StoreError.io(operation: "open", path: name.file, errno: ENOENT)
            }
            (subdirectory, descriptor) = (found, opened)
        } catch {
            throw ValueFileError(error)
        }
        return try ValueFileWriter(
            descriptor: descriptor, directory: subdirectory, parent: isNew ? directory : nil, name: name.file,
            generation: generation, key: key)
    }

    /// Opens the file of `metadata.generation` and checks everything but the value's sum.
    func open(key: Span<UInt8>, expecting metadata: EntryMetadata) throws(ValueFileError) -> ValueFileReader {
        let name = Self.name(metadata.generation)
        let descriptor: Int32
        do throws(StoreError) {
            guard let subdirectory = try directory.subdirectory(name.directory, create: false),
                let opened = try subdirectory.openFile(name.file, O_RDONLY)
            else { throw StoreError.io(operation: "open", path: name.file, errno: ENOENT) }
            descriptor = opened
        } catch {
            switch error {
            case .io(_, _, ENOENT): throw .missing
            case .io(_, _, ELOOP), .io(_, _, ENOTDIR), .io(_, _, EISDIR), .io(_, _, ENXIO):
                throw .damaged("not a plain file")
            default: throw ValueFileError(error)
            }
        }
        return try ValueFileReader(descriptor: descriptor, key: key, expecting: metadata)
    }

    /// Removes the file of `generation`, after the commit that dropped its row.
    ///
    /// Returns the bytes that it was counted with; 0 if there was none.
    func remove(generation: UInt64) throws(ValueFileError) -> Int {
        let name = Self.name(generation)
        do throws(StoreError) {
            guard let subdirectory = try directory.subdirectory(name.directory, create: false),
                let status = try subdirectory.status(name.file), status.isRegular,
                try subdirectory.unlink(name.file)
            else { return 0 }
            return Self.rounded(status.bytes)
        } catch {
            throw ValueFileError(error)
        }
    }

    /// Removes the file of the lowest generation in subdirectory `number`; its entry is a miss from then on.
    ///
    /// Returns the bytes that it was counted with; 0 if there was none.
    func removeOldest(inDirectory number: Int) throws(ValueFileError) -> Int {
        let names: [String]
        do throws(StoreError) {
            names = try directory.subdirectory(Self.directoryName(number), create: false)?.names() ?? []
        } catch {
            throw ValueFileError(error)
        }
        guard let oldest = names.compactMap(OrphanSweep.generation).min() else { return 0 }
        return try remove(generation: oldest)
    }

    /// A new sweep of files of epochs before `epoch` that no row refers to.
    ///
    /// Begin it after the journal was replayed.
    func sweep(epochsBefore epoch: UInt32) -> OrphanSweep {
        OrphanSweep(directory: directory, epoch: epoch)
    }
}
