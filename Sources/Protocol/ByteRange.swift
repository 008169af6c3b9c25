// A place in the input: the way a request names its key without copying it.
//
// Ranges count from the first byte of the input that was given to `RequestParser.parse`. They stay meaningful as long
// as the caller keeps that input in place; nothing here owns or keeps memory. Two 32-bit numbers, because a line is
// bounded by `ProtocolLimits` and requests are passed by value.

public import Primitives

/// A run of bytes of the input, by position.
public struct ByteRange: Equatable, Sendable {
    @usableFromInline var rawStart: UInt32
    @usableFromInline var rawCount: UInt32

    /// Offset of the first byte.
    @inlinable
    public var start: Int { Int(rawStart) }

    /// Number of bytes.
    @inlinable
    public var count: Int { Int(rawCount) }

    /// Offset of the byte after the last one.
    @inlinable
    public var end: Int { Int(rawStart) &+ Int(rawCount) }

    /// The range of `count` bytes from `start`.
    ///
    /// Both are below 2^32: the parser never looks further than `ProtocolLimits.retrievalLineBytesMax`.
    @inlinable
    public init(start: Int, count: Int) {
        rawStart = UInt32(start)
        rawCount = UInt32(count)
    }

    /// No bytes at all.
    @inlinable
    public static var empty: ByteRange { ByteRange(start: 0, count: 0) }

    /// The same bytes, seen from an input that begins `bytes` earlier.
    @inlinable
    public func shifted(by bytes: Int) -> ByteRange { ByteRange(start: start + bytes, count: count) }
}

extension UnsafeRawBufferPointer {
    /// The bytes of this input that `range` names.
    @inlinable
    public subscript(_ range: ByteRange) -> UnsafeRawBufferPointer {
        invariant(range.end <= count)
        // SAFETY: the range was just checked to lie within this buffer.
        return unsafe UnsafeRawBufferPointer(rebasing: self[range.start..<range.end])
    }
}
