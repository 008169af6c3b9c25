// Walks the words of a line without copying or allocating.

/// The keys of a retrieval, one after the other.
@safe
public struct KeyIterator {
    /// The keys in `keys`, a part of `input` without line end.
    public init(_ input: UnsafeRawBufferPointer, _ keys: ByteRange) {}

    /// The next key, or nil at the end.
    public mutating func next() -> ByteRange? { nil }
}
