// The parts of the load generator that need no server: histogram, distributions, values, versions, replies.

import Foundation
import Glibc
import Testing

@testable import CacheBench

@Suite("histogram")
struct HistogramTests {
    @Test("buckets are contiguous and never wider than 1/64 of their values")
    func buckets() {
        var value: UInt64 = 0
        var bucket = 0
        while value < 1 << 36 {
            #expect(Histogram.bucket(of: value) == bucket)
            let edge = Histogram.upperEdge(of: bucket)
            #expect(edge >= value && Histogram.bucket(of: edge) == bucket)
            #expect(value < 64 ? edge == value : Double(edge - value) < Double(value) / 64)
            value = edge + 1
            bucket += 1
        }
        #expect(Histogram.bucket(of: 1 << 36 - 1) == bucket - 1)
    }

    @Test("quantiles lie at most 1.6 % above the exact ones", arguments: [1, 2, 3, 100, 9999])
    func quantiles(count: Int) {
        var random = RandomSource(seed: UInt64(count), stream: 0)
        var histogram = Histogram()
        let values = (0..<count).map { _ in UInt64(exp(random.unit() * 22)) }
        for value in values { histogram.record(value, times: 1) }
        let sorted = values.sorted()
        for fraction in [0, 0.001, 0.5, 0.9, 0.99, 0.999, 1] {
            let rank = max(Int((fraction * Double(count)).rounded(.up)), 1)
            let exact = sorted[rank - 1]
            let found = histogram.quantile(fraction)
            #expect(found >= exact && Double(found) <= Double(exact) * 1.016 + 1, "\(fraction): \(found) for \(exact)")
        }
        #expect(histogram.max == sorted.last && histogram.count == UInt64(count))
        #expect(
            abs(histogram.mean - values.map { Double($0) }.reduce(0, +) / Double(count)) < 1e-6 * histogram.mean + 1e-9)
    }

    @Test("nothing recorded, values out of range, and sums")
    func edges() {
        var histogram = Histogram()
        #expect(histogram.quantile(0.5) == 0 && histogram.mean == 0 && histogram.max == 0)
        histogram.record(.max, times: 1)
        #expect(histogram.max == .max && histogram.quantile(0.5) == 1 << 36 - 1)
        var other = Histogram()
        other.record(10, times: 3)
        histogram.add(other)
        #expect(histogram.count == 4 && histogram.quantile(0.75) == 10 && histogram.quantile(0.76) > 10)
    }
}

@Suite("distributions")
struct DistributionTests {
    @Test(
        "Zipf ranks are as frequent as they should be", arguments: [0.5, 0.7, 0.99, 1.0, 1.01, 1.5, 2.5],
        [1, 2, 10, 1000])
    func zipf(exponent: Double, count: Int) {
        let zipf = Zipf(count: count, exponent: exponent)
        var random = RandomSource(seed: 7, stream: 0)
        var counts = [Int](repeating: 0, count: count + 1)
        let draws = 200_000
        for _ in 0..<draws { counts[zipf.rank(&random)] += 1 }
        let weights = (1...count).map { pow(Double($0), -exponent) }
        let sum = weights.reduce(0, +)
        for rank in Set([1, 2, 3, count / 2, count]) where rank >= 1 && rank <= count {
            let expected = Double(draws) * weights[rank - 1] / sum
            // Five standard deviations of a count: a right generator fails once in a million.
            #expect(abs(Double(counts[rank]) - expected) < 5 * expected.squareRoot() + 1, "rank \(rank)")
        }
        #expect(counts[0] == 0)
    }

    @Test("Zipf over four billion keys stays in range")
    func wideZipf() {
        let zipf = Zipf(count: 4_000_000_000, exponent: 0.99)
        var random = RandomSource(seed: 1, stream: 0)
        let ranks = (0..<10_000).map { _ in zipf.rank(&random) }
        #expect(ranks.allSatisfy { $0 >= 1 && $0 <= 4_000_000_000 } && Set(ranks).count > 1000)
    }

    @Test("one seed is one load, streams differ")
    func seeds() {
        func draw(_ seed: UInt64, _ stream: UInt64) -> [UInt64] {
            var random = RandomSource(seed: seed, stream: stream)
            return (0..<4).map { _ in random.next() }
        }
        #expect(draw(1, 0) == draw(1, 0) && draw(1, 0) != draw(2, 0) && draw(1, 0) != draw(1, 1))
        var random = RandomSource(seed: 3, stream: 0)
        var counts = [Int](repeating: 0, count: 10)
        for _ in 0..<100_000 { counts[Int(random.below(10))] += 1 }
        #expect(counts.allSatisfy { abs($0 - 10_000) < 500 })
    }

    @Test(
        "shapes have the quantiles that they are named for",
        arguments: [
            (.web, 0.5, 224), (.session, 0.5, 2048), (.thumb, 0.5, 13_000), (.thumb, 0.9, 78_000),
            (.thumb, 0.99, 274_000),
            (.llm, 0.5, 20_000), (.between(100, 200), 0.5, 150), (.chunk, 0.5, 741_455),
        ] as [(ValueSizes, Double, Double)])
    func shapes(sizes: ValueSizes, fraction: Double, bytes: Double) {
        let table = sizes.table
        #expect(table.count == 4096 && table == table.sorted())
        #expect(abs(Double(table[Int(fraction * 4096)]) / bytes - 1) < 0.02)
    }

    @Test("a range covers both ends evenly")
    func range() throws {
        let table = try #require(ValueSizes(parsing: "1-4")).table
        #expect(Dictionary(grouping: table) { $0 }.mapValues(\.count) == [1: 1024, 2: 1024, 3: 1024, 4: 1024])
    }

    @Test("mixes and warming")
    func source() {
        var settings = BenchSettings()
        settings.keys = 101
        settings.threads = 3
        settings.setShare = 1
        settings.getShare = 3
        var warmed: [UInt32] = []
        for thread in 0..<3 {
            var warm = RequestSource(warm: settings, thread: thread)
            while warm.reserve(1) == 1 {
                let next = warm.next()
                #expect(next.isSet && next.key % 3 == UInt32(thread))
                warmed.append(next.key)
            }
            var load = RequestSource(load: settings, thread: thread, remaining: 40_000)
            #expect(load.reserve(30_000) == 30_000 && load.reserve(30_000) == 10_000 && load.reserve(1) == 0)
            let all = (0..<40_000).map { _ in load.next() }
            let sets = all.filter(\.isSet)
            #expect(abs(sets.count - 10_000) < 500)
            #expect(sets.allSatisfy { $0.key % 3 == UInt32(thread) } && all.allSatisfy { $0.key < 101 })
            #expect(Set(all.filter { !$0.isSet }.map(\.key)).count == 101)
        }
        #expect(warmed.sorted() == Array(0..<101))
    }
}

@Suite("values and versions")
struct ValueTests {
    private func value(_ pattern: ValuePattern, _ key: UInt32, _ version: UInt32) -> [UInt8] {
        let count = pattern.bytes(of: key, version)
        var bytes = [UInt8](repeating: 0, count: count + 1)
        bytes.withUnsafeMutableBytes { room in
            if let base = room.baseAddress { pattern.write(key, version, count, to: base) }
        }
        return Array(bytes.prefix(count))
    }

    private func check(_ pattern: ValuePattern, _ key: UInt32, _ bytes: [UInt8]) -> ValuePattern.Verdict {
        // The byte more makes the buffer's address exist for empty values too.
        (bytes + [0]).withUnsafeBytes { $0.baseAddress.map { pattern.check(key, $0, bytes.count) } ?? .foreign }
    }

    @Test("values of all sizes are right until one bit is not", arguments: [0, 1, 23, 24, 25, 100, 1000])
    func everyBit(size: Int) {
        let pattern = ValuePattern(sizes: .exactly(size), run: 9)
        let right = value(pattern, 5, 3)
        #expect(right.count == size)
        #expect(check(pattern, 5, right) == .intact(version: size < 24 ? 0 : 3, isOurs: true))
        for bit in 0..<size * 8 {
            var wrong = right
            wrong[bit / 8] ^= 1 << (bit % 8)
            switch check(pattern, 5, wrong) {
            case .torn, .foreign: break
            case .intact: Issue.record("bit \(bit) of \(size) bytes went unnoticed")
            }
        }
    }

    @Test("every shorter or longer value is wrong")
    func everyLength() {
        let pattern = ValuePattern(sizes: .exactly(200), run: 9)
        let right = value(pattern, 5, 3)
        for count in 0..<200 {
            if case .intact(_, let isOurs) = check(pattern, 5, Array(right.prefix(count))) {
                // Nothing is a beginning of everything; as a value of an earlier run it is stale or miss-like.
                #expect(count == 0 && !isOurs)
            }
        }
        #expect(check(pattern, 5, right + [0]) == .torn(at: 200))
    }

    @Test("another key's value is foreign, another run's is not ours")
    func others() {
        let pattern = ValuePattern(sizes: .between(100, 5000), run: 9)
        let other = ValuePattern(sizes: .exactly(10_000), run: 8)
        for key in UInt32(0)..<200 {
            let bytes = value(pattern, key, 7)
            #expect(check(pattern, key, bytes) == .intact(version: 7, isOurs: true))
            #expect(check(pattern, key + 1, bytes) == .foreign)
            #expect(check(other, key, bytes) == .intact(version: 7, isOurs: false))
            #expect(check(pattern, key, value(other, key, 2)) == .intact(version: 2, isOurs: false))
        }
    }

    @Test("what may be called stale")
    func staleness() {
        let states = KeyStates(count: 2)
        #expect(states.floor(0) == 0)
        let first = states.issue(0)
        #expect(first.version == 1 && states.floor(0) == 0)
        states.answer(0, first, stored: true)
        #expect(states.floor(0) == 1)
        // Two sets on their way: the server may apply them in either order.
        let second = states.issue(0)
        let third = states.issue(0)
        #expect(second.version == 2 && third.version == 3)
        states.answer(0, third, stored: true)
        #expect(states.floor(0) == 1)
        states.answer(0, second, stored: true)
        #expect(states.floor(0) == 2)
        let fourth = states.issue(0)
        states.answer(0, fourth, stored: false)
        #expect(states.floor(0) == 2)
        let fifth = states.issue(0)
        states.answer(0, fifth, stored: true)
        #expect(states.floor(0) == 5)
        // A set without an answer may be applied at any time, so nothing more can be concluded for that key.
        _ = states.issue(0)
        let last = states.issue(0)
        states.answer(0, last, stored: true)
        #expect(states.floor(0) == 5 && states.floor(1) == 0)
    }
}

@Suite("bench replies")
struct ReplyScanTests {
    private func scanGet(_ text: String, key: String = "k0") -> ReplyScan {
        let head = Array("VALUE \(key)".utf8)
        let bytes = Array(text.utf8)
        return (bytes + [0]).withUnsafeBufferPointer { bytes in
            head.withUnsafeBufferPointer { head in
                guard let base = bytes.baseAddress, let headBase = head.baseAddress else { return .malformed }
                return .ofGet(base, bytes.count - 1, head: headBase, headCount: head.count)
            }
        }
    }

    private func scanSet(_ text: String) -> ReplyScan {
        (Array(text.utf8) + [0]).withUnsafeBufferPointer { bytes in
            bytes.baseAddress.map { .ofSet($0, bytes.count - 1) } ?? .malformed
        }
    }

    @Test(
        "replies, cut at every byte, are incomplete until they are whole",
        arguments: [
            ("VALUE k0 0 5\r\nhello\r\nEND\r\n", .value(offset: 14, count: 5, length: 26)),
            ("VALUE k0 0 0\r\n\r\nEND\r\n", .value(offset: 14, count: 0, length: 21)),
            ("VALUE k0 0 12\r\nhello\r\nEND\r\n\r\nEND\r\n", .value(offset: 15, count: 12, length: 34)),
            ("END\r\n", .miss), ("SERVER_ERROR out of memory\r\n", .refused(length: 28)),
            ("ERROR\r\n", .refused(length: 7)),
        ] as [(String, ReplyScan)])
    func gets(text: String, whole: ReplyScan) {
        for count in 0..<text.utf8.count {
            guard case .incomplete(let wanted) = scanGet(String(decoding: text.utf8.prefix(count), as: UTF8.self))
            else {
                Issue.record("\(count) bytes of \(text.debugDescription) are not incomplete")
                continue
            }
            #expect(wanted > count && wanted <= text.utf8.count)
        }
        #expect(scanGet(text) == whole)
        #expect(scanGet(text + "VALUE") == whole)
    }

    @Test(
        "nonsense",
        arguments: [
            "VALUE k1 0 5\r\n", "VALUE k0x 0 5\r\n", "VALUE k0 1 5\r\n", "VALUE k0 0 x\r\n", "VALUE k0 0 \r\n",
            "VALUE k0 0 5\rX",
            "VALUE k0 0 5\r\nhelloXXEND\r\n", "VALUE k0 0 1234567890\r\n", "VALUE k0 0 -1\r\n", "STORED\r\n", "x",
            "\r\n", "END \r\n",
            String(repeating: "ERROR", count: 500),
        ])
    func malformed(text: String) { #expect(scanGet(text) == .malformed) }

    @Test("set replies")
    func sets() {
        #expect(scanSet("STORED\r\n") == .stored)
        for count in 0..<8 {
            guard
                case .incomplete(let wanted) = scanSet(String(decoding: "STORED\r\n".utf8.prefix(count), as: UTF8.self))
            else {
                Issue.record("\(count)")
                continue
            }
            #expect(wanted > count && wanted <= 8)
        }
        #expect(scanSet("NOT_STORED\r\n") == .refused(length: 12))
        #expect(scanSet("SERVER_ERROR x\r\n") == .refused(length: 16))
        #expect(
            scanSet("END\r\n") == .malformed && scanSet("DELETED\r\n") == .malformed
                && scanSet("STORED \r\n") == .malformed)
    }
}
