// Numbers as memcached keeps them: decimal text in a value.

import Primitives

/// Reading and writing the decimal number in a value.
///
/// See memcached's protocol.txt, "Increment/Decrement".
enum DecimalValue {
    /// Longer values are no numbers, however they begin.
    static let valueBytesMax = 16 << 10

    /// The number that the value begins with, as strtoull(3) reads it and memcached accepts it; nil if it is none.
    ///
    /// Leading white space, one `+` and leading zeros are fine; white space or the value's end must follow the digits.
    static func parse(_ value: UnsafeRawBufferPointer) -> UInt64? {
        guard value.count <= valueBytesMax else { return nil }
        // SAFETY: every index is checked against `value.count` first; the caller keeps the bytes during the call.
        var index = 0
        while index < value.count, isSpace(unsafe value[index]) { index += 1 }
        if index < value.count, unsafe value[index] == UInt8(ascii: "+") { index += 1 }
        let firstDigit = index
        var number: UInt64 = 0
        while index < value.count {
            let digit = unsafe value[index] &- UInt8(ascii: "0")
            guard digit < 10 else { break }
            let (shifted, overflow) = number.multipliedReportingOverflow(by: 10)
            let (sum, carry) = shifted.addingReportingOverflow(UInt64(digit))
            if overflow || carry { return nil }
            number = sum
            index += 1
        }
        guard index > firstDigit else { return nil }
        if index < value.count, unsafe !isSpace(value[index]) { return nil }
        return number
    }

    /// Bytes of the value that will hold `number`: at least as many as before.
    static func storedBytes(_ number: UInt64, over oldBytes: Int) -> Int { max(digits(number), oldBytes) }

    /// Writes `number` and pads it with spaces to the end of `value`.
    static func write(_ number: UInt64, to value: UnsafeMutableRawBufferPointer) {
        // SAFETY: every position is below `value.count`: the digits fit, and the padding ends there.
        let count = digits(number)
        invariant(value.count >= count)
        var rest = number
        for position in stride(from: count - 1, through: 0, by: -1) {
            let (quotient, digit) = rest.quotientAndRemainder(dividingBy: 10)
            unsafe value[position] = UInt8(digit) + UInt8(ascii: "0")
            rest = quotient
        }
        for position in count..<value.count { unsafe value[position] = UInt8(ascii: " ") }
    }

    private static func digits(_ number: UInt64) -> Int {
        var digits = 1
        var rest = number / 10
        while rest > 0 {
            digits += 1
            rest /= 10
        }
        return digits
    }

    private static func isSpace(_ byte: UInt8) -> Bool { byte == 32 || (byte >= 9 && byte <= 13) }
}
