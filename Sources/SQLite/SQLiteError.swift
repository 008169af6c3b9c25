// SQLite's result codes as one error type. It says what was done, and what SQLite answered; what to do about it is the
// caller's policy. See sqlite.org/rescode.html.

internal import CSQLite
internal import Glibc

/// A failed call of the SQLite library.
public struct SQLiteError: Error, Sendable, Equatable {
    /// The extended result code.
    public let code: Int32
    /// What was being done: the statement's name, or the call's.
    public let operation: String
    /// SQLite's own message.
    public let message: String
    /// The errno of the failed system call, where SQLite knows it; else 0.
    public let systemError: Int32

    /// An error with SQLite's extended result code `code`.
    public init(code: Int32, operation: String, message: String, systemError: Int32 = 0) {
        self.code = code
        self.operation = operation
        self.message = message
        self.systemError = systemError
    }

    /// The kinds of failure that callers treat differently.
    public enum Cause: Sendable, Equatable {
        /// SQLITE_FULL: no space left; also when the file system answers ENOSPC, EDQUOT or EFBIG.
        case full
        /// SQLITE_READONLY, SQLITE_PERM, or EROFS from the file system.
        case readOnly
        /// SQLITE_CORRUPT, SQLITE_NOTADB, or a schema format that no SQLite has: the file is damaged or no database.
        case corrupt
        /// SQLITE_IOERR: the device or the file system failed.
        case io
        /// SQLITE_BUSY, SQLITE_LOCKED: someone else holds the lock.
        case busy
        /// SQLITE_CANTOPEN: the file, or a file beside it, cannot be opened.
        case cannotOpen
        /// SQLITE_CONSTRAINT: a row breaks a constraint of the schema.
        case constraint
        /// Everything else.
        case other
    }

    /// Whether `code` says that the device failed to sync: what was to be synced may be gone, whatever comes later.
    public static func isSyncFailure(code: Int32) -> Bool {
        code == SQLITE_IOERR | 4 << 8 || code == SQLITE_IOERR | 5 << 8
    }

    /// The code without its extension.
    public var primaryCode: Int32 { code & 0xff }

    /// What kind of failure it is.
    public var cause: Cause {
        switch systemError {
        // SQLite itself knows only ENOSPC as SQLITE_FULL.
        case ENOSPC, EDQUOT, EFBIG: return .full
        case EROFS: return .readOnly
        default: break
        }
        return switch primaryCode {
        case SQLITE_FULL: .full
        case SQLITE_READONLY, SQLITE_PERM: .readOnly
        case SQLITE_CORRUPT, SQLITE_NOTADB: .corrupt
        // The one damage of the header that has no code of its own, see sqlite.org/fileformat2.html §1.3.9.
        case SQLITE_ERROR where message == "unsupported file format": .corrupt
        case SQLITE_IOERR: .io
        case SQLITE_BUSY, SQLITE_LOCKED: .busy
        case SQLITE_CANTOPEN: .cannotOpen
        case SQLITE_CONSTRAINT: .constraint
        default: .other
        }
    }
}

extension SQLiteError: CustomStringConvertible {
    /// "operation: message (SQLite code n)".
    public var description: String { "\(operation): \(message) (SQLite code \(code))" }
}

/// Checks a code that only our own misuse can make other than SQLITE_OK.
@inline(__always)
func mustBeOK(_ code: Int32, _ call: StaticString) {
    precondition(code == SQLITE_OK, "\(call): SQLite code \(code)")
}

extension SQLiteError {
    /// SQLITE_CORRUPT, for callers that find damage by their own checks.
    public static let corruptCode = SQLITE_CORRUPT
}
