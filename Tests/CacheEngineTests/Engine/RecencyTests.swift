// What reads cost in writes: access times are coarse and batched.

import Foundation
import Primitives
import TestSupport
import Testing

@testable import CacheEngine

@Suite struct RecencyTests {
    /// Ranks with Zipf's law, exponent 0.99.
    private struct Zipf {
        private var sums: [Double] = []

        init(_ count: Int) {
            var total = 0.0
            for rank in 1...count {
                total += pow(Double(rank), -0.99)
                sums.append(total)
            }
        }

        func rank(_ random: inout SeededRandom) -> Int {
            let wanted = Double(random.below(1 << 30)) / Double(1 << 30) * (sums.last ?? 0)
            var low = 0
            var high = sums.count - 1
            while low < high {
                let middle = (low + high) / 2
                if sums[middle] < wanted { low = middle + 1 } else { high = middle }
            }
            return low
        }
    }

    /// Ten minutes of two hundred reads a second, a tenth of the keys in memory.
    @Test func `a read costs less than a twentieth of a write under Zipf's law`() throws {
        let keys = 2000
        let reads = 120_000
        let fixture = try EngineFixture { $0.memory.bytesMax = 40_000 }
        for number in 0..<keys { try fixture.cache.set([UInt8](repeating: 1, count: 100), forKey: "k\(number)") }
        fixture.settle()
        fixture.dropMemory()
        let zipf = Zipf(keys)
        var random = SeededRandom(seed: 5)
        for read in 0..<reads {
            #expect(fixture.cache.value(forKey: "k\(zipf.rank(&random))") != nil)
            if read % 64 == 0 { fixture.clock.advance(milliseconds: Int64(600_000 * 64 / reads)) }
            // The background trim, every minute.
            if read % (reads / 10) == 0 { fixture.settle() }
        }
        fixture.settle()
        let disk = try #require(fixture.cache.statistics().disk)
        #expect(disk.reads > reads / 10, "\(disk.reads) reads of the disk prove little")
        #expect(disk.recencyWrites < reads / 20, "\(disk.recencyWrites) writes for \(reads) reads")
        #expect(disk.recencyWrites > 100)
    }
}
