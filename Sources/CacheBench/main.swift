// cache-bench: loads a memcached-compatible server, measures it, and checks every value that comes back.
//
// Reads the command line, runs, reports. Everything else has its own file. Exit codes are those of sysexits.h where one
// fits.

import Arguments
import CacheClient
import Glibc
import Primitives

exit(runBench(Array(CommandLine.arguments.dropFirst())))

/// Does what the arguments say and returns the exit code.
func runBench(_ arguments: [String]) -> Int32 {
    do throws(BenchUsageError) {
        switch try BenchRequest(arguments: arguments) {
        case .help:
            StandardStream.output.write(benchOptions.helpText)
            return 0
        case .version:
            StandardStream.output.write("cache-bench \(productVersion)\n")
            return 0
        case .generate(let name):
            guard let text = generated(name) else {
                throw BenchUsageError(description: "--generate '\(name)' is not man, bash, zsh or fish")
            }
            StandardStream.output.write(text)
            return 0
        case .run(let settings):
            return runBench(settings)
        }
    } catch {
        StandardStream.error.write("cache-bench: \(error)\nTry 'cache-bench --help'.\n")
        return EX_USAGE
    }
}

/// The manual page or a completion.
private func generated(_ name: String) -> String? {
    let manual = ManualText(
        section: 1, version: "cache-daemon \(productVersion)",
        purpose: "loads a memcached-compatible server and checks every value that comes back",
        chapters: [("Examples", "    cache-bench --connections 50 --pipeline 16 --ratio 1:10 --seconds 30")],
        seeAlso: ["cache-daemon(8)", "cache-stats(1)"])
    return name == "man"
        ? benchOptions.manualPage(manual) : Shell(rawValue: name).map { benchOptions.completion(for: $0) }
}

/// Runs and reports.
func runBench(_ settings: BenchSettings) -> Int32 {
    raiseDescriptorLimit()
    let showsProgress = StandardStream.error.isTerminal && !settings.quiet
    let report = { (line: String) in
        // Back to the line's beginning, and erase what a longer line has left.
        if showsProgress { StandardStream.error.write("\r\(line)\u{1B}[K") }
    }
    do throws(ClientError) {
        let version = try serverVersion(settings)
        let run = BenchRun(settings, run: runNumber())
        let warm = settings.warm ? try run.warm(report: report) : nil
        let load = try run.load(report: report)
        if showsProgress { StandardStream.error.write("\r\u{1B}[K") }
        let result = BenchReport(settings: settings, serverVersion: version, warm: warm, load: load)
        StandardStream.output.write(settings.json ? result.json + "\n" : result.text)
        if result.wrong > 0 { return EXIT_FAILURE }
        // Connections that were down may only have been closed at the last moment: ask whether the server is there.
        if result.unreachable > 0 { _ = try serverVersion(settings) }
        return EXIT_SUCCESS
    } catch {
        StandardStream.error.write("cache-bench: \(error)\n")
        return EX_UNAVAILABLE
    }
}

/// What the server says it is.
private func serverVersion(_ settings: BenchSettings) throws(ClientError) -> String {
    let connection = try Connection(to: settings.address, encryption: settings.encryption)
    if let login = settings.login { try connection.authenticate(login) }
    return try connection.version()
}

/// A number that hardly any other run has; it marks values, and plays no part in the load.
private func runNumber() -> UInt32 {
    let time = UInt64(bitPattern: SystemClock().wall().milliseconds)
    return UInt32(truncatingIfNeeded: mixed(time << 20 ^ UInt64(getpid())))
}

/// Allows as many connections as the system does; see getrlimit(2).
///
/// A refusal shows up when connecting.
private func raiseDescriptorLimit() {
    var limit = rlimit()
    // SAFETY: getrlimit(2) writes the local structure, setrlimit(2) reads it; neither keeps it.
    guard unsafe getrlimit(Int32(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return }
    limit.rlim_cur = limit.rlim_max
    _ = unsafe setrlimit(Int32(RLIMIT_NOFILE.rawValue), &limit)
}
