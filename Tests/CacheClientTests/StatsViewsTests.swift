// The views of cache-stats without a server: lists, the live page, the verdicts of check, the command line.

import CacheClient
import Foundation
import Primitives
import Testing

@testable import CacheStats

private func statistics(_ text: String) -> Statistics {
    Statistics(
        text.split(separator: "\n").map { line in
            let words = line.split(separator: " ", maxSplits: 1)
            return (name: String(words[0]), value: words.count > 1 ? String(words[1]) : "")
        })
}

private func listing(_ view: StatsView, _ text: String) -> Listing {
    Listing(view, Sample(time: Instant(milliseconds: 0), statistics: statistics(text)))
}

struct ListingTests {
    @Test("keys are decoded, and what moves a terminal's cursor is not printed")
    func keys() {
        #expect(Listing.decoded("a%20b%25%zz%4") == "a b%%zz%4")
        #expect(Listing.decoded("%1b[2J%c3%a9%c2%9b").printable == "\\x1b[2Jé\\x9b")
        let hot = listing(.hot, "1:key a%20b\n1:per_second 12.345\n1:error 0.000\n2:key 7\n2:per_second 1\n2:error 1")
        #expect(hot.text.contains("a b  12.3"))
        #expect(
            hot.json == #"[{"key":"a b","per_second":12.345,"error":0.000},{"key":"7","per_second":1,"error":1}]"#)
        #expect(listing(.hot, "").text == "none\n" && listing(.big, "").json == "[]")
    }

    @Test("a histogram has a line for each power of two, the longest bar for the most")
    func histogram() {
        let text = listing(
            .hist, "get_miss:count 7\nget_miss:p50_us 1.5\nget_miss:buckets_ns 1280:1,1536:2,2048:1,4096:2,inf:1"
        ).text
        let lines = text.split(separator: "\n")
        #expect(lines[0] == "get miss: 7 requests, p50 1.5 us")
        #expect(lines.count == 4 && lines[1].hasPrefix("    < 2.0 us  \(String(repeating: "#", count: 50)) 57.14 %"))
        #expect(lines[3].contains("more  ############ 14.29 %"))
    }
}

struct TopPageTests {
    private func page() -> TopPage {
        var page = TopPage(address: .standard, usesColor: false)
        for second in 0..<3 {
            let sample = Sample(
                time: Instant(milliseconds: Int64(second) * 1000),
                statistics: statistics(
                    "uptime 9\nget_hits \(second * 80)\nget_misses \(second * 20)\n"
                        + "memory_bytes 5\nmemory_limit_bytes 10"
                ))
            page.take(
                sample,
                windows: statistics("10s:hit_ratio 0.8\n10s:memory_hit_ratio 0.5\n10s:disk_hit_ratio 0.3"),
                latency: statistics("get_miss:count 3\nget_miss:p99_us 12"), hot: statistics("1:key k\n1:per_second 4"))
        }
        return page
    }

    @Test("the page fits any terminal", arguments: [(80, 24), (20, 5), (200, 60), (1, 1)])
    func fits(width: Int, height: Int) {
        let lines = page().lines(width: width, height: height)
        #expect(!lines.isEmpty && lines.count <= height && lines.allSatisfy { $0.count <= width })
    }

    @Test("it shows ratios, limits, rates, times and hot keys; and a server that does not answer")
    func contents() {
        var page = page()
        let text = page.lines(width: 100, height: 40).joined(separator: "\n")
        for part in ["80.00 %", "memory 50.00 %", "50.00 %", "get 100", "get miss", "12.0 us", "4.00  k", "██"] {
            #expect(text.contains(part), "\(part) in\n\(text)")
        }
        page.fail("gone")
        #expect(page.lines(width: 100, height: 40)[0].contains("gone"))
    }
}

struct CheckTests {
    private func verdict(
        _ arguments: [String], _ text: String = "disk_state ok", windows: String? = "5m:hit_ratio 0.75",
        latency: String? = "get_memory_hit:p99_us 900\nset_done:p99_us 2500"
    ) throws -> (Check.Verdict, String) {
        guard case .show(let settings) = try StatsRequest(arguments: ["check"] + arguments) else {
            throw CocoaError(.featureUnsupported)
        }
        return Check(settings: settings).judge(
            statistics(text), windows: windows.map(statistics), latency: latency.map(statistics))
    }

    @Test("bounds that hold are OK, others say what is wrong and how badly")
    func verdicts() throws {
        let fine = try verdict(["--min-hit-ratio", "75", "--max-latency", "3ms"])
        #expect(fine == (.ok, "all is well | hit_ratio=75.00% p99=2500us"))
        #expect(try verdict(["--min-hit-ratio", "76"]).0 == .critical)
        let slow = try verdict(["--max-latency", "2ms"])
        #expect(slow.0 == .warning && slow.1.hasPrefix("p99 of set_done 2.5 ms above 2ms"))
        #expect(try verdict([], "disk_state degraded").0 == .critical)
        #expect(try verdict([], "disk_state off").0 == .ok)
        #expect(try verdict([], "disk_read_errors 1").0 == .warning)
        #expect(try verdict(["--min-hit-ratio", "1"], windows: nil).0 == .unknown)
        #expect(try verdict(["--min-hit-ratio", "1"], "disk_state full", windows: nil).0 == .critical)
        #expect(try verdict(["--min-hit-ratio", "1"], windows: "").0 == .ok, "nothing asked yet")
    }

    @Test("words after explain and keys are theirs; options that need a view say so")
    func commandLine() throws {
        guard case .show(let settings) = try StatsRequest(arguments: ["host:1", "explain", "top"]) else {
            throw CocoaError(.featureUnsupported)
        }
        #expect(settings.view == .explain && settings.word == "top" && settings.address.description == "host:1")
        for line in [["explain"], ["--max-latency", "1ms"], ["check", "--min-hit-ratio", "101"], ["hot", "top"]] {
            #expect(throws: StatsUsageError.self, "\(line)") { try StatsRequest(arguments: line) }
        }
    }
}
