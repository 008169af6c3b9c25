// Configuration files: `key = value` lines in `[sections]`, read into a list with line numbers.
//
// Names and values are the caller's to judge; so are duplicates, which come as two entries. The format is INI as
// libinih reads it: `#` or `;` begins a comment line, ` ;` begins a comment after a value, `:` may stand for `=`,
// spaces round names and values do not matter. What libinih leaves vague is refused here: lines that continue another,
// lines longer than `lineBytesMax`, text after a section's `]`, bytes that are not UTF-8.

import Glibc

/// One `key = value` line.
public struct ConfigEntry: Equatable, Sendable {
    /// The section that the line stands in; empty above the first section.
    public let section: String
    /// The name before `=`, never empty.
    public let key: String
    /// The text after `=`, without spaces and comment at its ends; may be empty.
    public let value: String
    /// Counted from 1.
    public let line: Int

    /// Makes an entry, as reading does.
    public init(section: String, key: String, value: String, line: Int) {
        self.section = section
        self.key = key
        self.value = value
        self.line = line
    }
}

/// Why a configuration file could not be read.
public enum ConfigFileError: Error, Equatable, Sendable, CustomStringConvertible {
    /// A line that is not of the format.
    case syntax(path: String, line: Int, reason: String)
    /// The system refused: `operation` is the call, `code` its errno.
    case io(operation: String, path: String, code: Int32)
    /// More than `ConfigEntries.fileBytesMax` bytes.
    case tooLarge(path: String)
    /// A pipe or a socket: reading would wait for whoever writes.
    case notAFile(path: String)

    /// One line for people: `PATH:LINE: reason`.
    public var description: String {
        switch self {
        case .syntax(let path, let line, let reason): "\(path):\(line): \(reason)"
        case .io(let operation, let path, let code):
            // SAFETY: strerror returns a string that stays valid until the thread's next call; it is copied at once.
            unsafe "\(path): cannot \(operation): \(String(cString: strerror(code)))"
        case .notAFile(let path): "\(path): not a regular file"
        case .tooLarge(let path): "\(path): larger than \(ConfigEntries.fileBytesMax) bytes"
        }
    }
}

/// Reads configuration files.
public enum ConfigEntries {
    /// Longest line, without its line end.
    public static let lineBytesMax = 8000
    /// Largest file.
    public static let fileBytesMax = 1 << 20

    /// The entries of the file at `path`, in order.
    ///
    /// - Throws: `ConfigFileError`; for a wrong line, the first one.
    public static func read(path: String) throws(ConfigFileError) -> [ConfigEntry] {
        try parse(try contents(of: path), path: path)
    }

    /// The entries of `bytes`, in order; `path` is for messages.
    ///
    /// - Throws: `ConfigFileError.syntax` for the first wrong line.
    public static func parse(_ bytes: [UInt8], path: String) throws(ConfigFileError) -> [ConfigEntry] {
        let parse = InihParse(bytes)
        if let problem = parse.run() {
            throw .syntax(path: path, line: problem.line, reason: problem.reason)
        }
        return parse.entries
    }

    private static func contents(of path: String) throws(ConfigFileError) -> [UInt8] {
        // SAFETY: the path and the buffer live until their calls return; read(2) writes at most `count` bytes.
        // A pipe without a writer must not keep a reload waiting for ever.
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
        guard descriptor >= 0 else { throw .io(operation: "open", path: path, code: errno) }
        defer { close(descriptor) }
        var status = stat()
        guard unsafe fstat(descriptor, &status) == 0 else { throw .io(operation: "stat", path: path, code: errno) }
        let kind = status.st_mode & S_IFMT
        guard kind != S_IFIFO, kind != S_IFSOCK else { throw .notAFile(path: path) }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 16_384)
        while true {
            let count = unsafe Glibc.read(descriptor, &chunk, chunk.count)
            if count == 0 { return bytes }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw .io(operation: "read", path: path, code: errno) }
            bytes += chunk[..<count]
            if bytes.count > fileBytesMax { throw .tooLarge(path: path) }
        }
    }
}
