// Asks, draws, and with --watch does it again. Exit codes are those of sysexits.h, and for `check` a monitoring
// plugin's.

import Arguments
import CacheClient
import Glibc
import Primitives

/// Does what the arguments say and returns the exit code.
func runStats(_ arguments: [String]) -> Int32 {
    do throws(StatsUsageError) {
        switch try StatsRequest(arguments: arguments) {
        case .help:
            StandardStream.output.write(statsOptions.helpText)
            return 0
        case .version:
            StandardStream.output.write("cache-stats \(productVersion)\n")
            return 0
        case .generate(let name):
            guard let text = name == "man" ? statsOptions.manualPage(statsManual) : completion(name) else {
                throw StatsUsageError(description: "--generate '\(name)' is not man, bash, zsh or fish")
            }
            StandardStream.output.write(text)
            return 0
        case .show(let settings):
            return show(settings)
        }
    } catch {
        StandardStream.error.write("cache-stats: \(error)\nTry 'cache-stats --help'.\n")
        return EX_USAGE
    }
}

private func completion(_ name: String) -> String? { Shell(rawValue: name).map { statsOptions.completion(for: $0) } }

/// What the manual page says beside the options.
private let statsManual = ManualText(
    section: 1, version: "cache-daemon \(productVersion)", purpose: "shows what a memcached-compatible server is doing",
    chapters: [
        (
            "Views",
            """
            summary: tiers, hit ratio by tier over 10 seconds, 5 minutes and since the start, times, disk, troubles. \
            top: the same, live on the whole screen; q leaves. hist: histograms of request times by command and \
            outcome. hot, big, slow: the most requested keys, the largest entries, the slow log. explain KEY: tier, \
            size, age and time to live of an entry. keys [PREFIX]: keys of both tiers. watch: what clients do, line \
            by line. check: one line and an exit code for monitoring. options: every option in force. all, settings, \
            items, slabs, sizes, conns: what the server's stats command says.
            """
        ),
        (
            "Examples",
            """
                cache-stats top
                cache-stats 10.0.0.7:11211 check --min-hit-ratio 80 --max-latency 5ms
                cache-stats explain session:4711
            """
        ),
    ], seeAlso: ["cache-daemon(8)", "cache-bench(1)"])

/// Shows one sample, or one per interval.
///
/// A server that goes away while it is watched is waited for; one that is not there at first is an error.
func show(_ settings: StatsSettings) -> Int32 {
    let source: Source
    do throws(EncryptionError) { source = try Source(settings) } catch {
        StandardStream.error.write("cache-stats: \(error)\n")
        return EX_USAGE
    }
    switch settings.view {
    case .check: return Check(settings: settings).run(source)
    case .keys: return listKeys(source, settings)
    case .watch: return watchRequests(source, settings)
    case .top where StandardStream.output.movesCursor && !settings.json:
        return Top(source: source, settings: settings).run()
    default: return showSamples(source, settings)
    }
}

private func showSamples(_ source: Source, _ settings: StatsSettings) -> Int32 {
    var previous: Sample?
    var shown = 0
    while true {
        do throws(ClientError) {
            let sample = try source.sample()
            let page = try page(sample, previous, source, settings)
            guard StandardStream.output.write(page.text) else { return EXIT_SUCCESS }
            if page.isEmpty, settings.intervalMilliseconds == nil { return EXIT_FAILURE }
            previous = sample
        } catch {
            StandardStream.error.write("cache-stats: \(error)\n")
            if shown == 0 { return EX_UNAVAILABLE }
            source.disconnect()
            previous = nil
        }
        shown += 1
        guard let interval = settings.intervalMilliseconds, shown != settings.samples else { return EXIT_SUCCESS }
        _ = poll(nil, 0, Int32(clamping: interval))
    }
}

/// One sample as text; `isEmpty` when what was asked for is not there.
private func page(
    _ sample: Sample, _ previous: Sample?, _ source: Source, _ settings: StatsSettings
) throws(ClientError) -> (text: String, isEmpty: Bool) {
    let output = StandardStream.output
    let isMissing = settings.view == .explain && sample.statistics["tier"] == nil
    if settings.json { return (Listing(settings.view, sample).json + "\n", isMissing) }
    var text = ""
    if settings.intervalMilliseconds != nil, output.movesCursor {
        // To the upper left, and everything below erased: less flicker than clearing the screen.
        text += "\u{1B}[H\u{1B}[J"
    } else if settings.intervalMilliseconds != nil, previous != nil {
        text += "\n"
    }
    switch settings.view {
    case .summary, .top:
        var summary = Summary(
            sample: sample, previous: previous, address: settings.address, usesColor: output.takesColor)
        summary.windows = try source.optional("windows")
        summary.latency = try source.optional("latency")
        text += summary.text
    default: text += Listing(settings.view, sample).text
    }
    return (text, isMissing)
}
