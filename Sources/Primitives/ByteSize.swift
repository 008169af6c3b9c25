// Amounts of bytes as people write them: `20 KiB`, `64MiB`, `1g`, `4096`.
//
// Units are powers of 1024. `KB` and its kin are refused, since half of the world means 1000 by them. A number alone is
// bytes. What zero means, and whether an amount is sensible, is the caller's business.

/// A number of bytes, 0 and up.
public struct ByteSize: Comparable, Hashable, Sendable, CustomStringConvertible {
    /// The amount in bytes; never negative.
    public let bytes: Int

    /// An amount of `bytes`, which is not negative.
    public init(bytes: Int) {
        invariant(bytes >= 0, "negative size \(bytes)")
        self.bytes = bytes
    }

    /// Reads `4096`, `4096B`, `20KiB`, `64 MiB`, and the short forms `20k`, `64M`, `1g`, `2T`; case does not matter.
    ///
    /// - Throws: `QuantityError` for fractions, unknown units and amounts of 2^63 bytes or more.
    public init(parsing text: String) throws(QuantityError) {
        bytes = Int(try parseQuantity(text, units: "B, KiB, MiB, GiB or TiB", scale: Self.scale))
    }

    /// `count` times 1024 bytes.
    public static func kibibytes(_ count: Int) -> ByteSize { ByteSize(bytes: count * 1024) }

    /// `count` times 1024^2 bytes.
    public static func mebibytes(_ count: Int) -> ByteSize { ByteSize(bytes: count * 1_048_576) }

    /// `count` times 1024^3 bytes.
    public static func gibibytes(_ count: Int) -> ByteSize { ByteSize(bytes: count * 1_073_741_824) }

    /// Order by amount.
    public static func < (left: ByteSize, right: ByteSize) -> Bool { left.bytes < right.bytes }

    /// The exact amount in the largest unit that divides it, in a form that `init(parsing:)` reads: `64MiB`, `1536B`.
    public var description: String {
        let shift = bytes == 0 ? 0 : min(bytes.trailingZeroBitCount / 10, Self.units.count - 1)
        return "\(bytes >> (shift * 10))\(Self.units[shift])"
    }

    /// About three digits for people, in the unit that suits: `1.42 GiB`, `64.0 MiB`, `812 B`; rounded down.
    public var approximate: String {
        var shift = 0
        while shift < Self.units.count - 1, bytes >> ((shift + 1) * 10) > 0 { shift += 1 }
        let whole = bytes >> (shift * 10)
        if shift == 0 || whole >= 100 { return "\(whole) \(Self.units[shift])" }
        // The remainder is below 2^40, so times 100 stays far below 2^63.
        let hundredths = ((bytes & ((1 << (shift * 10)) - 1)) * 100) >> (shift * 10)
        if whole >= 10 { return "\(whole).\(hundredths / 10) \(Self.units[shift])" }
        return "\(whole).\(hundredths < 10 ? "0" : "")\(hundredths) \(Self.units[shift])"
    }

    private static let units = ["B", "KiB", "MiB", "GiB", "TiB"]

    private static func scale(_ unit: String) -> Int64? {
        switch unit.lowercased() {
        case "", "b": 1
        case "k", "kib": 1 << 10
        case "m", "mib": 1 << 20
        case "g", "gib": 1 << 30
        case "t", "tib": 1 << 40
        default: nil
        }
    }
}
