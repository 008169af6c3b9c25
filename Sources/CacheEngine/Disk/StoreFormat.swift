// FORMAT: what the directory is, in a text that people can read.
//
//   cache-daemon store
//   format 1.0
//   seed 0123456789abcdef
//   sum fedcba9876543210
//
// Every format, of whatever version, has these first two lines and the sum of all lines above it as its last line, so
// that a newer format and a damaged file can be told apart. Written once, when the directory is first used. Pure.

import Hashing

struct StoreFormat: Equatable, Sendable {
    /// What this program writes.
    ///
    /// A newer minor version is readable, a newer major one is not.
    static let current = (major: 1, minor: 0)
    private static let title = "cache-daemon store"

    var major = Self.current.major
    var minor = Self.current.minor
    /// Seed of the keyed hash of keys.
    ///
    /// Random, and kept as long as the directory, since the index is built on it.
    var seed: UInt64

    init(seed: UInt64) { self.seed = seed }

    /// What a FORMAT file can be.
    enum Reading: Equatable, Sendable {
        case valid(StoreFormat)
        case newer(major: Int, minor: Int)
        case damaged
    }

    /// The file's content.
    var text: String {
        let head = "\(Self.title)\nformat \(major).\(minor)\nseed \(hexadecimal(seed))\n"
        return head + "sum \(hexadecimal(Self.sum(of: head)))\n"
    }

    /// Reads a file's content.
    static func read(_ text: String) -> Reading {
        guard let sumStart = text.range(ofLast: "\nsum ") else { return .damaged }
        let head = text[..<text.index(after: sumStart)]
        guard text[sumStart...] == "\nsum \(hexadecimal(sum(of: head)))\n" else { return .damaged }
        let lines = head.split(separator: "\n", omittingEmptySubsequences: false)
        guard lines.count >= 3, lines[0] == title, lines[1].hasPrefix("format ") else { return .damaged }
        let version = lines[1].dropFirst("format ".count).split(separator: ".", omittingEmptySubsequences: false)
        guard version.count == 2, let major = Int(version[0]), let minor = Int(version[1]) else { return .damaged }
        if major > current.major { return .newer(major: major, minor: minor) }
        guard major == current.major, lines[2].hasPrefix("seed "), lines[2].utf8.count == 21,
            let seed = UInt64(lines[2].dropFirst("seed ".count), radix: 16)
        else { return .damaged }
        var format = StoreFormat(seed: seed)
        format.minor = minor
        return .valid(format)
    }

    private static func sum(of head: some StringProtocol) -> UInt64 {
        var head = String(head)
        // SAFETY: xxh3 reads the buffer's own bytes and keeps nothing.
        return head.withUTF8 { unsafe xxh3(UnsafeRawBufferPointer($0), seed: 0) }
    }
}

/// 16 lower-case hexadecimal digits.
func hexadecimal(_ value: UInt64) -> String {
    let digits = String(value, radix: 16)
    return String(repeating: "0", count: 16 - digits.utf8.count) + digits
}

extension String {
    /// Where the last occurrence of `part` begins.
    fileprivate func range(ofLast part: String) -> Index? {
        var start = endIndex
        while start > startIndex {
            start = index(before: start)
            if self[start...].hasPrefix(part) { return start }
        }
        return nil
    }
}
