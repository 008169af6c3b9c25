// The command line of cache-bench and its report.

import CacheClient
import Foundation
import Testing

@testable import CacheBench

@Suite("bench options")
struct BenchOptionsTests {
    private func settings(_ line: String) throws -> BenchSettings {
        guard case .run(let settings) = try BenchRequest(arguments: line.split(separator: " ").map(String.init)) else {
            throw BenchUsageError(description: "not a run")
        }
        return settings
    }

    @Test("defaults are those of the help text")
    func defaults() throws {
        let settings = try settings("")
        #expect(settings.address == .standard && settings.connections == 50 && settings.threads == 1)
        #expect(settings.pipeline == 1 && settings.setShare == 1 && settings.getShare == 10 && settings.keys == 100_000)
        #expect(settings.keyBytes == 16 && settings.valueSizes == .exactly(100) && settings.length == .seconds(10))
        #expect(settings.verify && !settings.warm && !settings.json && settings.rate == nil && settings.seed == 1)
    }

    @Test("every option")
    func everyOption() throws {
        let settings = try settings(
            "-c 8 -t 2 -P 16 --ratio 3:2 -k 5000 --key-prefix p/ --key-size 40 --value-size 1KiB-2KiB"
                + " --distribution zipf:0.99 -n 99 --rate 1000 --ttl 60 --warm --seed 7 --no-verify --json -q [::1]:99")
        #expect(settings.connections == 8 && settings.threads == 2 && settings.pipeline == 16)
        #expect(settings.setShare == 3 && settings.getShare == 2 && settings.keys == 5000 && settings.keyPrefix == "p/")
        #expect(
            settings.keyBytes == 40 && settings.valueSizes == .between(1024, 2048)
                && settings.distribution == .zipf(0.99))
        #expect(
            settings.length == .operations(99) && settings.rate == 1000 && settings.ttlSeconds == 60 && settings.warm)
        #expect(settings.seed == 7 && !settings.verify && settings.json && settings.quiet)
        #expect(settings.address == .tcp(host: "::1", port: 99))
    }

    @Test(
        "refused lines",
        arguments: [
            "--connections 0", "--connections x", "--threads 2 --connections 1", "--pipeline 0", "--ratio 1",
            "--ratio 0:0",
            "--ratio -1:2", "--ratio 1:2:3", "--keys 0", "--keys 4000000001", "--key-size 10", "--key-size 251",
            "--value-size 65MiB", "--value-size 5-4", "--value-size huge", "--value-size 1-", "--distribution zipf",
            "--distribution zipf:0", "--distribution zipf:nan", "--seconds 0", "--seconds inf", "--operations -1",
            "--rate 0",
            "--ttl -1", "--seed -1", "--nope", "--key-prefix", "a b", "unix:", "--threads 9 --keys 8",
        ])
    func refused(line: String) {
        let error = #expect(throws: BenchUsageError.self) { try settings(line) }
        #expect(error?.description.isEmpty == false && error?.description != "not a run")
    }

    @Test("help and version win over the rest of the line")
    func help() throws {
        if case .help = try BenchRequest(arguments: ["-c", "3", "--help"]) {} else { Issue.record("no help") }
        if case .version = try BenchRequest(arguments: ["-V"]) {} else { Issue.record("no version") }
        for option in benchOptions.options { #expect(benchOptions.helpText.contains(option.name)) }
        #expect(benchOptions.helpText.split(separator: "\n").allSatisfy { $0.count <= 100 })
    }

    @Test(
        "texts of sizes and distributions read back",
        arguments: ["100", "1-2", "web", "session", "thumb", "chunk", "llm"])
    func texts(text: String) throws {
        #expect(try #require(ValueSizes(parsing: text)).description == text)
        #expect(KeyDistribution(parsing: "zipf:1.5")?.description == "zipf:1.5")
        #expect(KeyDistribution(parsing: "uniform")?.description == "uniform")
    }

    @Test("the report is a JSON object with settings, seed and percentiles")
    func report() throws {
        var load = PhaseResult()
        load.tally.gets = 10
        load.tally.hits = 9
        load.tally.sets = 1
        load.tally.torn = 2
        load.tally.remarks = ["key 1: \"torn\"\r\n"]
        load.getLatency.record(1500, times: 10)
        load.setLatency.record(2500, times: 1)
        load.seconds = 2
        load.ownSeconds = 1
        var settings = BenchSettings()
        settings.seed = 77
        let report = BenchReport(settings: settings, serverVersion: "1.6.99", warm: load, load: load)
        let object = try #require(
            try JSONSerialization.jsonObject(with: Data(report.json.utf8)) as? [String: Any])
        #expect((object["settings"] as? [String: Any])?["seed"] as? Int == 77)
        #expect(object["wrong"] as? Int == 4)
        let phase = try #require(object["load"] as? [String: Any])
        #expect(phase["operations"] as? Int == 11 && phase["operations_per_second"] as? Double == 5.5)
        let latency = try #require((phase["latency_us"] as? [String: Any])?["all"] as? [String: Any])
        #expect(latency["max"] as? Double == 2.5 && latency["count"] as? Int == 11)
        #expect((phase["remarks"] as? [String]) == ["key 1: \"torn\"\r\n"])
        #expect(report.text.contains("WRONG: 4 replies") && report.text.contains("hits 9 (90.00 %)"))
        #expect(report.text.contains("50 % of one core"))
    }
}
