// How programs of ours talk to people: whole texts to standard output or standard error, and what kind of thing those
// are. No buffering and no formatting; logs of the daemon go elsewhere.

import Glibc

/// Standard output or standard error of this process.
///
/// Any thread may write; one text is written in one piece as far as the kernel allows.
public enum StandardStream: Int32, Sendable {
    /// Results: what a pipe should carry.
    case output = 1
    /// Progress and complaints.
    case error = 2

    /// Writes all of `text`.
    ///
    /// Returns false when the other side is gone or the disk is full; a program that prints results stops then.
    @discardableResult
    public func write(_ text: String) -> Bool {
        var text = text
        return text.withUTF8 { bytes in
            var written = 0
            while written < bytes.count {
                // SAFETY: `written` stays below `count`, so pointer and length lie within `bytes`.
                let count = unsafe Glibc.write(
                    rawValue, bytes.baseAddress.map { unsafe $0 + written }, bytes.count - written)
                if count > 0 {
                    written += count
                } else if errno != EINTR {
                    return false
                }
            }
            return true
        }
    }

    /// Whether a person is likely to look at it; see isatty(3).
    public var isTerminal: Bool { isatty(rawValue) == 1 }

    /// Whether escape sequences that move the cursor work: a terminal that is not dumb.
    public var movesCursor: Bool { isTerminal && Self.environment("TERM") != "dumb" }

    /// Whether colour is welcome too: no `NO_COLOR` (no-color.org).
    public var takesColor: Bool { movesCursor && (Self.environment("NO_COLOR") ?? "").isEmpty }

    /// The value of an environment variable, or nil; see getenv(3).
    public static func environment(_ name: String) -> String? {
        // SAFETY: no program of ours changes its environment, so the string stays put while it is copied.
        unsafe getenv(name).map { unsafe String(cString: $0) }
    }
}
