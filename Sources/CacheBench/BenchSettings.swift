// What a run does, after all options are read. Everything here is printed with the results, so that a run can be
// repeated.

import CacheClient

/// How keys are chosen.
enum KeyDistribution: Sendable, Equatable, CustomStringConvertible {
    /// All equally often.
    case uniform
    /// Rank r with a probability proportional to r^-s; key 0 is the most frequent.
    case zipf(Double)

    /// Reads `uniform` or `zipf:S`, S above 0 and up to 5; nil for anything else.
    init?(parsing text: String) {
        if text == "uniform" {
            self = .uniform
            return
        }
        guard text.hasPrefix("zipf:"), let exponent = Double(text.dropFirst(5)), exponent > 0, exponent <= 5
        else { return nil }
        self = .zipf(exponent)
    }

    var description: String {
        switch self {
        case .uniform: "uniform"
        case .zipf(let exponent): "zipf:\(exponent)"
        }
    }
}

/// When a run ends.
enum RunLength: Sendable, Equatable {
    /// After so many seconds.
    case seconds(Double)
    /// After so many operations in all.
    case operations(Int)
}

/// One run.
struct BenchSettings: Sendable {
    var address = ServerAddress.standard
    /// Who to say we are.
    var login: Login?
    /// How connections are encrypted; nil: not at all.
    var encryption: Encryption?
    var connections = 50
    var threads = 1
    /// Requests sent together on one connection before their replies are awaited.
    var pipeline = 1
    var setShare = 1
    var getShare = 10
    var keys = 100_000
    var keyPrefix = "bench:"
    /// Bytes of each key: prefix, zeros, decimal number.
    var keyBytes = 16
    var valueSizes = ValueSizes.exactly(100)
    var distribution = KeyDistribution.uniform
    var length = RunLength.seconds(10)
    /// Operations per second in all; nil: as fast as the server answers.
    var rate: Double?
    /// Seconds until values expire; 0: never.
    var ttlSeconds = 0
    var warm = false
    var seed: UInt64 = 1
    var verify = true
    var json = false
    var quiet = false

    /// Digits that the largest key number needs.
    static func digits(keys: Int) -> Int { String(keys - 1).count }
}
