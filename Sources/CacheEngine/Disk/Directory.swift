// An open directory, and the system calls on the names in it.
//
// Everything of the store is reached through one of these: openat(2) and its kin with O_NOFOLLOW and O_CLOEXEC, so that
// no symbolic link is ever followed and nothing outside is ever touched. EINTR is retried here. Sendable: the
// descriptor never changes, and system calls on it are thread-safe.

import Glibc

/// What fstatat(2) tells about a name or a descriptor.
struct FileStatus: Sendable, Equatable {
    var device: UInt64
    var inode: UInt64
    var bytes: Int
    /// Bytes that the file system allocated for it.
    var allocatedBytes: Int
    var links: UInt64
    var owner: UInt32
    /// Permission bits.
    var mode: UInt32
    var isRegular: Bool
    var isDirectory: Bool

    init(_ status: stat) {
        device = UInt64(status.st_dev)
        inode = UInt64(status.st_ino)
        bytes = Int(status.st_size)
        allocatedBytes = Int(status.st_blocks) * 512
        links = UInt64(status.st_nlink)
        owner = status.st_uid
        mode = status.st_mode & 0o7777
        isRegular = status.st_mode & S_IFMT == S_IFREG
        isDirectory = status.st_mode & S_IFMT == S_IFDIR
    }

    /// The status of an open descriptor.
    ///
    /// See fstat(2).
    init(descriptor: Int32, path: String) throws(StoreError) {
        var status = stat()
        guard unsafe fstat(descriptor, &status) == 0 else { throw .failed("fstat", path) }
        self.init(status)
    }

    /// Whether it is a plain file of ours that has no other name.
    var isOurPlainFile: Bool { isRegular && links == 1 && owner == geteuid() }
}

extension StoreError {
    /// The failure that errno tells of.
    static func failed(_ operation: String, _ path: String) -> StoreError {
        .io(operation: operation, path: path, errno: errno)
    }
}

/// Repeats a system call while a signal interrupts it.
@inline(__always)
func retryingEINTR(_ call: () -> Int) -> Int {
    while true {
        let result = call()
        if result != -1 || errno != EINTR { return result }
    }
}

/// Owns the descriptor of a directory.
final class Directory: Sendable {
    let descriptor: Int32
    /// For error messages, and for SQLite, which opens by path.
    let path: String

    private init(descriptor: Int32, path: String) {
        self.descriptor = descriptor
        self.path = path
    }

    deinit { close(descriptor) }

    /// Opens a directory by path.
    ///
    /// The last component must not be a symbolic link.
    static func open(path: String) throws(StoreError) -> Directory {
        let flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC
        let descriptor = retryingEINTR { unsafe Int(Glibc.open(path, flags)) }
        guard descriptor >= 0 else { throw .failed("open", path) }
        return Directory(descriptor: Int32(descriptor), path: path)
    }

    /// Opens a directory in this one.
    ///
    /// nil if there is none and `create` is false.
    func subdirectory(_ name: String, create: Bool) throws(StoreError) -> Directory? {
        let path = "\(path)/\(name)"
        if create, unsafe mkdirat(descriptor, name, 0o700) != 0, errno != EEXIST { throw .failed("mkdir", path) }
        let flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC
        let opened = retryingEINTR { unsafe Int(openat(descriptor, name, flags)) }
        if opened < 0 {
            if errno == ENOENT, !create { return nil }
            throw .failed("open", path)
        }
        return Directory(descriptor: Int32(opened), path: path)
    }

    /// Opens a file in this directory; nil if there is none and `flags` lack O_CREAT.
    ///
    /// The caller owns the descriptor.
    func openFile(_ name: String, _ flags: Int32) throws(StoreError) -> Int32? {
        // O_NONBLOCK: opening a fifo that someone put here must not wait for its other end.
        let flags = flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK
        let opened = retryingEINTR { unsafe Int(openat(descriptor, name, flags, 0o600)) }
        if opened < 0 {
            if errno == ENOENT, flags & O_CREAT == 0 { return nil }
            throw .failed("open", "\(path)/\(name)")
        }
        return Int32(opened)
    }

    /// The status of a name, not following a link; nil if there is none.
    func status(_ name: String) throws(StoreError) -> FileStatus? {
        var status = stat()
        if unsafe fstatat(descriptor, name, &status, AT_SYMLINK_NOFOLLOW) == 0 { return FileStatus(status) }
        if errno == ENOENT { return nil }
        throw .failed("stat", "\(path)/\(name)")
    }

    /// The status of this directory.
    func status() throws(StoreError) -> FileStatus { try FileStatus(descriptor: descriptor, path: path) }

    /// Renames a name in this directory.
    ///
    /// See renameat(2).
    func rename(_ name: String, to newName: String) throws(StoreError) {
        if unsafe renameat(descriptor, name, descriptor, newName) != 0 { throw .failed("rename", "\(path)/\(name)") }
    }

    /// Removes a file; false if there is none.
    @discardableResult
    func unlink(_ name: String) throws(StoreError) -> Bool {
        if unsafe unlinkat(descriptor, name, 0) == 0 { return true }
        if errno == ENOENT { return false }
        throw .failed("unlink", "\(path)/\(name)")
    }

    /// Removes an empty directory; false if it is not empty, or gone.
    func removeDirectory(_ name: String) throws(StoreError) -> Bool {
        if unsafe unlinkat(descriptor, name, AT_REMOVEDIR) == 0 { return true }
        if errno == ENOTEMPTY || errno == EEXIST || errno == ENOENT { return false }
        throw .failed("rmdir", "\(path)/\(name)")
    }

    /// The names in this directory, at most `limit`, in no order, without "." and "..".
    func names(limit: Int = .max) throws(StoreError) -> [String] {
        // SAFETY: fdopendir takes over its descriptor, hence a new one, which closedir closes; readdir's entry is
        // copied before the next call. Nobody else has this stream.
        let copy = retryingEINTR { unsafe Int(openat(descriptor, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) }
        guard copy >= 0 else { throw .failed("open", path) }
        guard let stream = unsafe fdopendir(Int32(copy)) else {
            close(Int32(copy))
            throw .failed("opendir", path)
        }
        defer { unsafe closedir(stream) }
        var names: [String] = []
        while names.count < limit {
            errno = 0
            guard let entry = unsafe readdir(stream) else {
                if errno != 0 { throw .failed("readdir", path) }
                break
            }
            let name = unsafe withUnsafePointer(to: entry.pointee.d_name) { name in
                unsafe name.withMemoryRebound(to: CChar.self, capacity: 256) { unsafe String(cString: $0) }
            }
            if name != ".", name != ".." { names.append(name) }
        }
        return names
    }

    /// Makes new and removed names durable.
    ///
    /// See fsync(2).
    func sync() throws(StoreError) {
        if fsync(descriptor) != 0 { throw .failed("fsync", path) }
    }
}

/// Reads up to `room.count` bytes at `offset`, going on after short reads.
///
/// Less only at the end of the file; nil on failure, with errno.
func readFully(_ descriptor: Int32, at offset: Int, into room: UnsafeMutableRawBufferPointer) -> Int? {
    var done = 0
    while done < room.count {
        // SAFETY: `done` stays within the room.
        let count = retryingEINTR {
            unsafe pread(descriptor, room.baseAddress.map { unsafe $0 + done }, room.count - done, off_t(offset + done))
        }
        if count < 0 { return nil }
        if count == 0 { break }
        done += count
    }
    return done
}

/// Writes all `bytes` at `offset`, going on after short writes.
///
/// False on failure, with errno.
func writeFully(_ descriptor: Int32, at offset: Int, _ bytes: UnsafeRawBufferPointer) -> Bool {
    var done = 0
    while done < bytes.count {
        // SAFETY: `done` stays within the bytes.
        let count = retryingEINTR {
            unsafe pwrite(
                descriptor, bytes.baseAddress.map { unsafe $0 + done }, bytes.count - done, off_t(offset + done))
        }
        if count < 0 { return false }
        if count == 0 {
            errno = EIO
            return false
        }
        done += count
    }
    return true
}
