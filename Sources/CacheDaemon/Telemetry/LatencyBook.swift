// How long requests took, by command and outcome: one set of log-linear histograms per worker.
//
// A request's time runs from the moment its worker turns to the connection until the kernel has the reply, so requests
// that came together share one time; what waited for the disk runs from the request until the disk's answer. A bucket
// is a quarter of a power of two, so a percentile is off by at most an eighth. Only the owner adds, with plain stores;
// anybody reads, and may lag behind.

import Synchronization

/// What a request was, and how it ended.
enum LatencyKind: Int, CaseIterable, Sendable {
    case getMemory, getDisk, getMiss, getDiskMiss
    case set, delete, arithmetic, touch
    /// A change that had to wait for the disk before it could be made.
    case changeDisk

    /// The command as statistics name it.
    var command: String {
        switch self {
        case .getMemory, .getDisk, .getMiss, .getDiskMiss: "get"
        case .set: "set"
        case .delete: "delete"
        case .arithmetic: "arithmetic"
        case .touch: "touch"
        case .changeDisk: "change"
        }
    }

    /// The outcome as statistics name it.
    var outcome: String {
        switch self {
        case .getMemory: "memory_hit"
        case .getDisk: "disk_hit"
        case .getMiss: "miss"
        case .getDiskMiss: "disk_miss"
        case .set, .delete, .arithmetic, .touch: "done"
        case .changeDisk: "waited"
        }
    }

    /// Both in one word.
    var name: String { "\(command)_\(outcome)" }
}

/// The division of time into buckets.
enum LatencyScale {
    /// Everything below 2^9 ns is one bucket, everything from 2^36 ns (69 s) on is another.
    static let lowestPower = 9
    static let highestPower = 36
    /// Buckets in a power of two, as a power of two.
    private static let splitBits = 2
    static let bucketCount = ((highestPower - lowestPower) << splitBits) + 2

    /// The bucket of a time.
    @inline(__always)
    static func bucket(_ nanoseconds: Int64) -> Int {
        guard nanoseconds >= 1 << lowestPower else { return 0 }
        let power = 63 &- nanoseconds.leadingZeroBitCount
        guard power < highestPower else { return bucketCount - 1 }
        let part = Int(truncatingIfNeeded: nanoseconds &>> (Int64(power) &- Int64(splitBits))) & ((1 << splitBits) - 1)
        return ((power &- lowestPower) << splitBits) &+ part &+ 1
    }

    /// The first time that is above the bucket, in ns; nil for the last bucket.
    static func end(of bucket: Int) -> Int64? {
        if bucket == 0 { return 1 << lowestPower }
        guard bucket < bucketCount - 1 else { return nil }
        let power = lowestPower + (bucket - 1) >> splitBits
        let part = Int64((bucket - 1) & ((1 << splitBits) - 1))
        return Int64(1) << power + (part + 1) << (Int64(power) - Int64(splitBits))
    }
}

/// The histograms of one worker.
final class LatencyBook: Sendable {
    private static let cellCount = LatencyKind.allCases.count * LatencyScale.bucketCount
    // SAFETY of the sizes: the literals are checked against the enumerations in `init`.
    private let cells = InlineArray<990, Atomic<UInt64>> { _ in Atomic(0) }
    private let sums = InlineArray<9, Atomic<UInt64>> { _ in Atomic(0) }

    init() { precondition(Self.cellCount == 990 && LatencyKind.allCases.count == 9) }

    /// Counts `count` requests that took `nanoseconds` each; only the owner's thread may.
    @inline(__always)
    func add(_ kind: LatencyKind, _ count: UInt64 = 1, nanoseconds: Int64, bucket: Int) {
        let cell = kind.rawValue &* LatencyScale.bucketCount &+ bucket
        cells[cell].store(cells[cell].load(ordering: .relaxed) &+ count, ordering: .relaxed)
        let sum = sums[kind.rawValue].load(ordering: .relaxed)
        sums[kind.rawValue].store(
            sum &+ count &* UInt64(truncatingIfNeeded: max(0, nanoseconds)), ordering: .relaxed)
    }

    fileprivate func cell(_ kind: LatencyKind, _ bucket: Int) -> UInt64 {
        cells[kind.rawValue * LatencyScale.bucketCount + bucket].load(ordering: .relaxed)
    }

    fileprivate func sum(_ kind: LatencyKind) -> UInt64 { sums[kind.rawValue].load(ordering: .relaxed) }
}

/// A histogram at one moment, of one worker or of all.
struct LatencyHistogram: Sendable, Equatable {
    private(set) var buckets = [UInt64](repeating: 0, count: LatencyScale.bucketCount)
    /// Sum of all times, in ns.
    private(set) var nanoseconds: UInt64 = 0

    init() {}

    /// The sum over the histograms of one kind.
    init(_ kind: LatencyKind, _ books: [LatencyBook]) {
        for book in books {
            for bucket in buckets.indices { buckets[bucket] &+= book.cell(kind, bucket) }
            nanoseconds &+= book.sum(kind)
        }
    }

    /// Requests counted.
    var count: UInt64 { buckets.reduce(0, &+) }

    /// What was counted since `earlier`.
    func since(_ earlier: LatencyHistogram) -> LatencyHistogram {
        var rest = self
        for bucket in buckets.indices { rest.buckets[bucket] &-= earlier.buckets[bucket] }
        rest.nanoseconds &-= earlier.nanoseconds
        return rest
    }

    /// Adds what `other` has counted.
    mutating func add(_ other: LatencyHistogram) {
        for bucket in buckets.indices { buckets[bucket] &+= other.buckets[bucket] }
        nanoseconds &+= other.nanoseconds
    }

    /// Requests that took less than 2^power ns; exact, because powers of two are ends of buckets.
    func count(below power: Int) -> UInt64 {
        var count: UInt64 = 0
        for bucket in buckets.indices {
            guard let end = LatencyScale.end(of: bucket), end <= Int64(1) << power else { break }
            count &+= buckets[bucket]
        }
        return count
    }

    /// The time in ns that the share `quantile` (0...1) of the requests did not exceed: the end of its bucket.
    ///
    /// Nil if nothing was counted.
    func quantile(_ quantile: Double) -> Int64? {
        let total = count
        guard total > 0 else { return nil }
        let rank = max(1, UInt64((Double(total) * min(max(quantile, 0), 1)).rounded(.up)))
        var seen: UInt64 = 0
        for bucket in buckets.indices {
            seen &+= buckets[bucket]
            if seen >= rank { return LatencyScale.end(of: bucket) ?? Int64(1) << LatencyScale.highestPower }
        }
        return nil
    }
}
