// A checked view of the bytes that a request is parsed from.
//
// All pointer work of the parser is in this file. Every access is checked against the length in release builds too, so
// a mistake in the parsing rules can refuse a request or stop the process, never read beyond the input. Searches go to
// memchr(3), which beats a byte loop from about eight bytes on. Nothing is owned or kept.

import Glibc
import Primitives

/// The bytes of a connection, from the next unparsed one on.
///
/// Valid only during one call of the parser.
@safe
struct Input {
    // SAFETY: the caller of `RequestParser.parse` and of `KeyIterator` keeps the buffer alive and unchanged; every
    // access below is checked against `bytes.count`.
    private let bytes: UnsafeRawBufferPointer

    /// A view of `bytes`.
    init(_ bytes: UnsafeRawBufferPointer) { unsafe self.bytes = unsafe bytes }

    /// Number of bytes.
    @inline(__always)
    var count: Int { unsafe bytes.count }

    /// The byte at `position`.
    @inline(__always)
    subscript(_ position: Int) -> UInt8 {
        invariant(position >= 0 && position < count)
        return unsafe bytes[position]
    }

    /// The position of the first `byte` in `start..<end`, or nil.
    @inline(__always)
    func first(_ byte: UInt8, from start: Int, to end: Int) -> Int? {
        guard start < end, let base = unsafe bytes.baseAddress else { return nil }
        invariant(start >= 0 && end <= count)
        guard let found = unsafe memchr(base + start, Int32(byte), end &- start) else { return nil }
        return unsafe UnsafeRawPointer(found) - base
    }

    /// The first position from `start` on whose byte is a space or a control character; `count` if there is none.
    @inline(__always)
    func endOfWord(from start: Int) -> Int {
        invariant(start >= 0 && start <= count)
        var position = start
        while position <= count &- 8 {
            // Of the bytes in a word those below 0x21 get their highest bit; a borrow can only reach bytes above one.
            let word = unsafe UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: position, as: UInt64.self))
            let found = (word &- 0x2121_2121_2121_2121) & ~word & 0x8080_8080_8080_8080
            if found != 0 { return position &+ found.trailingZeroBitCount &>> 3 }
            position &+= 8
        }
        while position < count, unsafe bytes[position] > 0x20 { position &+= 1 }
        return position
    }

    /// Whether the bytes from `start` on are those of `text`.
    @inline(__always)
    func matches(_ text: StaticString, at start: Int) -> Bool {
        let length = text.utf8CodeUnitCount
        guard start >= 0, start <= count, length <= count &- start, let base = unsafe bytes.baseAddress else {
            return false
        }
        return unsafe memcmp(base + start, text.utf8Start, length) == 0
    }

    /// Up to eight bytes from `start` as one number, the first byte lowest, missing ones 0.
    @inline(__always)
    func packed(from start: Int, count length: Int) -> UInt64 {
        invariant(start >= 0 && length >= 0 && length <= 8 && start <= count &- length)
        var word: UInt64 = 0
        if start <= count &- 8 {
            // The usual case: one load, the bytes behind the word cut off.
            word = unsafe UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: start, as: UInt64.self))
            return length == 8 ? word : word & ((1 &<< (UInt64(length) &* 8)) &- 1)
        }
        for index in 0..<length {
            word |= unsafe UInt64(bytes[start &+ index]) &<< (UInt64(index) &* 8)
        }
        return word
    }
}

/// `text`, of up to eight bytes, as `Input.packed` gives it.
@inline(__always)
func packed(_ text: StaticString) -> UInt64 {
    // SAFETY: reads the literal's own bytes. With a literal argument all of this is a constant after optimization.
    var word: UInt64 = 0
    for index in 0..<min(8, text.utf8CodeUnitCount) {
        word |= unsafe UInt64(text.utf8Start[index]) &<< (UInt64(index) &* 8)
    }
    return word
}
