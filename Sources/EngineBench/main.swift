// engine-bench: the engine inside a process, next to Swift's dictionary with a lock and Foundation's NSCache.
//
//     engine-bench [rows|growth|scaling] [--entries N] [--json]
//
// Prints nanoseconds per call. `make bench-engine` runs it; docs/BENCHMARKS.md has the figures of one run.

import CacheEngine
import Glibc
import Primitives

/// A number with one decimal, aligned to the right.
func column(_ value: Double) -> String {
    let tenths = Int((value * 10).rounded())
    let text = "\(tenths / 10).\(tenths % 10)"
    return String(repeating: " ", count: max(0, 18 - text.count)) + text
}

func line(_ text: String) { StandardStream.output.write(text + "\n") }

func padded(_ text: String) -> String { text + String(repeating: " ", count: max(0, 26 - text.utf8.count)) }

/// A list of numbers as JSON.
func list(_ values: [Double]) -> String { "[" + values.map { "\($0)" }.joined(separator: ", ") + "]" }

func runRows(json: Bool) throws {
    let rows = EngineRows(keys: BenchKeys(count: 200_000), rounds: 5)
    let engine = try rows.run { try EngineCache(bytesMax: 1 << 30) }
    let dictionary = rows.run { LockedDictionary() }
    let foundation = rows.run { FoundationCache() }
    if json {
        return line(
            "{\"engine\": \(list(engine)), \"dictionary\": \(list(dictionary)), \"nscache\": \(list(foundation))}")
    }
    line(padded("ns per call") + "            engine  dictionary + lock           NSCache")
    for (index, name) in EngineRows.names.enumerated() {
        line(padded(name) + column(engine[index]) + column(dictionary[index]) + column(foundation[index]))
    }
}

func runGrowth(entries: Int, json: Bool) throws {
    let (mean, longest) = GrowthRow(entries: entries).run(try EngineCache(bytesMax: 1 << 36))
    if json { return line("{\"entries\": \(entries), \"mean_ns\": \(mean), \"longest_ns\": \(longest)}") }
    line("\(entries) stores of new entries: \(Int(mean)) ns each, the longest \(Int(longest / 1000)) us")
}

func runScaling(entries: Int, json: Bool) throws {
    var counts: [Int] = []
    var count = 10_000
    while count <= entries {
        counts.append(count)
        count *= 10
    }
    let costs = try ScalingRow(entries: counts, rounds: 3).run { try EngineCache(bytesMax: 1 << 36) }
    if json { return line("{\"entries\": \(counts), \"get_ns\": \(list(costs))}") }
    line(padded("entries") + "        ns per get")
    for (count, cost) in zip(counts, costs) { line(padded("\(count)") + column(cost)) }
}

var words = Array(CommandLine.arguments.dropFirst())
let json = words.contains("--json")
words.removeAll { $0 == "--json" }
var entries = 10_000_000
if let index = words.firstIndex(of: "--entries"), index + 1 < words.count {
    guard let given = Int(words[index + 1]), given > 0, given <= 100_000_000 else {
        StandardStream.error.write("engine-bench: --entries takes 1 to 100000000\n")
        exit(64)
    }
    entries = given
    words.removeSubrange(index...index + 1)
}
do {
    switch words.first ?? "rows" {
    case "rows": try runRows(json: json)
    case "growth": try runGrowth(entries: entries, json: json)
    case "scaling": try runScaling(entries: entries, json: json)
    default:
        StandardStream.error.write("usage: engine-bench [rows|growth|scaling] [--entries N] [--json]\n")
        exit(64)
    }
} catch {
    StandardStream.error.write("engine-bench: \(error)\n")
    exit(EXIT_FAILURE)
}
