// The command line of cache-stats.

import Arguments
import CacheClient
import Primitives

/// What is shown.
enum StatsView: String, Sendable, CaseIterable {
    /// The page for people.
    case summary
    /// Everything that plain `stats` says, one line each.
    case all
    /// The groups of memcached's `stats` that tools know.
    case settings, items, slabs, sizes, conns
    /// The page for people, live on the whole screen.
    case top
    /// Histograms of request times.
    case hist
    /// The most requested keys, the largest entries, the slow log.
    case hot, big, slow
    /// Where a key is, and what is known about it.
    case explain
    /// Every option of the server as it is in force.
    case options
    /// Keys, of both tiers, that begin with some text.
    case keys
    /// What clients do, line by line.
    case watch
    /// Whether all is well, for monitoring.
    case check

    /// The word after `stats`; nil for plain `stats`.
    var group: String? {
        switch self {
        case .summary, .all, .top, .keys, .watch, .check: nil
        case .hist: "latency"
        case .settings, .items, .slabs, .sizes, .conns, .hot, .big, .slow, .explain, .options: rawValue
        }
    }

    /// Whether a word may follow that is no address: a key, or the beginning of keys.
    var takesWord: Bool { self == .explain || self == .keys }
}

/// What the command line asks for.
enum StatsRequest: Equatable, Sendable {
    case show(StatsSettings)
    case generate(String)
    case help
    case version
}

/// One invocation.
struct StatsSettings: Equatable, Sendable {
    var address = ServerAddress.standard
    var view = StatsView.summary
    var json = false
    /// The key of `explain`, or the beginning of the keys of `keys`.
    var word: String?
    /// `check` fails below this share (0...1) of hits in the last five minutes.
    var hitRatioMin: Double?
    /// `check` fails when the 99th percentile of a kind of request is above this.
    var latencyMax: TimeSpan?
    /// Who to say we are.
    var login: Login?
    /// How the connection is encrypted; nil: not at all.
    var encryption: EncryptionSettings?
    /// Milliseconds between samples; nil: one sample.
    var intervalMilliseconds: Int?
    /// Samples to show; nil: until interrupted.
    var samples: Int?
}

/// A command line that cannot be carried out; `description` says why.
struct StatsUsageError: Error, Equatable, Sendable, CustomStringConvertible {
    let description: String
}

/// The options of cache-stats.
enum StatsOption: Sendable {
    case json, watch, count, minHitRatio, maxLatency, generate, help, version
    case credential(CredentialOption)
}

/// The table behind parsing and `--help`.
let statsOptions = OptionTable<StatsOption>(
    program: "cache-stats", usage: "[OPTION]... [ADDRESS] [VIEW]",
    summary: "Shows what a memcached-compatible server is doing. ADDRESS is HOST:PORT, HOST or unix:PATH; "
        + "127.0.0.1:11211 unless given. VIEW is summary (the default), top, hist, hot, big, slow, explain KEY, "
        + "keys [PREFIX], watch, check, options, all, settings, items, slabs, sizes or conns.",
    groups: [
        OptionGroup(
            "Options",
            [
                Option(.json, long: "json", short: "j", help: "Print all values as one JSON object per sample."),
                Option(
                    .watch, long: "watch", short: "w", value: "SECONDS",
                    help: "Show it again and again, with rates since the last time."),
                Option(.count, long: "count", short: "n", value: "N", help: "With --watch: stop after N samples."),
                Option(
                    .minHitRatio, long: "min-hit-ratio", value: "PERCENT",
                    help: "With check: critical below so many hits in a hundred lookups of the last five minutes."),
                Option(
                    .maxLatency, long: "max-latency", value: "TIME",
                    help: "With check: warn when the 99th percentile of a kind of request is above this, such as 5ms."),
                Option(
                    .generate, long: "generate", value: "WHAT", choices: ["man"] + Shell.allCases.map(\.rawValue),
                    help: "Print the manual page or a shell completion, and exit."),
                Option(.help, long: "help", short: "h", help: "Print this text."),
                Option(.version, long: "version", short: "V", help: "Print the version."),
            ]),
        OptionGroup("Login and encryption", CredentialOption.options(as: StatsOption.credential)),
    ],
    footer: """
        A host that is named like a view needs its port: summary:11211. The environment variable
        NO_COLOR turns colours off.

        Exit codes: 0 done; 1 `keys` or `explain` found nothing; 64 usage; 69 the server is
        unavailable. Those of check are a monitoring plugin's: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.
        """, operands: StatsView.allCases.map(\.rawValue))

extension StatsRequest {
    /// Reads a command line without the program's name.
    ///
    /// - Throws: `StatsUsageError` with one line for people.
    init(arguments: [String]) throws(StatsUsageError) {
        let parsed: ParsedArguments<StatsOption>
        do throws(ArgumentsError) { parsed = try statsOptions.parse(arguments) } catch {
            throw StatsUsageError(description: error.description)
        }
        var settings = StatsSettings()
        var credentials = CredentialArguments()
        for occurrence in parsed.occurrences {
            let text = occurrence.value ?? ""
            switch occurrence.option.tag {
            case .help:
                self = .help
                return
            case .version:
                self = .version
                return
            case .json: settings.json = true
            case .generate:
                self = .generate(text)
                return
            case .minHitRatio:
                guard let percent = Double(text), percent >= 0, percent <= 100 else {
                    throw StatsUsageError(description: "--min-hit-ratio '\(text)' is not a number from 0 to 100")
                }
                settings.hitRatioMin = percent / 100
            case .maxLatency:
                do throws(QuantityError) { settings.latencyMax = try TimeSpan(parsing: text) } catch {
                    throw StatsUsageError(description: "--max-latency: \(error)")
                }
            case .credential(let option): credentials.take(option, value: occurrence.value)
            case .watch:
                guard let seconds = Double(text), seconds >= 0.05, seconds <= 86_400 else {
                    throw StatsUsageError(description: "--watch '\(text)' is not a number of seconds, 0.05 to 86400")
                }
                settings.intervalMilliseconds = Int(seconds * 1000)
            case .count:
                guard let samples = Int(text), samples > 0 else {
                    throw StatsUsageError(description: "--count '\(text)' is not a whole number above 0")
                }
                settings.samples = samples
            }
        }
        settings.encryption = credentials.encryption
        do throws(LoginError) { settings.login = try credentials.login() } catch {
            throw StatsUsageError(description: error.description)
        }
        try settings.take(parsed.operands)
        let isList = settings.view == .keys || settings.view == .watch
        if settings.samples != nil, settings.intervalMilliseconds == nil, !isList {
            throw StatsUsageError(description: "--count needs --watch")
        }
        self = .show(settings)
    }
}

extension StatsSettings {
    fileprivate mutating func take(_ operands: [String]) throws(StatsUsageError) {
        var hasAddress = false
        var hasView = false
        for operand in operands {
            if hasView, view.takesWord, word == nil {
                word = operand
                continue
            }
            if let view = StatsView(rawValue: operand) {
                if hasView { throw StatsUsageError(description: "more than one view: '\(operand)'") }
                hasView = true
                self.view = view
                if view == .top { intervalMilliseconds = intervalMilliseconds ?? 1000 }
                continue
            }
            if hasAddress { throw StatsUsageError(description: "more than one address: '\(operand)'") }
            hasAddress = true
            do throws(ServerAddressError) { address = try ServerAddress(parsing: operand) } catch {
                throw StatsUsageError(description: error.description)
            }
        }
        if view == .explain, word == nil { throw StatsUsageError(description: "explain needs a key") }
        if hitRatioMin != nil || latencyMax != nil, view != .check {
            throw StatsUsageError(description: "--min-hit-ratio and --max-latency need check")
        }
    }
}
