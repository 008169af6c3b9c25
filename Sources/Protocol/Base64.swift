// Base64 keys of meta commands (RFC 4648 section 4): the standard alphabet, padded.
//
// Decodes into room that the caller gives and encodes into a reply; nothing is allocated. The parser has checked a key
// before anybody decodes it.

import Primitives

/// The base64 of keys.
enum Base64 {
    /// How many bytes `range` decodes to, or nil if it is no base64.
    static func decodedCount(_ input: Input, _ range: ByteRange) -> Int? {
        guard range.count > 0, range.count % 4 == 0 else { return nil }
        var padding = 0
        while padding < 2, input[range.end &- 1 &- padding] == UInt8(ascii: "=") { padding &+= 1 }
        for position in range.start..<(range.end &- padding) where value(input[position]) == nil { return nil }
        return range.count / 4 * 3 &- padding
    }

    /// Decodes `range`, which `decodedCount` has accepted, into `room`, which is at least so large.
    static func decode(_ input: Input, _ range: ByteRange, into room: UnsafeMutableRawBufferPointer) {
        // SAFETY: writes go through `store`, which checks them against `room`.
        var bits: UInt32 = 0
        var bitCount = 0
        var written = 0
        for position in range.start..<range.end {
            guard let sextet = value(input[position]) else { break }
            bits = bits << 6 | UInt32(sextet)
            bitCount &+= 6
            guard bitCount >= 8 else { continue }
            bitCount &-= 8
            invariant(written < room.count)
            unsafe room[written] = UInt8(truncatingIfNeeded: bits >> UInt32(bitCount))
            written &+= 1
        }
    }

    /// The letter for six bits.
    static func letter(_ sextet: UInt8) -> UInt8 {
        switch sextet & 63 {
        case let low where low < 26: UInt8(ascii: "A") &+ low
        case let low where low < 52: UInt8(ascii: "a") &+ (low &- 26)
        case let low where low < 62: UInt8(ascii: "0") &+ (low &- 52)
        case 62: UInt8(ascii: "+")
        default: UInt8(ascii: "/")
        }
    }

    /// The six bits of a letter, or nil.
    private static func value(_ letter: UInt8) -> UInt8? {
        switch letter {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): letter &- UInt8(ascii: "A")
        case UInt8(ascii: "a")...UInt8(ascii: "z"): letter &- UInt8(ascii: "a") &+ 26
        case UInt8(ascii: "0")...UInt8(ascii: "9"): letter &- UInt8(ascii: "0") &+ 52
        case UInt8(ascii: "+"): 62
        case UInt8(ascii: "/"): 63
        default: nil
        }
    }
}

extension ByteBuffer {
    /// Appends `bytes` as base64, padded.
    mutating func append(base64 bytes: UnsafeRawBufferPointer) {
        let total = bytes.count
        // Three bytes become four letters; what is missing at the end becomes padding.
        for start in stride(from: 0, to: total, by: 3) {
            let count = min(3, total - start)
            var bits: UInt32 = 0
            // SAFETY: `start + offset` is below the count.
            for offset in 0..<3 {
                let byte = unsafe offset < count ? UInt32(bytes[start + offset]) : 0
                bits = bits << 8 | byte
            }
            for position in 0..<4 {
                let sextet = UInt8(truncatingIfNeeded: bits >> UInt32(18 - 6 * position))
                append(byte: position <= count ? Base64.letter(sextet) : UInt8(ascii: "="))
            }
        }
    }
}

extension MetaRequest {
    /// Calls `body` with the key's bytes: those of the line, or decoded ones if the key is base64.
    ///
    /// `input` is the input that was parsed. The bytes are valid during the call only. Nothing is allocated: a decoded
    /// key lies on the stack.
    public func withKey<Result>(
        in input: UnsafeRawBufferPointer, _ body: (UnsafeRawBufferPointer) -> Result
    ) -> Result {
        // SAFETY: `body` gets bytes of the caller's input, or of room on the stack that outlives the call.
        guard flags.contains(.base64Key) else { return unsafe body(input[key]) }
        let encoded = unsafe Input(input)
        let count = Base64.decodedCount(encoded, key)
        invariant(count != nil, "not the input that was parsed")
        return unsafe withUnsafeTemporaryAllocation(byteCount: count ?? 0, alignment: 1) { room in
            unsafe Base64.decode(encoded, key, into: room)
            return unsafe body(UnsafeRawBufferPointer(room))
        }
    }
}
