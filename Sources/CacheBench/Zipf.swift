// Zipf-distributed ranks in constant time and memory, however many keys there are.
//
// Rejection-inversion: W. Hoermann and G. Derflinger, "Rejection-inversion to generate variates from monotone discrete
// distributions", ACM TOMACS 6 (1996). The hat is the integral of x^-s, so that a uniform number is turned into a rank
// by the integral's inverse and, seldom, thrown away. Any exponent above 0 works, 1 included.

import Glibc

/// Draws rank r of 1...n with a probability proportional to r^-s.
struct Zipf: Sendable {
    private let count: Double
    private let exponent: Double
    private let hatOfFirst: Double
    private let hatOfLast: Double
    private let acceptance: Double

    /// `count` is at least 1, `exponent` above 0.
    init(count: Int, exponent: Double) {
        precondition(count >= 1 && exponent > 0 && exponent.isFinite, "Zipf of \(count), \(exponent)")
        self.count = Double(count)
        self.exponent = exponent
        hatOfFirst = Self.hat(1.5, exponent) - 1
        hatOfLast = Self.hat(Double(count) + 0.5, exponent)
        acceptance = 2 - Self.inverse(Self.hat(2.5, exponent) - exp(-exponent * log(2.0)), exponent)
    }

    /// One rank, 1 the most frequent.
    @inline(__always)
    func rank(_ random: inout RandomSource) -> Int {
        while true {
            let uniform = hatOfLast + random.unit() * (hatOfFirst - hatOfLast)
            let point = Self.inverse(uniform, exponent)
            let rank = min(max(point.rounded(), 1), count)
            if rank - point <= acceptance { return Int(rank) }
            if uniform >= Self.hat(rank + 0.5, exponent) - exp(-exponent * log(rank)) { return Int(rank) }
        }
    }

    /// The integral of t^-s from 1 to x: (x^(1-s) - 1) / (1 - s), and log x for s = 1.
    private static func hat(_ x: Double, _ s: Double) -> Double {
        let logarithm = log(x)
        return expRatio((1 - s) * logarithm) * logarithm
    }

    /// The inverse of `hat`.
    private static func inverse(_ y: Double, _ s: Double) -> Double {
        // Rounding may take y(1 - s) just below -1, where the logarithm ends.
        let scaled = max(y * (1 - s), -1)
        return exp(logRatio(scaled) * y)
    }

    /// (e^x - 1) / x, and its limit near 0.
    private static func expRatio(_ x: Double) -> Double { abs(x) > 1e-8 ? expm1(x) / x : 1 + x / 2 }

    /// log(1 + x) / x, and its limit near 0.
    private static func logRatio(_ x: Double) -> Double { abs(x) > 1e-8 ? log1p(x) / x : 1 - x / 2 }
}
