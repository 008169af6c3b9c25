// Options: every one by flag and by file, what is refused and where, precedence, and the printed configuration.

import CacheEngine
import Foundation
import Primitives
import TLS
import TestSupport
import Testing

@testable import CacheDaemon

/// One option with a value that is not its default.
struct OptionCase: CustomStringConvertible, Sendable {
    let name: String
    let arguments: [String]
    let fileValue: String
    let isTaken: @Sendable (Settings) -> Bool
    var description: String { name }

    init(_ name: String, _ arguments: [String], file: String, _ isTaken: @escaping @Sendable (Settings) -> Bool) {
        self.name = name
        self.arguments = arguments
        fileValue = file
        self.isTaken = isTaken
    }

    static let all: [OptionCase] = [
        .init("listen", ["--listen", "127.0.0.2:5"], file: "127.0.0.2:5") {
            $0.listen.map(\.description) == ["127.0.0.2:5"]
        },
        .init("port", ["-p", "5"], file: "5") { $0.listen.map(\.description) == ["127.0.0.1:5"] },
        .init("unix", ["-s", "/tmp/s"], file: "/tmp/s") { $0.unixPath == "/tmp/s" && $0.listen.isEmpty },
        .init("unix_mode", ["-a", "770"], file: "0770") { $0.unixMode == 0o770 },
        .init("admin", ["--admin", "localhost"], file: "localhost:11212") {
            $0.admin == .tcp(ListenAddress(host: "localhost", port: 11212))
        },
        .init("threads", ["-t", "7"], file: "7") { $0.threads == 7 },
        .init("max_connections", ["-c", "9"], file: "9") { $0.connectionsMax == 9 },
        .init("idle_timeout", ["--idle-timeout", "5m"], file: "5m") { $0.idleTimeout == .seconds(300) },
        .init("request_timeout", ["--request-timeout", "3s"], file: "3s") { $0.requestTimeout == .seconds(3) },
        .init("request_rate_min", ["--request-rate-min", "9KiB"], file: "9KiB") {
            $0.requestBytesPerSecondMin == 9 << 10
        },
        .init("send_timeout", ["--send-timeout", "2m"], file: "2m") { $0.sendTimeout == .seconds(120) },
        .init("client_memory", ["--client-memory", "9MiB"], file: "9MiB") { $0.clientBytesMax == 9 << 20 },
        .init("allow_insecure", ["--allow-insecure"], file: "yes") { $0.allowsInsecure },
        .init("max_entry", ["-I", "2m"], file: "2 MiB") { $0.entryBytesMax == 2 << 20 },
        .init("shutdown_command", ["-A"], file: "yes") { $0.acceptsShutdownCommand },
        .init("flush_command", ["-F"], file: "no") { !$0.allowsFlush },
        .init("dump_commands", ["-X"], file: "no") { !$0.allowsDumps },
        .init("watch_command", ["-W"], file: "no") { !$0.allowsWatching },
        .init("core_files", ["-r"], file: "yes") { $0.writesCoreFiles },
        .init("user", ["-u", "nobody"], file: "nobody") { $0.user == "nobody" },
        .init("auth.file", ["-Y", "/a b"], file: "/a b") { $0.access.accountFile == "/a b" },
        .init("auth.timeout", ["--auth-timeout", "3s"], file: "3s") { $0.access.loginTimeout == .seconds(3) },
        .init("tls.certificate", ["--tls-certificate", "/c.pem"], file: "/c.pem") { $0.tls.certificate == "/c.pem" },
        .init("tls.key", ["--tls-key", "/k.pem"], file: "/k.pem") { $0.tls.key == "/k.pem" },
        .init("tls.client_ca", ["--tls-client-ca", "/a.pem"], file: "/a.pem") {
            $0.tls.clientAuthorities == "/a.pem"
        },
        .init("tls.client_certificates", ["--tls-client-certificates", "optional"], file: "optional") {
            $0.tls.clientCertificates == .optional
        },
        .init("tls.min_version", ["--tls-min-version", "1.3"], file: "1.3") { $0.tls.oldest == .v13 },
        .init("tls.handshake_timeout", ["--tls-handshake-timeout", "9s"], file: "9s") {
            $0.tls.handshakeTimeout == .seconds(9)
        },
        .init("tls.handshake_rate", ["--tls-handshake-rate", "50"], file: "50") { $0.tls.handshakesPerSecondMax == 50 },
        .init("memory.limit", ["-m", "128"], file: "128MiB") { $0.memory.bytesMax == 128 << 20 },
        .init("memory.entries_max", ["--memory-entries-max", "10"], file: "10") { $0.memory.entriesMax == 10 },
        .init("memory.idle_max", ["--memory-idle-max", "2h"], file: "2h") { $0.memory.idleMax == .seconds(7200) },
        .init("memory.value_max", ["--memory-value-max", "2KiB"], file: "2KiB") { $0.memory.valueBytesMax == 2048 },
        .init("memory.warm_up", ["--no-warm-up"], file: "no") { !$0.memory.warmsUp },
        .init("memory.warm_up_rate", ["--warm-up-rate", "3MiB"], file: "3MiB") { $0.memory.warmUpRate == 3 << 20 },
        .init("memory.fit_cgroup", ["--ignore-cgroup"], file: "no") { !$0.memory.fitsControlGroup },
        .init("disk.enabled", ["--no-disk"], file: "no") { !$0.disk.isEnabled && $0.disk.directory.isEmpty },
        .init("disk.dir", ["--dir", "/data x/y"], file: "/data x/y") { $0.disk.directory == "/data x/y" },
        .init("disk.limit", ["--disk", "3GiB"], file: "3GiB") { $0.disk.bytesMax == 3 << 30 },
        .init("disk.entries_max", ["--disk-entries-max", "11"], file: "11") { $0.disk.entriesMax == 11 },
        .init("disk.idle_max", ["--disk-idle-max", "20d"], file: "20d") { $0.disk.idleMax == .seconds(20 * 86_400) },
        .init("disk.min_free", ["--disk-min-free", "2GiB"], file: "2GiB") { $0.disk.freeBytesMin == 2 << 30 },
        .init("disk.inline_max", ["--disk-inline-max", "0"], file: "0") { $0.disk.inlineBytesMax == 0 },
        .init("disk.durability", ["--durability", "always"], file: "always") { $0.disk.durability == .always },
        .init("disk.after_power_loss", ["--disk-after-power-loss", "keep"], file: "keep") {
            $0.disk.afterPowerLoss == .keep
        },
        .init("disk.write", ["--disk-write", "on_evict"], file: "on_evict") { $0.disk.write == .onEvict },
        .init("disk.admission", ["--disk-admission", "second_hit"], file: "second_hit") {
            $0.disk.admission == .secondHit
        },
        .init("disk.write_budget", ["--disk-write-budget", "5GiB"], file: "5GiB") { $0.disk.writeBudget == 5 << 30 },
        .init("disk.journal", ["--disk-journal", "8MiB"], file: "8MiB") { $0.disk.journalBytes == 8 << 20 },
        .init("disk.readers", ["--disk-readers", "5"], file: "5") { $0.disk.readers == 5 },
        .init("disk.trim_interval", ["--disk-trim-interval", "250ms"], file: "250ms") {
            $0.disk.trimInterval == TimeSpan(milliseconds: 250)
        },
        .init("ttl.default", ["--ttl-default", "2h"], file: "2h") { $0.timeToLive.standard == .seconds(7200) },
        .init("ttl.max", ["--ttl-max", "2d"], file: "2d") { $0.timeToLive.max == .seconds(2 * 86_400) },
        .init("log.level", ["--log-level", "debug"], file: "debug") { $0.logLevel == .debug },
        .init("log.slow", ["--log-slow", "5ms"], file: "5ms") { $0.slowThreshold == TimeSpan(milliseconds: 5) },
    ]
}

/// A configuration file that removes itself.
final class ConfigurationFile {
    let path: String

    init(_ text: String) throws {
        path = FileManager.default.temporaryDirectory.appendingPathComponent("options-\(UUID().uuidString).conf").path
        try text.write(toFile: path, atomically: false, encoding: .utf8)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    /// A file that sets one option.
    static func setting(_ name: String, _ value: String) throws -> ConfigurationFile {
        let parts = name.split(separator: ".")
        return try ConfigurationFile(
            parts.count == 2 ? "[\(parts[0])]\n\(parts[1]) = \(value)\n" : "\(name) = \(value)\n")
    }
}

/// What `arguments` lead to on a machine with 3 cores and a home.
func launch(_ arguments: [String], environment: [String: String] = ["HOME": "/h"]) -> Launch {
    Launch.read(arguments, environment: environment, coreCount: 3)
}

/// The settings that `arguments` lead to.
func settings(_ arguments: [String], environment: [String: String] = ["HOME": "/h"]) throws -> Settings {
    let launch = launch(arguments, environment: environment)
    guard case .serve(let settings) = launch else {
        Issue.record("\(arguments): \(launch)")
        throw CancellationError()
    }
    return settings
}

struct OptionsTests {
    @Test func everyOptionHasACase() {
        #expect(OptionCase.all.map(\.name) == OptionSpec.table.map(\.name))
    }

    @Test(arguments: OptionCase.all)
    func isTakenFromItsFlag(_ option: OptionCase) throws {
        #expect(try !option.isTaken(settings([])))
        #expect(try option.isTaken(settings(option.arguments)))
    }

    /// The long flag of the table works too, whatever the case above used.
    @Test(arguments: OptionCase.all)
    func isTakenFromItsLongFlag(_ option: OptionCase) throws {
        let spec = try #require(OptionSpec.table.first { $0.name == option.name })
        let arguments = ["--\(spec.flag)"] + option.arguments.dropFirst()
        #expect(try option.isTaken(settings(arguments)))
    }

    @Test(arguments: OptionCase.all)
    func isTakenFromTheFile(_ option: OptionCase) throws {
        let file = try ConfigurationFile.setting(option.name, option.fileValue)
        #expect(try option.isTaken(settings(["--config", file.path])))
    }

    @Test(arguments: OptionCase.all)
    func flagBeatsFile(_ option: OptionCase) throws {
        let spec = try #require(OptionSpec.table.first { $0.name == option.name })
        let other = spec.sample ?? spec.form.show(Launch.defaults(coreCount: 3)).first ?? ""
        let file = try ConfigurationFile.setting(option.name, other)
        #expect(try !option.isTaken(settings(["--config", file.path])))
        #expect(try option.isTaken(settings(["--config", file.path] + option.arguments)))
    }

    /// What --print-config prints with a value, read back, gives that value, and the same text again.
    @Test(arguments: OptionCase.all)
    func printedConfigurationReadsBack(_ option: OptionCase) throws {
        guard case .show(let text) = launch(option.arguments + ["--print-config"]) else {
            Issue.record("not printed")
            return
        }
        let file = try ConfigurationFile(text)
        #expect(try settings(["--config", file.path]) == settings(option.arguments))
        #expect(launch(["--config", file.path, "--print-config"]) == .show(text))
    }

    @Test(arguments: OptionCase.all)
    func helpAndConfigurationExplainIt(_ option: OptionCase) throws {
        let spec = try #require(OptionSpec.table.first { $0.name == option.name })
        guard case .show(let help) = launch(["--help"]), case .show(let text) = launch(["--print-config"]) else {
            Issue.record("not shown")
            return
        }
        #expect(help.contains("--\(spec.flag)"))
        #expect(text.contains("\n#\(spec.key) = "))
        #expect(!spec.help.isEmpty && spec.help.hasSuffix("."))
    }

    /// Each commented line of the sample configuration is accepted when its `#` goes.
    @Test(arguments: OptionCase.all)
    func sampleValueIsValid(_ option: OptionCase) throws {
        let spec = try #require(OptionSpec.table.first { $0.name == option.name })
        let sample = try #require(spec.sample ?? spec.form.show(Launch.defaults(coreCount: 3)).first)
        let file = try ConfigurationFile.setting(option.name, sample)
        _ = try settings(["--config", file.path])
    }

    @Test func committedConfigurationIsThePrintedOne() throws {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let committed = try String(contentsOf: root.appendingPathComponent("config/cache-daemon.conf"), encoding: .utf8)
        #expect(launch(["--print-config"]) == .show(committed), "regenerate: cache-daemon --print-config")
    }

    @Test func defaults() throws {
        let settings = try settings([])
        #expect(settings.listen.map(\.description) == ["127.0.0.1:11211"])
        #expect(settings.threads == 3)
        #expect(settings.connectionsMax == 1024)
        #expect(settings.memory.bytesMax == 64 << 20 && settings.memory.entriesMax == nil)
        #expect(settings.disk.isEnabled && settings.disk.bytesMax == 1 << 30 && settings.disk.durability == .process)
        #expect(settings.disk.directory == "/h/.cache/cache-daemon")
        #expect(settings.entryBytesMax == 64 << 20 && settings.disk.inlineBytesMax == 20_480)
        #expect(settings.timeToLive == Settings.TimeToLive() && settings.logLevel == .notice)
    }

    /// With DynamicUser=, systemd's cache directory is a symbolic link, which the store itself would refuse.
    @Test func directoryOfSystemdMayBeALink() throws {
        let scratch = try TempDirectory()
        let real = scratch.path + "/private"
        let link = scratch.path + "/cache-daemon"
        try FileManager.default.createDirectory(atPath: real, withIntermediateDirectories: false)
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: real)
        #expect(try settings([], environment: ["CACHE_DIRECTORY": link]).disk.directory == real)
        #expect(try settings(["--dir", link], environment: [:]).disk.directory == link)
    }

    @Test func directoryComesFromTheEnvironment() throws {
        let home = ["HOME": "/h"]
        let xdg = home.merging(["XDG_CACHE_HOME": "/x"]) { $1 }
        let systemd = xdg.merging(["CACHE_DIRECTORY": "/var/cache/a:/var/cache/b"]) { $1 }
        #expect(try settings([], environment: xdg).disk.directory == "/x/cache-daemon")
        #expect(try settings([], environment: systemd).disk.directory == "/var/cache/a")
        #expect(try settings(["--dir", "/d"], environment: systemd).disk.directory == "/d")
        #expect(
            try settings([], environment: ["XDG_CACHE_HOME": "x", "HOME": "/h"]).disk.directory
                == "/h/.cache/cache-daemon")
        #expect(try settings(["--no-disk"], environment: [:]).disk.directory.isEmpty)
        #expect(
            launch([], environment: [:])
                == .refuse(["disk.dir: neither CACHE_DIRECTORY nor HOME is set; use --dir or --no-disk"]))
    }

    @Test func verbosityIsCounted() throws {
        #expect(try settings(["-v"]).logLevel == .info)
        #expect(try settings(["-vv"]).logLevel == .debug)
        #expect(try settings(["-vvv"]).logLevel == .debug)
        #expect(try settings(["--log-level", "error", "-v"]).logLevel == .info)
    }

    @Test func memcachedCommandLinesWork() throws {
        let settings = try settings([
            "-m", "64", "-p", "11311", "-l", "127.0.0.1,::1", "-c", "512", "-t", "2", "-U", "0",
        ])
        #expect(settings.listen.map(\.description) == ["127.0.0.1:11311", "[::1]:11311"])
        #expect(settings.memory.bytesMax == 64 << 20)
    }

    @Test func generalFlags() throws {
        #expect(launch(["--version"]) == .show("cache-daemon \(ProductVersion.number)\n"))
        #expect(launch(["-V"]) == launch(["--version"]))
        #expect(launch(["-h"]) == launch(["--help"]))
        #expect(launch(["--check-config"]) == .show("configuration is valid\n"))
        #expect(ProductVersion.wire.hasPrefix("1.6.") && ProductVersion.wire.hasSuffix(ProductVersion.number))
        let file = try ConfigurationFile("threads = many\n")
        #expect(
            launch(["--check-config", "--config", file.path])
                == .refuse(["\(file.path):1: threads: 'many' is not a whole number"]))
    }

    @Test func reloadTakesWhatItCan() throws {
        let old = try settings(["--memory", "100MiB", "--threads", "2"])
        let new = try settings(["--memory", "200MiB", "--threads", "4", "--ttl-max", "1d"])
        let reload = Reload(current: old, new: new)
        #expect(reload.applied == ["memory.limit", "ttl.max"])
        #expect(reload.waiting == ["threads"])
        #expect(reload.settings.memory.bytesMax == 200 << 20 && reload.settings.threads == 2)
        #expect(Reload(current: new, new: new) == Reload(current: new, new: new))
        #expect(Reload(current: new, new: old).settings.timeToLive.max == nil)
    }

    /// Each reloadable option really is copied, and none of the others.
    @Test(arguments: OptionCase.all)
    func reloadCopiesExactlyTheOption(_ option: OptionCase) throws {
        let spec = try #require(OptionSpec.table.first { $0.name == option.name })
        let old = try settings([])
        let new = try settings(option.arguments)
        let reload = Reload(current: old, new: new)
        #expect(option.isTaken(reload.settings) == spec.isReloadable)
        #expect((spec.isReloadable ? reload.applied : reload.waiting).contains(option.name))
    }
}
