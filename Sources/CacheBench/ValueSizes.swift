// How large values are: one size, a range, or the shape of a kind of cache seen in the field.
//
// A shape is a table of 4096 sizes at evenly spaced quantiles, drawn by hash; so the size of a value follows from its
// key and version, and costs one load. Sources of the shapes: medians and spread of Twitter's 2020 cluster statistics
// (`web`), the `cdn` table of CacheLib's cachebench configurations (`thumb`); the others are round numbers for user
// sessions, upload chunks and language model replies.

import Glibc
import Primitives

/// What `--value-size` says.
enum ValueSizes: Sendable, Equatable {
    /// Every value has so many bytes.
    case exactly(Int)
    /// Uniform between two sizes, both included.
    case between(Int, Int)
    /// Small web objects: log-normal, median 224 B, a long tail.
    case web
    /// User sessions: log-normal, median 2 KiB, narrow.
    case session
    /// Thumbnails and other static files: median 13 KB, 10 % above 78 KB, 1 % above 274 KB.
    case thumb
    /// Parts of large files: 256 KiB to 2 MiB, uniform in the logarithm. Needs a server that takes values of 2 MiB.
    case chunk
    /// Model replies: log-normal, median 20 KB, narrow.
    case llm

    /// The largest size that may be asked for.
    static let bytesMax = 64 << 20

    /// Reads `100`, `20KiB`, `100-4KiB` or the name of a shape; nil if it is none of them.
    init?(parsing text: String) {
        switch text {
        case "web": self = .web
        case "session": self = .session
        case "thumb": self = .thumb
        case "chunk": self = .chunk
        case "llm": self = .llm
        default:
            let parts = text.split(separator: "-", maxSplits: 1, omittingEmptySubsequences: false)
            var sizes: [Int] = []
            for part in parts {
                guard case .success(let size) = Result(catching: { try ByteSize(parsing: String(part)) }),
                    size.bytes <= Self.bytesMax
                else { return nil }
                sizes.append(size.bytes)
            }
            if sizes.count == 2, sizes[0] > sizes[1] { return nil }
            self = sizes.count == 1 || sizes[0] == sizes[1] ? .exactly(sizes[0]) : .between(sizes[0], sizes[1])
        }
    }

    /// The sizes at 4096 evenly spaced quantiles, smallest first; a single one for `exactly`.
    var table: [UInt32] {
        if case .exactly(let size) = self { return [UInt32(size)] }
        return (0..<4096).map { UInt32(quantile((Double($0) + 0.5) / 4096).rounded()) }
    }

    private func quantile(_ fraction: Double) -> Double {
        switch self {
        case .exactly(let size): Double(size)
        case .between(let low, let high): Double(low) - 0.5 + fraction * Double(high - low + 1)
        case .web: min(Self.logNormal(fraction, median: 224, sigma: 1.8), 512 * 1024)
        case .session: Self.logNormal(fraction, median: 2048, sigma: 0.5)
        case .thumb: Self.interpolated(fraction)
        case .chunk: 262_144 * exp(fraction * log(8.0))
        case .llm: Self.logNormal(fraction, median: 20_000, sigma: 0.3)
        }
    }

    private static func logNormal(_ fraction: Double, median: Double, sigma: Double) -> Double {
        max(median * exp(sigma * normalQuantile(fraction)), 1)
    }

    /// The `cdn` table, linear in the logarithm between its points.
    private static func interpolated(_ fraction: Double) -> Double {
        let points: [(fraction: Double, bytes: Double)] = [
            (0, 200), (0.30, 4096), (0.50, 13_000), (0.54, 16_384), (0.88, 65_536), (0.90, 78_000), (0.99, 274_000),
            (0.9996, 1_000_000), (1, 1_000_000),
        ]
        let upper = points.firstIndex { $0.fraction >= fraction } ?? points.count - 1
        let lower = points[max(upper - 1, 0)]
        let span = points[upper].fraction - lower.fraction
        let share = span > 0 ? (fraction - lower.fraction) / span : 0
        return exp(log(lower.bytes) + share * (log(points[upper].bytes) - log(lower.bytes)))
    }

    /// The standard normal quantile, by bisection on erf(3): exact enough, and run 4096 times per program at most.
    private static func normalQuantile(_ fraction: Double) -> Double {
        var low = -8.0
        var high = 8.0
        for _ in 0..<60 {
            let middle = (low + high) / 2
            if 0.5 * (1 + erf(middle / 2.0.squareRoot())) < fraction { low = middle } else { high = middle }
        }
        return (low + high) / 2
    }
}

extension ValueSizes: CustomStringConvertible {
    /// The form that `init(parsing:)` reads.
    var description: String {
        switch self {
        case .exactly(let size): "\(size)"
        case .between(let low, let high): "\(low)-\(high)"
        case .web: "web"
        case .session: "session"
        case .thumb: "thumb"
        case .chunk: "chunk"
        case .llm: "llm"
        }
    }
}
