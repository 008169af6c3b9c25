// Finds the one reply at the front of received bytes, without copying and without keeping state: what is incomplete is
// scanned again when more has come, which costs little since values are skipped, not read.

import Glibc

/// What stands at the front of the received bytes.
enum ReplyScan: Equatable {
    /// Not all of it has come; `wanted` bytes are needed at the very least, so that waiting for them cannot hang.
    case incomplete(wanted: Int)
    /// `END`: the key is not there.
    case miss
    /// One value at `offset`, and the whole reply's length.
    case value(offset: Int, count: Int, length: Int)
    /// `STORED`.
    case stored
    /// A line that says no, of that length with its line end.
    case refused(length: Int)
    /// Nothing that the protocol allows here.
    case malformed

    /// Length of `END\r\n`.
    static let missBytes = 5
    /// Length of `STORED\r\n`.
    static let storedBytes = 8
    /// Longest line that can be a refusal.
    private static let lineBytesMax = 2048

    /// The reply to a set.
    @inline(__always)
    static func ofSet(_ bytes: UnsafePointer<UInt8>, _ count: Int) -> ReplyScan {
        // SAFETY: 8 bytes are there.
        if count >= storedBytes, unsafe memcmp(bytes, "STORED\r\n", storedBytes) == 0 { return .stored }
        return unsafe line(bytes, count)
    }

    /// The reply to a get whose `VALUE` line begins with the `headCount` bytes at `head`: `VALUE` and key.
    @inline(__always)
    static func ofGet(
        _ bytes: UnsafePointer<UInt8>, _ count: Int, head: UnsafePointer<UInt8>, headCount: Int
    ) -> ReplyScan {
        // SAFETY: each access below is behind a check of `count`.
        if count > headCount, unsafe memcmp(bytes, head, headCount) == 0 {
            return unsafe value(bytes, count, headCount)
        }
        if count >= missBytes, unsafe memcmp(bytes, "END\r\n", missBytes) == 0 { return .miss }
        if count > 0, count <= headCount, unsafe memcmp(bytes, head, count) == 0 {
            return .incomplete(wanted: headCount + 8)
        }
        return unsafe line(bytes, count)
    }

    /// Reads ` FLAGS COUNT\r\n`, skips the data block and expects `\r\nEND\r\n`.
    ///
    /// Flags of ours are always 0.
    @inline(__always)
    private static func value(_ bytes: UnsafePointer<UInt8>, _ count: Int, _ start: Int) -> ReplyScan {
        var position = start
        if position + 3 > count { return .incomplete(wanted: start + 8) }
        guard unsafe bytes[position] == 32, unsafe bytes[position + 1] == 48, unsafe bytes[position + 2] == 32
        else { return .malformed }
        position += 3
        var size = 0
        let first = position
        while position < count {
            let digit = unsafe Int(bytes[position]) - 48
            guard digit >= 0, digit <= 9 else { break }
            // Nine digits and less cannot overflow; more are no size of ours.
            if position - first >= 9 { return .malformed }
            size = size * 10 + digit
            position += 1
        }
        if position + 2 > count { return .incomplete(wanted: position + 8) }
        guard position > first, unsafe bytes[position] == 13, unsafe bytes[position + 1] == 10 else {
            return .malformed
        }
        let offset = position + 2
        let length = offset + size + 7
        if length > count { return .incomplete(wanted: length) }
        if unsafe memcmp(bytes + (offset + size), "\r\nEND\r\n", 7) != 0 { return .malformed }
        return .value(offset: offset, count: size, length: length)
    }

    private static func line(_ bytes: UnsafePointer<UInt8>, _ count: Int) -> ReplyScan {
        let known = ["STORED", "END", "ERROR", "SERVER_ERROR", "CLIENT_ERROR", "NOT_STORED", "EXISTS", "NOT_FOUND"]
        let text = unsafe UnsafeBufferPointer(start: bytes, count: min(count, lineBytesMax))
        guard let end = unsafe text.firstIndex(of: 10) else {
            let begins = known.contains { name in unsafe name.utf8.starts(with: text.prefix(name.utf8.count)) }
            return begins && count < lineBytesMax ? .incomplete(wanted: count + 1) : .malformed
        }
        let word = unsafe String(decoding: text[..<end].prefix { $0 != 32 && $0 != 13 }, as: UTF8.self)
        return known.dropFirst(2).contains(word) ? .refused(length: end + 1) : .malformed
    }
}
