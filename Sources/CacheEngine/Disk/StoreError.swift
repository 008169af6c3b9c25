// What can go wrong with the store's directory and its files, and with its index.
//
// Both types name operation, object and cause. Neither is ever a reason to wipe anything: the caller degrades to
// memory-only and, for `.corrupt`, quarantines.

import Glibc
import Primitives

/// Why the store's directory cannot be used.
enum StoreError: Error, Sendable, Equatable {
    /// Another process holds the directory; its pid where the lock file tells it.
    case heldBy(Int32?)
    /// A newer major version wrote the directory. Nothing was touched.
    case newerFormat(major: Int, minor: Int)
    /// The directory is not one that we may use: wrong owner, writable by others, foreign content, not a directory.
    case notOurs(String)
    /// A system call failed.
    case io(operation: String, path: String, errno: Int32)
}

extension StoreError: CustomStringConvertible {
    var description: String {
        switch self {
        case .heldBy(let pid?): "another cache-daemon (pid \(pid)) holds the directory"
        case .heldBy(nil): "another process holds the directory"
        case .newerFormat(let major, let minor): "the store has format \(major).\(minor), newer than this program's"
        case .notOurs(let reason): reason
        case .io(let operation, let path, let code): "\(operation) \(path): \(systemErrorText(code))"
        }
    }
}

/// Why an operation on the index failed.
struct DiskError: Error, Sendable, Equatable {
    /// What the caller does about it.
    enum Kind: Sendable, Equatable {
        /// No space, quota or file size left: make room, retry later.
        case full
        /// The file system is read-only.
        case readOnly
        /// The index is damaged, is no index of ours, or is older than the anchor: quarantine.
        case corrupt
        /// The device failed: the outcome is unknown; close, and reopen after a probe.
        case io
        /// Anything else: busy, cannot open, out of memory, too big.
        case other
    }

    var kind: Kind
    /// What was being done.
    var operation: String
    /// SQLite's extended result code; 0 where the cause is not SQLite's.
    var code: Int32
    /// SQLite's message, or ours.
    var message: String
}

extension DiskError: CustomStringConvertible {
    var description: String {
        code == 0 ? "index: \(operation): \(message)" : "index: \(operation): \(message) (SQLite code \(code))"
    }
}

extension DiskError {
    /// What a failure of the store's directory means for its index.
    init(_ error: StoreError) {
        guard case .io(let operation, let path, let code) = error else {
            self.init(kind: .other, operation: "open index", code: 0, message: error.description)
            return
        }
        let kind: Kind =
            switch code {
            case ENOSPC, EDQUOT, EFBIG: .full
            case EROFS: .readOnly
            case EIO: .io
            default: .other
            }
        self.init(kind: kind, operation: "\(operation) \(path)", code: 0, message: systemErrorText(code))
    }
}
