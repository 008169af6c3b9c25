// Durations as people write them: `250ms`, `30s`, `5m`, `12h`, `7 d`.
//
// The unit is always required: nobody should have to remember whether a bare number is seconds or milliseconds. Upper
// case is refused, so that `M` is never taken for months or for minutes.

/// A length of time in whole milliseconds, 0 and up.
public struct TimeSpan: Comparable, Hashable, Sendable, CustomStringConvertible {
    /// The length in milliseconds; never negative.
    public let milliseconds: Int64

    /// A length of `milliseconds`, which is not negative.
    public init(milliseconds: Int64) {
        invariant(milliseconds >= 0, "negative time span \(milliseconds)")
        self.milliseconds = milliseconds
    }

    /// Reads `250ms`, `30s`, `5m`, `12h`, `7d`, with or without one space before the unit.
    ///
    /// - Throws: `QuantityError` for fractions, absent or unknown units and lengths of 2^63 ms or more.
    public init(parsing text: String) throws(QuantityError) {
        milliseconds = try parseQuantity(text, units: "ms, s, m, h or d") { unit in
            Self.units.first { $0.name == unit }?.milliseconds
        }
    }

    /// `count` seconds.
    public static func seconds(_ count: Int64) -> TimeSpan { TimeSpan(milliseconds: count * 1000) }

    /// Order by length.
    public static func < (left: TimeSpan, right: TimeSpan) -> Bool { left.milliseconds < right.milliseconds }

    /// The same as a standard `Duration`.
    public var duration: Duration { .milliseconds(milliseconds) }

    /// The exact length in the largest unit that divides it, in a form that `init(parsing:)` reads: `90s`, `7d`.
    public var description: String {
        let unit = Self.units.first { milliseconds > 0 && milliseconds.isMultiple(of: $0.milliseconds) }
        guard let unit else { return "0s" }
        return "\(milliseconds / unit.milliseconds)\(unit.name)"
    }

    /// The two largest units for people: `3d 4h`, `5m 2s`, `1s 20ms`, `0s`; the rest is dropped.
    public var approximate: String {
        guard let first = Self.units.firstIndex(where: { milliseconds >= $0.milliseconds }) else { return "0s" }
        let large = Self.units[first]
        let text = "\(milliseconds / large.milliseconds)\(large.name)"
        guard first + 1 < Self.units.count else { return text }
        let small = Self.units[first + 1]
        let count = milliseconds % large.milliseconds / small.milliseconds
        return count == 0 ? text : "\(text) \(count)\(small.name)"
    }

    /// Largest first; each divides the one before it.
    private static let units: [(name: String, milliseconds: Int64)] = [
        ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1),
    ]
}
