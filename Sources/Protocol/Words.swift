// Splits a line into words. Only the space separates; a tab is part of a word, as memcached has it.
//
// Used by the parser for whole lines and by the daemon, as `KeyIterator`, for the keys of a retrieval. Allocation-free.

/// Walks the words of a part of the input.
struct Words {
    private let input: Input
    private let end: Int
    /// Where the next search begins.
    private(set) var position: Int

    /// Bytes not looked at yet.
    var remainingBytes: Int { end &- position }

    /// The words of `input` from `start` up to `end`, which is the line end.
    @inline(__always)
    init(_ input: Input, from start: Int, to end: Int) {
        self.input = input
        self.end = end
        self.position = start
    }

    /// The next word, or nil at the end of the line.
    @inline(__always)
    mutating func next() -> ByteRange? {
        while position < end, input[position] == UInt8(ascii: " ") { position &+= 1 }
        guard position < end else { return nil }
        let start = position
        position = input.first(UInt8(ascii: " "), from: start, to: end) ?? end
        return ByteRange(start: start, count: position &- start)
    }

    /// What is left of the line, without the spaces in front.
    mutating func rest() -> ByteRange {
        while position < end, input[position] == UInt8(ascii: " ") { position &+= 1 }
        return ByteRange(start: position, count: end &- position)
    }
}

/// The keys of a retrieval, in the order in which the client named them.
@safe
public struct KeyIterator {
    private var words: Words

    /// The keys in the part `keys` of `input`, the same input that was parsed.
    ///
    /// The iterator is valid as long as `input` is; it copies nothing.
    public init(_ input: UnsafeRawBufferPointer, _ keys: ByteRange) {
        // SAFETY: the caller keeps `input` as long as the iterator, as said above; every access is checked.
        words = unsafe Words(Input(input), from: keys.start, to: keys.end)
    }

    /// The next key's place in the input, or nil after the last one.
    public mutating func next() -> ByteRange? { words.next() }
}
