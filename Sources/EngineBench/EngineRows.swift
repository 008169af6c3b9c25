// The rows of the benchmark inside the process, each a loop of one call per key.
//
// The five rows of YYCache's published memory benchmark (200,000 keys, values of 4 bytes, one thread), the same with
// two threads, and what growing costs: the longest single store while the table doubles again and again. Times are
// medians of several rounds; they mean something only next to each other.

import Glibc
import Primitives

/// The keys of a run.
struct BenchKeys {
    let ordered: [String]
    let shuffled: [String]
    let absent: [String]

    init(count: Int) {
        ordered = (0..<count).map { "\($0)" }
        var random = SystemRandomNumberGenerator()
        shuffled = ordered.shuffled(using: &random)
        absent = (count..<2 * count).map { "\($0)" }.shuffled(using: &random)
    }
}

/// Nanoseconds of a clock that never jumps.
func nanoseconds() -> UInt64 {
    var time = timespec()
    // SAFETY: the call writes the local structure.
    unsafe clock_gettime(CLOCK_MONOTONIC, &time)
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
}

/// Runs rows against one contender.
struct EngineRows {
    let keys: BenchKeys
    let rounds: Int

    static let names = [
        "set, empty start", "set, present", "get in order", "get shuffled", "get absent", "get shuffled, 2 threads",
    ]

    /// Nanoseconds per call of each row.
    func run(_ make: () throws -> any Contender) rethrows -> [Double] {
        var samples = Array(repeating: [Double](), count: Self.names.count)
        for _ in 0..<rounds {
            let cache = try make()
            let value: [UInt8] = [1, 2, 3, 4]
            samples[0].append(time(keys.ordered) { cache.set(value, $0) })
            samples[1].append(time(keys.ordered) { cache.set(value, $0) })
            samples[2].append(time(keys.ordered) { check(cache.get($0), 4) })
            samples[3].append(time(keys.shuffled) { check(cache.get($0), 4) })
            samples[4].append(time(keys.absent) { check(cache.get($0), -1) })
            samples[5].append(together(cache))
        }
        return samples.map { $0.sorted()[$0.count / 2] }
    }

    private func time(_ keys: [String], _ body: (String) -> Void) -> Double {
        let start = nanoseconds()
        for key in keys { body(key) }
        return Double(nanoseconds() - start) / Double(keys.count)
    }

    /// Two threads get all keys each, the one from the other end; time per call of both together.
    private func together(_ cache: any Contender) -> Double {
        let (forward, backward) = (keys.shuffled, Array(keys.shuffled.reversed()))
        let start = nanoseconds()
        let other = OSThread(name: "bench") { for key in backward { check(cache.get(key), 4) } }
        for key in forward { check(cache.get(key), 4) }
        other.join()
        return Double(nanoseconds() - start) / Double(2 * keys.shuffled.count)
    }
}

/// A wrong answer makes every figure worthless.
func check(_ bytes: Int, _ expected: Int) { invariant(bytes == expected, "got \(bytes) bytes, expected \(expected)") }

/// What stores of new entries cost while the table grows.
struct GrowthRow {
    let entries: Int

    /// Nanoseconds per store, and the longest one that took the thread's own time.
    func run(_ cache: any Contender) -> (mean: Double, longest: Double) {
        let value: [UInt8] = [1, 2, 3, 4]
        var longest: UInt64 = 0
        var last = threadNanoseconds()
        let start = last
        for number in 0..<entries {
            cache.set(value, "\(number)")
            let now = threadNanoseconds()
            longest = max(longest, now - last)
            last = now
        }
        return (Double(last - start) / Double(entries), Double(longest))
    }

    /// CPU time of this thread: what others do on the machine does not count.
    private func threadNanoseconds() -> UInt64 {
        var time = timespec()
        // SAFETY: the call writes the local structure.
        unsafe clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }
}

/// What a get costs when there are more and more entries.
struct ScalingRow {
    /// Lookups per number of entries.
    static let lookups = 2_000_000

    let entries: [Int]
    let rounds: Int

    /// Nanoseconds per get of each number of entries.
    func run(_ make: () throws -> EngineCache) rethrows -> [Double] {
        try entries.map { count in
            let cache = try make()
            let value: [UInt8] = Array(repeating: 7, count: 100)
            for number in 0..<count { cache.set(value, at: UInt64(number)) }
            let samples = (0..<rounds).map { _ in gets(cache, count) }
            return samples.sorted()[rounds / 2]
        }
    }

    private func gets(_ cache: EngineCache, _ count: Int) -> Double {
        // A fixed sequence that jumps about: every key is as likely as the others.
        var state: UInt64 = 1
        let start = nanoseconds()
        for _ in 0..<Self.lookups {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            check(cache.get(at: (state >> 33) % UInt64(count)), 100)
        }
        return Double(nanoseconds() - start) / Double(Self.lookups)
    }
}
