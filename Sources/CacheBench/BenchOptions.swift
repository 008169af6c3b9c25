// The command line of cache-bench: the table, and how its values become settings.

import Arguments
import CacheClient
import Primitives

/// The options of cache-bench.
enum BenchOption: Sendable {
    case connections, threads, pipeline, ratio, keys, keyPrefix, keySize, valueSize, distribution, seconds, operations
    case rate, ttl, warm, seed, verify, noVerify, json, quiet, generate, help, version
    case credential(CredentialOption)
}

/// What the command line asks for.
enum BenchRequest: Sendable {
    case run(BenchSettings)
    case generate(String)
    case help
    case version
}

/// A command line that cannot be carried out; `description` says why.
struct BenchUsageError: Error, Equatable, Sendable, CustomStringConvertible {
    let description: String
}

/// The table behind parsing and `--help`.
let benchOptions = OptionTable<BenchOption>(
    program: "cache-bench", usage: "[OPTION]... [ADDRESS]",
    summary: "Loads a memcached-compatible server and checks every value that comes back. "
        + "ADDRESS is HOST:PORT, HOST or unix:PATH; 127.0.0.1:11211 unless given.",
    groups: [
        OptionGroup(
            "Load",
            [
                Option(.connections, long: "connections", short: "c", value: "N", help: "Connections in all (50)."),
                Option(.threads, long: "threads", short: "t", value: "N", help: "Threads that share them (1)."),
                Option(
                    .pipeline, long: "pipeline", short: "P", value: "N",
                    help: "Requests sent together on a connection before their replies are awaited (1)."),
                Option(.ratio, long: "ratio", value: "SET:GET", help: "Mix of sets and gets (1:10)."),
                Option(.seconds, long: "seconds", short: "s", value: "S", help: "Length of the run (10)."),
                Option(
                    .operations, long: "operations", short: "n", value: "N", help: "Stop after N operations instead."),
                Option(
                    .rate, long: "rate", value: "N",
                    help: "Send N operations per second in all; latency then counts from when each was due."),
                Option(.warm, long: "warm", help: "Set every key once before the measured run."),
            ]),
        OptionGroup(
            "Keys and values",
            [
                Option(.keys, long: "keys", short: "k", value: "N", help: "Number of different keys (100000)."),
                Option(.keyPrefix, long: "key-prefix", value: "TEXT", help: "Beginning of every key (bench:)."),
                Option(.keySize, long: "key-size", value: "BYTES", help: "Length of every key (16, or as needed)."),
                Option(
                    .valueSize, long: "value-size", value: "SIZE",
                    help: "SIZE, MIN-MAX, or a shape: web, session, thumb, chunk, llm (100)."),
                Option(
                    .distribution, long: "distribution", value: "NAME",
                    help: "uniform, or zipf:S with exponent S, key 0 being the hottest (uniform)."),
                Option(.ttl, long: "ttl", value: "SECONDS", help: "Expiry time of values; 0 is never (0)."),
            ]),
        OptionGroup("Login and encryption", CredentialOption.options(as: BenchOption.credential)),
        OptionGroup(
            "Other",
            [
                Option(.seed, long: "seed", value: "N", help: "Same seed, same load (1)."),
                Option(.verify, long: "verify", help: "Check every value; this is the default."),
                Option(.noVerify, long: "no-verify", help: "Count replies without looking at their values."),
                Option(.json, long: "json", help: "Print settings and results as one JSON object."),
                Option(.quiet, long: "quiet", short: "q", help: "No progress line."),
                Option(
                    .generate, long: "generate", value: "WHAT", choices: ["man"] + Shell.allCases.map(\.rawValue),
                    help: "Print the manual page or a shell completion, and exit."),
                Option(.help, long: "help", short: "h", help: "Print this text."),
                Option(.version, long: "version", short: "V", help: "Print the version."),
            ]),
    ],
    footer: """
        Sizes take B, KiB, MiB and GiB. One cache-bench per key prefix at a time, or each will call the
        other's values stale.

        Exit codes: 0 done; 1 a wrong value or reply was found; 64 usage; 69 the server is unavailable.
        """)

extension BenchRequest {
    /// Reads a command line without the program's name.
    ///
    /// - Throws: `BenchUsageError` with one line for people.
    init(arguments: [String]) throws(BenchUsageError) {
        let parsed: ParsedArguments<BenchOption>
        do throws(ArgumentsError) { parsed = try benchOptions.parse(arguments) } catch {
            throw BenchUsageError(description: error.description)
        }
        var settings = BenchSettings()
        var keyBytes: Int?
        var credentials = CredentialArguments()
        for occurrence in parsed.occurrences {
            switch occurrence.option.tag {
            case .help:
                self = .help
                return
            case .version:
                self = .version
                return
            case .generate:
                self = .generate(occurrence.value ?? "")
                return
            case .keySize: keyBytes = try number(occurrence, 1...250)
            case .credential(let option): credentials.take(option, value: occurrence.value)
            default: try settings.apply(occurrence)
            }
        }
        if parsed.operands.count > 1 { throw BenchUsageError(description: "more than one address") }
        if let text = parsed.operands.first {
            do throws(ServerAddressError) { settings.address = try ServerAddress(parsing: text) } catch {
                throw BenchUsageError(description: error.description)
            }
        }
        do throws(LoginError) { settings.login = try credentials.login() } catch {
            throw BenchUsageError(description: error.description)
        }
        if let encryption = credentials.encryption {
            do throws(EncryptionError) { settings.encryption = try Encryption(encryption) } catch {
                throw BenchUsageError(description: error.description)
            }
        }
        try settings.complete(keyBytes: keyBytes)
        self = .run(settings)
    }
}

private typealias Occurrence = ParsedArguments<BenchOption>.Occurrence

extension BenchSettings {
    fileprivate mutating func apply(_ occurrence: Occurrence) throws(BenchUsageError) {
        let text = occurrence.value ?? ""
        switch occurrence.option.tag {
        case .connections: connections = try number(occurrence, 1...100_000)
        case .threads: threads = try number(occurrence, 1...256)
        case .pipeline: pipeline = try number(occurrence, 1...100_000)
        case .keys: keys = try number(occurrence, 1...4_000_000_000)
        case .operations: length = .operations(try number(occurrence, 0...Int.max))
        case .ttl: ttlSeconds = try number(occurrence, 0...2_592_000)
        case .seed: seed = UInt64(try number(occurrence, 0...Int.max))
        case .rate: rate = Double(try number(occurrence, 1...1_000_000_000))
        case .seconds:
            guard let seconds = Double(text), seconds > 0, seconds <= 31_536_000 else {
                throw refusal(occurrence, "a number above 0, up to a year")
            }
            length = .seconds(seconds)
        case .ratio:
            let parts = text.split(separator: ":", omittingEmptySubsequences: false).map { Int($0) ?? -1 }
            guard parts.count == 2, parts.allSatisfy({ $0 >= 0 && $0 <= 1_000_000 }), parts[0] + parts[1] > 0 else {
                throw refusal(occurrence, "two whole numbers such as 1:10, one of them above 0")
            }
            (setShare, getShare) = (parts[0], parts[1])
        case .keyPrefix: keyPrefix = text
        case .valueSize:
            guard let sizes = ValueSizes(parsing: text) else {
                throw refusal(occurrence, "a size up to 64MiB, MIN-MAX, web, session, thumb, chunk or llm")
            }
            valueSizes = sizes
        case .distribution:
            guard let choice = KeyDistribution(parsing: text) else {
                throw refusal(occurrence, "uniform, or zipf:S with S above 0 and up to 5")
            }
            distribution = choice
        case .warm: warm = true
        case .verify: verify = true
        case .noVerify: verify = false
        case .json: json = true
        case .quiet: quiet = true
        case .keySize, .credential, .generate, .help, .version: break
        }
    }

    /// Checks what no single option can tell, and sets the key size.
    fileprivate mutating func complete(keyBytes wanted: Int?) throws(BenchUsageError) {
        if !keyPrefix.utf8.allSatisfy({ $0 > 32 && $0 != 127 }) {
            throw BenchUsageError(description: "--key-prefix has a space or control character in it")
        }
        let needed = keyPrefix.utf8.count + Self.digits(keys: keys)
        keyBytes = wanted ?? max(16, needed)
        if keyBytes < needed || keyBytes > 250 {
            throw BenchUsageError(
                description:
                    "keys of \(needed) to 250 bytes have room for the prefix and the number, not of \(keyBytes)")
        }
        if connections < threads { throw BenchUsageError(description: "each thread needs a connection") }
        if keys < threads { throw BenchUsageError(description: "each thread needs a key") }
    }
}

private func number(_ occurrence: Occurrence, _ range: ClosedRange<Int>) throws(BenchUsageError) -> Int {
    guard let number = Int(occurrence.value ?? ""), range.contains(number) else {
        let most = range.upperBound == .max ? "" : " to \(range.upperBound)"
        throw refusal(occurrence, "a whole number of \(range.lowerBound)\(most.isEmpty ? " or more" : most)")
    }
    return number
}

private func refusal(_ occurrence: Occurrence, _ wanted: String) -> BenchUsageError {
    BenchUsageError(description: "\(occurrence.option.name) '\(occurrence.value ?? "")' is not \(wanted)")
}
