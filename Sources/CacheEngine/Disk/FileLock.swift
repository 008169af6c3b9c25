// The lock that keeps a directory to one process: flock(2) on a file, for life.
//
// The kernel drops it when the process ends, however it ends. The file holds the pid as text, for the message that the
// next one prints; nothing is concluded from it.

import Glibc

/// Owns a locked file.
struct FileLock: ~Copyable {
    private let descriptor: Int32

    /// Takes the lock without waiting.
    ///
    /// - Throws: `.heldBy` with the holder's pid as its file tells it.
    init(in directory: Directory, name: String) throws(StoreError) {
        let path = "\(directory.path)/\(name)"
        let opened = try directory.openFile(name, O_RDWR | O_CREAT) ?? -1
        do throws(StoreError) {
            guard try FileStatus(descriptor: opened, path: path).isOurPlainFile else {
                throw .notOurs("\(path) is not a plain file of ours")
            }
            if flock(opened, LOCK_EX | LOCK_NB) != 0 {
                throw errno == EWOULDBLOCK ? .heldBy(Self.pid(opened)) : .failed("flock", path)
            }
            // A lock on a file that was unlinked meanwhile keeps nobody out.
            let named = try directory.status(name)
            guard try named?.inode == FileStatus(descriptor: opened, path: path).inode else { throw .heldBy(nil) }
            try Self.write(pid: getpid(), to: opened, path)
        } catch {
            close(opened)
            throw error
        }
        descriptor = opened
    }

    deinit {
        // Not left to close(2): a child process between fork and exec holds a copy of the descriptor, and the lock.
        flock(descriptor, LOCK_UN)
        close(descriptor)
    }

    private static func write(pid: pid_t, to descriptor: Int32, _ path: String) throws(StoreError) {
        var text = "\(pid)\n"
        guard ftruncate(descriptor, 0) == 0 else { throw .failed("truncate", path) }
        // SAFETY: the calls below get a buffer's own base and count, and keep nothing.
        let isWritten = text.withUTF8 { unsafe writeFully(descriptor, at: 0, UnsafeRawBufferPointer($0)) }
        // On a full disk the lock holds all the same; only the message of the next process lacks the pid.
        if !isWritten, errno != ENOSPC, errno != EDQUOT { throw .failed("write", path) }
    }

    private static func pid(_ descriptor: Int32) -> Int32? {
        var room = [UInt8](repeating: 0, count: 16)
        let count = unsafe room.withUnsafeMutableBytes { unsafe readFully(descriptor, at: 0, into: $0) } ?? 0
        return Int32(String(decoding: room[..<count].prefix { $0 != 10 }, as: UTF8.self))
    }
}
