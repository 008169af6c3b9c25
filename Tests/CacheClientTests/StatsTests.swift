// cache-stats without a terminal: its command line, rates between samples, the page, and JSON.

import CacheClient
import Foundation
import Glibc
import Primitives
import Testing

@testable import CacheStats

private func sample(at milliseconds: Int64, _ values: [String: String]) -> Sample {
    let lines = values.sorted { $0.key < $1.key }.map { (name: $0.key, value: $0.value) }
    return Sample(time: Instant(milliseconds: milliseconds), statistics: Statistics(lines))
}

/// What a server of ours says.
private let ours = [
    "version": "1.6.99", "uptime": "273600", "pid": "12", "curr_connections": "3", "max_connections": "1024",
    "get_hits": "900", "get_misses": "100", "memory_hits": "700", "disk_hits": "200", "cmd_set": "500",
    "memory_entries": "1234",
    "memory_bytes": "33554432", "memory_limit_bytes": "67108864", "disk_state": "serving", "disk_entries": "4321",
    "disk_bytes": "104857600", "disk_limit_bytes": "1073741824", "disk_value_bytes": "90000000",
    "disk_index_bytes": "10000000",
    "disk_wal_bytes": "4096", "disk_file_bytes": "1000000", "disk_file_entries": "17", "journal_bytes": "16777216",
    "journal_used_bytes": "8388608", "evictions": "5", "promotions": "42", "disk_write_errors": "0",
    "disk_read_errors": "3",
]

@Suite("stats options")
struct StatsOptionsTests {
    private func request(_ line: String) throws -> StatsRequest {
        try StatsRequest(arguments: line.split(separator: " ").map(String.init))
    }

    @Test("accepted lines")
    func accepted() throws {
        #expect(try request("") == .show(StatsSettings()))
        #expect(try request("summary") == .show(StatsSettings()))
        var settings = StatsSettings()
        settings.address = .tcp(host: "h", port: 1)
        settings.view = .items
        settings.json = true
        settings.intervalMilliseconds = 500
        settings.samples = 3
        #expect(try request("items --json -w 0.5 h:1 -n 3") == .show(settings))
        #expect(try request("h:1 --nope".replacing(" --nope", with: " --help")) == .help)
        #expect(try request("-V") == .version)
        settings = StatsSettings()
        settings.address = .tcp(host: "summary", port: 11211)
        #expect(try request("summary:11211") == .show(settings))
    }

    @Test(
        "refused lines",
        arguments: [
            "--watch 0", "--watch x", "--watch inf", "--watch", "--count 3", "--watch 1 --count 0", "a b",
            "items slabs", "h:0", "--x",
        ])
    func refused(line: String) { #expect(throws: StatsUsageError.self) { try request(line) } }
}

@Suite("stats samples")
struct StatsSampleTests {
    @Test("rates are per second since the last sample, or since the start")
    func rates() {
        let before = sample(at: 1000, ["get_hits": "100", "get_misses": "50", "uptime": "10"])
        let now = sample(at: 3000, ["get_hits": "300", "get_misses": "50", "uptime": "12"])
        #expect(now.rate(["get_hits", "get_misses"], since: before) == 100)
        #expect(now.rate(["get_hits"], since: nil) == 25)
        #expect(now.rate(["absent"], since: before) == nil)
        #expect(now.share(["get_hits"], since: before) == 1)
        #expect(before.share(["get_hits"], since: nil) == 100.0 / 150)
        // A restart: counters went down.
        #expect(before.rate(["get_hits"], since: now) == nil)
        #expect(before.share(["get_hits"], since: now) == 100.0 / 150)
        // No time passed.
        #expect(now.rate(["get_hits"], since: now) == nil)
        #expect(sample(at: 0, ["get_hits": "1", "uptime": "0"]).rate(["get_hits"], since: nil) == nil)
    }

    @Test("hostile numbers do not trap")
    func hostile() {
        let large = sample(
            at: 2000, ["get_hits": "\(Int.max)", "get_misses": "\(Int.max)", "uptime": "\(Int.max)", "bytes": "-5"])
        let small = sample(at: 1000, ["get_hits": "\(Int.min)", "get_misses": "0", "uptime": "-1"])
        for (now, before) in [(large, small), (small, large), (large, large)] {
            _ = now.rate(["get_hits", "get_misses"], since: before)
            _ = now.share(["get_hits"], since: before)
            _ = Summary(sample: now, previous: before, address: .standard, usesColor: true).text
        }
    }

    @Test("JSON has numbers as numbers and everything else as strings")
    func json() throws {
        let odd = [
            "a": "12", "b": "0.25", "c": "1.6.99", "d": "007", "e": "", "f": "-3", "g": "yes \"quoted\" \\ \u{1}",
            "h": "1e5", "i": "nan",
            "j": "18446744073709551615",
        ]
        let text = sample(at: 0, odd).json
        let object = try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
        #expect(object.count == odd.count)
        #expect(object["a"] as? Int == 12 && object["b"] as? Double == 0.25 && object["f"] as? Int == -3)
        for name in ["c", "d", "e", "g", "h", "i"] { #expect(object[name] as? String == odd[name]) }
        #expect(text.contains("\"j\":18446744073709551615"))
        #expect(!text.contains("\n"))
        let twice = Sample(time: Instant(milliseconds: 0), statistics: Statistics([("x", "1"), ("x", "2")]))
        #expect(twice.json == "{\"x\":2}")
    }

    @Test("the page of a server of ours")
    func page() {
        let expected = """
            127.0.0.1:11211, version 1.6.99, up 3d 4h, pid 12
            Connections  3 of 1,024

                                      total   per second (mean)
            get                       1,000                0.00
            set                         500                0.00

            Hit ratio    [######################..] 90.00 % (memory 70.00 %, disk 20.00 %)
            Memory       [############............] 32.0 MiB of 64.0 MiB (50.00 %), 1,234 entries
            Disk         state serving
                         [##......................] 100 MiB of 1.00 GiB (9.77 %), 4,321 entries
                         values 85.8 MiB; index 9.53 MiB; log 4.00 KiB; files 976 KiB, 17 files
            Journal      [############............] 8.00 MiB of 16.0 MiB (50.00 %) waiting
            Removals     evicted 5, promoted 42
            Troubles     disk read errors: 3

            """
        #expect(
            Summary(sample: sample(at: 0, ours), previous: nil, address: .standard, usesColor: false).text == expected)
    }

    @Test("absent limits are no limits, absent tiers are left out, colour only on demand")
    func variants() {
        var values = ours
        values["disk_limit_bytes"] = nil
        values["disk_read_errors"] = "0"
        let page = Summary(sample: sample(at: 0, values), previous: nil, address: .standard, usesColor: true).text
        #expect(page.contains("100 MiB, no limit, 4,321 entries") && !page.contains("Troubles"))
        #expect(page.hasPrefix("\u{1B}[1m127.0.0.1:11211"))
        values["disk_state"] = "off"
        values["disk_bytes"] = nil
        let off = Summary(sample: sample(at: 0, values), previous: nil, address: .standard, usesColor: false).text
        #expect(off.contains("Disk         state off\n") && !off.contains("\u{1B}"))
        let empty = Summary(sample: sample(at: 0, [:]), previous: nil, address: .standard, usesColor: false).text
        #expect(empty.contains("Memory       unknown"))
        values["disk_last_error"] = "write v/00: No space left on device"
        let failing = Summary(sample: sample(at: 0, values), previous: nil, address: .standard, usesColor: false).text
        #expect(failing.contains("Troubles     last disk error: write v/00: No space left on device\n"))
    }

    @Test("exit codes: 69 without a server, 64 for a wrong line")
    func exitCodes() {
        let (descriptor, address) = boundSocket()
        defer { close(descriptor) }
        #expect(runStats(["\(address)"]) == 69)
        #expect(runStats(["--nope"]) == 64)
    }
}
