// The numbers of the wire, each with memcached 1.6.45's own idea of what a number is.
//
// A number is a whole word of decimal digits; what differs is which signs and which range are allowed, and whether too
// much is refused or cut. All arithmetic is checked. Words over the longest spelling of their type are refused unread.

/// Longest word read as a 32-bit number: ten digits and a sign.
private let wordBytesMax32 = 11
/// Longest word read as a 64-bit number.
private let wordBytesMax64 = 22

extension Input {
    /// Digits only, 0...2^64 - 1: `delta`, `unique`, and the tokens of `C`, `E`, `D` and `J`.
    @inline(__always)
    func unsigned64(_ word: ByteRange) -> UInt64? {
        word.count <= wordBytesMax64 ? digits(from: word.start, to: word.end) : nil
    }

    /// Digits only, 0...2^32 - 1: levels, sizes, and the token of `F`.
    @inline(__always)
    func unsigned32(_ word: ByteRange) -> UInt32? {
        guard word.count <= wordBytesMax32, let number = digits(from: word.start, to: word.end) else { return nil }
        return UInt32(exactly: number)
    }

    /// Digits with an optional minus, -2^31...2^31 - 1: lengths, expiry of `touch`, `gat`, `flush_all` and the tokens
    /// of `T`, `N` and `R`.
    @inline(__always)
    func signed32(_ word: ByteRange) -> Int32? {
        guard word.count > 0, word.count <= wordBytesMax32 else { return nil }
        let isNegative = self[word.start] == UInt8(ascii: "-")
        guard let number = digits(from: word.start &+ (isNegative ? 1 : 0), to: word.end) else { return nil }
        // At most eleven digits: far from the ends of Int64.
        return Int32(exactly: isNegative ? -Int64(number) : Int64(number))
    }

    /// The client flags of a storage command: an optional plus and 0...2^64 - 1, of which the low 32 bits count.
    @inline(__always)
    func clientFlags(_ word: ByteRange) -> UInt32? {
        guard word.count > 0 else { return nil }
        let hasSign = self[word.start] == UInt8(ascii: "+")
        guard let number = digits(from: word.start &+ (hasSign ? 1 : 0), to: word.end) else { return nil }
        return UInt32(truncatingIfNeeded: number)
    }

    /// The expiry of a storage command: an optional sign and -2^63...2^63 - 1, of which the low 32 bits count.
    @inline(__always)
    func storageExptime(_ word: ByteRange) -> Int32? {
        guard word.count > 0 else { return nil }
        let sign = self[word.start]
        let isNegative = sign == UInt8(ascii: "-")
        let hasSign = isNegative || sign == UInt8(ascii: "+")
        guard let number = digits(from: word.start &+ (hasSign ? 1 : 0), to: word.end) else { return nil }
        guard number <= (isNegative ? 1 << 63 : 1 << 63 - 1) else { return nil }
        let low = Int32(truncatingIfNeeded: number)
        return isNegative ? 0 &- low : low
    }

    /// One digit or more and nothing else in `start..<end`, up to 2^64 - 1.
    @inline(__always)
    private func digits(from start: Int, to end: Int) -> UInt64? {
        guard start < end else { return nil }
        var number: UInt64 = 0
        var position = start
        while position < end {
            let digit = self[position] &- UInt8(ascii: "0")
            guard digit < 10 else { return nil }
            let (product, productOverflow) = number.multipliedReportingOverflow(by: 10)
            let (sum, sumOverflow) = product.addingReportingOverflow(UInt64(digit))
            guard !productOverflow, !sumOverflow else { return nil }
            number = sum
            position &+= 1
        }
        return number
    }
}
