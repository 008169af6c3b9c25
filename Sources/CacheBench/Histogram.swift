// How often which latency occurred, in buckets whose width grows with the value: never more than 1.6 % wide, from 1 ns
// to 68 s, in 17 KiB. Recording costs one increment. Belongs to one thread; histograms are added up at the end.
//
// Values below 64 have a bucket each. Above, each power of two is cut into 64 equal buckets:
//
//     value 64...127: width 1      128...255: width 2      256...511: width 4      and so on

/// A log-linear histogram of nanoseconds.
struct Histogram: Sendable {
    private static let subBits = 6
    private static let subBuckets = 1 << subBits
    private static let valueMax: UInt64 = 1 << 36 - 1
    private static let buckets = (36 - subBits + 1) * subBuckets

    private var counts = [UInt64](repeating: 0, count: buckets)
    /// Values recorded.
    private(set) var count: UInt64 = 0
    /// The largest value recorded, exactly.
    private(set) var max: UInt64 = 0
    private var sum: Double = 0

    /// Records `value`, in nanoseconds, `times` times.
    @inline(__always)
    mutating func record(_ value: UInt64, times: UInt64) {
        counts[Self.bucket(of: min(value, Self.valueMax))] &+= times
        count &+= times
        sum += Double(value) * Double(times)
        if value > max { max = value }
    }

    /// Adds what `other` recorded.
    mutating func add(_ other: Histogram) {
        for index in counts.indices { counts[index] &+= other.counts[index] }
        count &+= other.count
        sum += other.sum
        max = Swift.max(max, other.max)
    }

    /// The arithmetic mean; 0 if nothing was recorded.
    var mean: Double { count == 0 ? 0 : sum / Double(count) }

    /// A value that `fraction` (0...1) of the recorded values do not exceed: the upper edge of the bucket in which the
    /// nearest-rank quantile lies, so at most 1.6 % above it.
    ///
    /// 0 if nothing was recorded.
    func quantile(_ fraction: Double) -> UInt64 {
        if count == 0 { return 0 }
        let rank = Swift.max(UInt64((fraction * Double(count)).rounded(.up)), 1)
        var seen: UInt64 = 0
        for (index, times) in counts.enumerated() {
            seen &+= times
            if seen >= rank { return min(Self.upperEdge(of: index), max) }
        }
        return max
    }

    static func bucket(of value: UInt64) -> Int {
        if value < UInt64(subBuckets) { return Int(truncatingIfNeeded: value) }
        // value has 64 - leading zeros bits; the top subBits + 1 of them choose the bucket.
        let shift = 63 - value.leadingZeroBitCount - subBits
        return (shift << subBits) &+ Int(truncatingIfNeeded: value >> UInt64(shift))
    }

    static func upperEdge(of bucket: Int) -> UInt64 {
        if bucket < subBuckets { return UInt64(bucket) }
        let shift = bucket >> subBits - 1
        let mantissa = UInt64(bucket - (shift << subBits))
        return (mantissa + 1) << UInt64(shift) - 1
    }
}
