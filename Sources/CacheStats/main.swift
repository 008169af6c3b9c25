// cache-stats: shows what a memcached-compatible server is doing, to people or, as JSON, to programs.
//
// Asks, draws, and with --watch does it again. Exit codes are those of sysexits.h.

import Arguments
import CacheClient
import Glibc
import Primitives

exit(runStats(Array(CommandLine.arguments.dropFirst())))

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
        case .show(let settings):
            return show(settings)
        }
    } catch {
        StandardStream.error.write("cache-stats: \(error)\nTry 'cache-stats --help'.\n")
        return EX_USAGE
    }
}

/// Shows one sample, or one per interval.
///
/// A server that goes away while it is watched is waited for; one that is not there at first is an error.
func show(_ settings: StatsSettings) -> Int32 {
    var connection: Connection?
    let encryption: Encryption?
    do throws(EncryptionError) {
        encryption = if let wanted = settings.encryption { try Encryption(wanted) } else { nil }
    } catch {
        StandardStream.error.write("cache-stats: \(error)\n")
        return EX_USAGE
    }
    var previous: Sample?
    var shown = 0
    while true {
        do throws(ClientError) {
            let open: Connection
            if let connection {
                open = connection
            } else {
                open = try Connection(to: settings.address, encryption: encryption)
                if let login = settings.login { try open.authenticate(login) }
            }
            connection = open
            let sample = Sample(time: SystemClock().now(), statistics: try open.stats(settings.view.group))
            guard draw(sample, previous, settings) else { return EXIT_SUCCESS }
            previous = sample
        } catch {
            StandardStream.error.write("cache-stats: \(error)\n")
            if shown == 0 { return EX_UNAVAILABLE }
            connection = nil
            previous = nil
        }
        shown += 1
        guard let interval = settings.intervalMilliseconds, shown != settings.samples else { return EXIT_SUCCESS }
        _ = poll(nil, 0, Int32(clamping: interval))
    }
}

/// Writes one sample; false when nobody reads any more.
private func draw(_ sample: Sample, _ previous: Sample?, _ settings: StatsSettings) -> Bool {
    let output = StandardStream.output
    if settings.json { return output.write(sample.json + "\n") }
    let isWatching = settings.intervalMilliseconds != nil
    var text = ""
    if isWatching, output.movesCursor {
        // To the upper left, and everything below erased: less flicker than clearing the screen.
        text += "\u{1B}[H\u{1B}[J"
    } else if isWatching, previous != nil {
        text += "\n"
    }
    switch settings.view {
    case .summary:
        text +=
            Summary(
                sample: sample, previous: previous, address: settings.address, usesColor: output.takesColor
            ).text
    case .all, .settings, .items, .slabs, .sizes, .conns: text += sample.list
    }
    return output.write(text)
}
