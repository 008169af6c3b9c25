// `EmbeddedCache bench DIRECTORY ENTRIES BYTES`: sets and gets per second of one thread, for Benchmarks/disk-rows.
//
// The memory tier is small, so that nearly every get comes from disk. Prints one `name value` line each. One thread.

import CacheEngine
import Glibc
import Primitives

/// One measurement of an in-process cache.
struct Bench {
    let directory: String
    let entries: Int
    let valueBytes: Int

    init?(_ arguments: [String]) {
        guard arguments.count == 4, arguments[0] == "bench", let entries = Int(arguments[2]),
            let valueBytes = Int(arguments[3]), entries > 0, valueBytes >= 0, valueBytes <= 1 << 20
        else { return nil }
        directory = arguments[1]
        self.entries = entries
        self.valueBytes = valueBytes
    }

    func run() throws {
        let cache = try Cache.open(
            CacheOptions(name: "bench", memoryBytes: 4 << 20, directory: directory, diskBytes: 8 << 30))
        let value = [UInt8](repeating: 7, count: valueBytes)
        report(
            "set",
            try time {
                for number in 0..<entries { try cache.set(value, forKey: "key\(number)") }
            })
        cache.close()
        let again = try Cache.open(
            CacheOptions(name: "bench", memoryBytes: 4 << 20, directory: directory, diskBytes: 8 << 30))
        var state: UInt64 = 1
        var hits = 0
        report(
            "get",
            time {
                for _ in 0..<entries {
                    state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
                    if again.value(forKey: "key\(Int(state >> 33) % entries)")?.count == valueBytes { hits += 1 }
                }
            })
        say("hits \(hits)")
        say("from_disk \(again.statistics().diskHits)")
        again.close()
    }

    private func report(_ name: String, _ spent: (milliseconds: Int64, cpuNanoseconds: Int64)) {
        say("\(name)s_per_second \(Int64(entries) * 1000 / max(1, spent.milliseconds))")
        // Of this thread alone: what the writer's thread does is not in it.
        say("\(name)_cpu_ns \(spent.cpuNanoseconds / Int64(entries))")
    }

    private func time(_ body: () throws -> Void) rethrows -> (milliseconds: Int64, cpuNanoseconds: Int64) {
        let clock = SystemClock()
        let start = clock.now().milliseconds
        let cpuStart = threadNanoseconds()
        try body()
        return (clock.now().milliseconds - start, threadNanoseconds() - cpuStart)
    }

    private func threadNanoseconds() -> Int64 {
        var time = timespec()
        // SAFETY: the call writes the local structure.
        unsafe clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}
