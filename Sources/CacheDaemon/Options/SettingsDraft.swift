// Settings in the making: defaults, then the file's values, then the flags', then the rules between options.
//
// Every value remembers where it came from, so that a rule that two options break together can name the place.

import CacheEngine
import ConfigFile
import Glibc
import Primitives

/// Where a value came from.
///
/// Later cases beat earlier ones.
enum OptionOrigin: Equatable, Sendable, CustomStringConvertible {
    case file(path: String, line: Int)
    case flag(String)

    var description: String {
        switch self {
        case .file(let path, let line): "\(path):\(line)"
        case .flag(let name): name
        }
    }
}

/// One mistake in a configuration: `FILE:LINE: reason` or `--flag: reason`.
struct OptionProblem: Error, Equatable, Sendable, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }

    init(_ origin: OptionOrigin, _ reason: String) { description = "\(origin): \(reason)" }
}

/// Settings that are being put together.
struct SettingsDraft: Sendable {
    var settings: Settings
    /// `listen` as written so far.
    var listen: [WrittenAddress] = []
    /// Where each option that was given came from.
    private(set) var origins: [String: OptionOrigin] = [:]
    /// Everything that is wrong so far.
    private(set) var problems: [OptionProblem] = []

    init(defaults: Settings) { settings = defaults }

    // MARK: Sources

    /// Takes the values of a configuration file.
    mutating func apply(_ entries: [ConfigEntry], path: String) {
        var seen: [String: Int] = [:]
        for entry in entries {
            let origin = OptionOrigin.file(path: path, line: entry.line)
            let name = entry.section.isEmpty ? entry.key : "\(entry.section).\(entry.key)"
            guard let spec = OptionSpec.named[name] else {
                problems.append(OptionProblem(origin, Self.unknown(name, section: entry.section)))
                continue
            }
            if let first = seen[name], !spec.form.isList {
                problems.append(OptionProblem(origin, "\(name) is already set on line \(first)"))
                continue
            }
            seen[name] = entry.line
            set(spec, entry.value, origin, prefix: "\(name): ")
        }
    }

    /// Takes one flag.
    ///
    /// Flags come after the file.
    mutating func apply(_ spec: OptionSpec, flag value: String?, asTyped name: String) {
        if spec.form.isList, case .file = origins[spec.name] { listen = [] }
        var text = value ?? spec.form.flagText
        if !text.isEmpty, text.utf8.allSatisfy({ (48...57).contains($0) }) { text += spec.form.bareFlagUnit }
        set(spec, text, .flag(name), prefix: "")
    }

    private mutating func set(_ spec: OptionSpec, _ text: String, _ origin: OptionOrigin, prefix: String) {
        do {
            try spec.form.read(text, &self)
            origins[spec.name] = origin
        } catch {
            problems.append(OptionProblem(origin, prefix + error.reason))
        }
    }

    /// Notes a problem that another part of loading found.
    mutating func note(_ problem: OptionProblem) { problems.append(problem) }

    private static func unknown(_ name: String, section: String) -> String {
        if !OptionSpec.sections.contains(section) { return "unknown section [\(section)]" }
        let key = name.split(separator: ".").last.map(String.init) ?? name
        let elsewhere = OptionSpec.table.first { $0.key == key }
        guard let elsewhere else { return "unknown option \(name)" }
        let place = elsewhere.section.isEmpty ? "above the first section" : "in section [\(elsewhere.section)]"
        return "unknown option \(name); \(key) stands \(place)"
    }

    // MARK: Rules between options

    /// The settings, once everything agrees; nil if anything is wrong, which is then in `problems`.
    mutating func finish(environment: [String: String]) -> Settings? {
        resolveListen()
        resolveDirectory(environment)
        resolveSizes()
        if let standard = settings.timeToLive.standard, let max = settings.timeToLive.max, standard > max {
            blame(["ttl.default", "ttl.max"], "ttl.default (\(standard)) exceeds ttl.max (\(max))")
        }
        resolveExposure()
        return problems.isEmpty ? settings : nil
    }

    private mutating func resolveListen() {
        if origins["listen"] == nil, settings.port == 0 || (settings.unixPath != nil && origins["port"] == nil) {
            settings.listen = []
        } else {
            if settings.port == 0, listen.contains(where: { $0.port == nil }) {
                blame(["listen", "port"], "port is 0, so every listen address must name its own")
            }
            let addresses = listen.isEmpty ? settings.listen.map { WrittenAddress(host: $0.host) } : listen
            settings.listen = addresses.map {
                ListenAddress(host: $0.host, port: $0.port ?? settings.port, isPlain: $0.isPlain)
            }
        }
        var seen: Set<ListenAddress> = []
        for address in settings.listen {
            let bound = ListenAddress(host: address.host, port: address.port)
            guard address.port != 0, !seen.insert(bound).inserted else { continue }
            blame(["listen"], "\(address) is listed twice")
        }
        if settings.listen.isEmpty, settings.unixPath == nil {
            blame(["port"], "nothing to listen on: TCP is off and no Unix socket is set")
        }
    }

    /// The directory is named outside the settings: none of the defaults is needed.
    mutating func directoryIsNamed() {
        if origins["disk.dir"] == nil { settings.disk.directory = "/" }
        if origins["disk.dir"] == nil { origins["disk.dir"] = .flag("--dir") }
    }

    private mutating func resolveDirectory(_ environment: [String: String]) {
        guard settings.disk.isEnabled, origins["disk.dir"] == nil else { return }
        if let directory = Self.defaultDirectory(environment) {
            settings.disk.directory = directory
        } else {
            problems.append(
                OptionProblem("disk.dir: neither CACHE_DIRECTORY nor HOME is set; use --dir or --no-disk"))
        }
    }

    /// The directory of the disk tier where none is set.
    static func defaultDirectory(_ environment: [String: String]) -> String? {
        // systemd gives a colon-separated list, see systemd.exec(5); the first directory is ours.
        let given = environment["CACHE_DIRECTORY"]?.split(separator: ":").first
        if let given { return withoutLinks(String(given)) }
        // A relative path is invalid, says the XDG base directory specification.
        if let base = environment["XDG_CACHE_HOME"], base.hasPrefix("/") { return base + "/cache-daemon" }
        if let home = environment["HOME"], home.hasPrefix("/") { return home + "/.cache/cache-daemon" }
        return nil
    }

    /// Where a path leads to.
    ///
    /// With DynamicUser=, systemd makes the cache directory a symbolic link. The store refuses links; this one is safe.
    private static func withoutLinks(_ path: String) -> String {
        // SAFETY: realpath(3) allocates the result, which is copied and freed here.
        guard let real = unsafe realpath(path, nil) else { return path }
        defer { unsafe free(real) }
        return unsafe String(cString: real)
    }

    /// Refuses to serve strangers unprotected, unless told so.
    ///
    /// The last rule: what is wrong otherwise may be the reason that nothing protects an address.
    private mutating func resolveExposure() {
        guard problems.isEmpty else { return }
        if settings.tls.isDemanded, !settings.tls.isOn {
            return problems.append(OptionProblem(.flag("-Z"), "needs a certificate: see tls.certificate"))
        }
        if case .tcp(let admin) = settings.admin, !admin.isLoopback, !settings.allowsInsecure {
            return blame(
                ["admin"],
                "other machines could read names of keys at \(admin), which asks for no password: use a loopback "
                    + "address behind a proxy, or allow_insecure = yes if the network is trusted")
        }
        guard let first = settings.exposedAddresses.first else { return }
        blame(
            ["listen"],
            "other machines could use \(first) freely: set tls.certificate or auth.file, or allow_insecure = yes if "
                + "the network is trusted")
    }

    /// Sizes that depend on each other: defaults give way, what was set is held to.
    private mutating func resolveSizes() {
        // Without a disk tier, memory is the only place for values that the operator asked to take.
        if !settings.disk.isEnabled, origins["max_entry"] != nil, origins["memory.value_max"] == nil {
            let wanted = max(settings.memory.valueBytesMax, settings.entryBytesMax)
            settings.memory.valueBytesMax = min(wanted, settings.memory.bytesMax)
        }
        if settings.memory.valueBytesMax > settings.memory.bytesMax {
            if origins["memory.value_max"] == nil {
                settings.memory.valueBytesMax = settings.memory.bytesMax
            } else {
                blame(["memory.value_max", "memory.limit"], "memory.value_max exceeds memory.limit")
            }
        }
        guard settings.disk.isEnabled else { return }
        let disk = settings.disk
        if disk.durability == .always, disk.write != .through || disk.admission != .all || disk.writeBudget != nil {
            blame(
                ["disk.write", "disk.admission", "disk.write_budget"],
                "disk.durability always writes every entry at once: disk.write, disk.admission and disk.write_budget "
                    + "must have their defaults")
        }
        if origins["disk.journal"] == nil {
            settings.disk.journalBytes = min(settings.disk.journalBytes, settings.disk.bytesMax / 8)
        } else if settings.disk.journalBytes > settings.disk.bytesMax / 8 {
            blame(["disk.journal", "disk.limit"], "disk.journal exceeds an eighth of disk.limit")
        }
    }

    /// Notes a problem at the place of the first of `names` that was given.
    private mutating func blame(_ names: [String], _ reason: String) {
        let origin = names.compactMap { origins[$0] }.first
        problems.append(origin.map { OptionProblem($0, reason) } ?? OptionProblem(reason))
    }
}
