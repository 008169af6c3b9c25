// From arguments and environment to what the program does next: serve, print something, or refuse.
//
// Nothing is opened but the configuration file. main.swift carries the result out; a reload reads the same arguments
// again.

import Arguments
import CacheClient
import ConfigFile
import Glibc

/// What a command line asks for.
enum Launch: Equatable, Sendable {
    /// Serve with these settings.
    case serve(Settings)
    /// Do this on a store, with these settings.
    case maintain(MaintenanceTask, Settings)
    /// Print this on standard output and exit with 0.
    case show(String)
    /// Print these lines on standard error and exit with `Launch.refusalStatus`.
    case refuse([String])

    /// EX_CONFIG of sysexits.h.
    static let refusalStatus: Int32 = 78

    /// What a flag stands for.
    private enum Tag: Sendable {
        case setting(OptionSpec)
        case check, repair, export, importEntries
        /// How a transfer speaks to a server.
        case credential(CredentialOption)
        case config, checkConfig, printConfig, generate, verbose, udpPort, daemonize, encrypted, extended, version
        case help
    }

    /// Reads `arguments`, which do not begin with the program's name.
    ///
    /// - Parameters:
    ///   - environment: for the default directory.
    ///   - coreCount: for the default number of threads.
    static func read(_ arguments: [String], environment: [String: String], coreCount: Int) -> Launch {
        let parsed: ParsedArguments<Tag>
        do {
            parsed = try commandLine.parse(arguments)
        } catch {
            return .refuse(["\(error)", "try --help"])
        }
        let task: MaintenanceTask?
        switch maintenance(parsed) {
        case .success(let found): task = found
        case .failure(let problem): return .refuse([problem.description, "try --help"])
        }
        var configPath: String?
        var wantsCheck = false
        var wantsText = false
        for occurrence in parsed.occurrences {
            switch occurrence.option.tag {
            case .help: return .show(commandLine.helpText)
            case .version: return .show(ProductVersion.line + "\n")
            case .config: configPath = occurrence.value
            case .checkConfig: wantsCheck = true
            case .printConfig: wantsText = true
            case .generate:
                let wanted = occurrence.value ?? ""
                guard let text = GeneratedText.make(wanted, table: commandLine) else {
                    return .refuse(["--generate: '\(wanted)' is not \(GeneratedText.names.joined(separator: ", "))"])
                }
                return .show(text)
            default: break
            }
        }
        var draft = SettingsDraft(defaults: defaults(coreCount: coreCount))
        if let configPath {
            do {
                draft.apply(try ConfigEntries.read(path: configPath), path: configPath)
            } catch {
                return .refuse(["\(error)"])
            }
        }
        apply(parsed.occurrences, to: &draft)
        if task != nil { draft.directoryIsNamed() }
        guard let settings = draft.finish(environment: environment) else {
            return .refuse(draft.problems.map(\.description))
        }
        if wantsText {
            return .show(ConfigText.make(settings, given: Set(draft.origins.keys), coreCount: coreCount))
        }
        if let task { return .maintain(task, settings) }
        return wantsCheck ? .show("configuration is valid\n") : .serve(settings)
    }

    /// The task that a command line asks for, which takes the operands; nil to serve.
    private static func maintenance(_ parsed: ParsedArguments<Tag>) -> Result<MaintenanceTask?, OptionProblem> {
        var operands = parsed.operands
        var tasks: [MaintenanceTask] = []
        var repairs = false
        var access = CredentialArguments()
        var credentials = 0
        for occurrence in parsed.occurrences {
            let value = occurrence.value ?? ""
            switch occurrence.option.tag {
            case .check: tasks.append(.check(directory: value, repairs: false))
            case .repair: repairs = true
            case .credential(let option):
                access.take(option, value: occurrence.value)
                credentials += 1
            case .export, .importEntries:
                let name = occurrence.option.name
                guard !operands.isEmpty else {
                    return .failure(OptionProblem(.flag(name), "needs a FILE; - is a pipe"))
                }
                let file = operands.removeFirst()
                let isExport = if case .export = occurrence.option.tag { true } else { false }
                tasks.append(.transfer(TransferTask(place: value, file: file, isExport: isExport)))
            default: break
            }
        }
        if let operand = operands.first { return .failure(OptionProblem("unexpected argument '\(operand)'")) }
        if credentials > 0 {
            guard case .transfer(let transfer)? = tasks.first, transfer.isOfServer else {
                return .failure(
                    OptionProblem("--login, --password-file, --ca, --cert and --key belong to a transfer of a server"))
            }
            tasks[0] = .transfer(transfer.with(access))
        }
        if tasks.count > 1 { return .failure(OptionProblem("--check, --export and --import: one at a time")) }
        if repairs {
            guard case .check(let directory, _)? = tasks.first else {
                return .failure(OptionProblem(.flag("--repair"), "belongs to --check"))
            }
            return .success(.check(directory: directory, repairs: true))
        }
        return .success(tasks.first)
    }

    /// The settings of a command line without options, but for the directory.
    static func defaults(coreCount: Int) -> Settings {
        var settings = Settings()
        settings.threads = min(max(coreCount, 1), 256)
        return settings
    }

    private static func apply(
        _ occurrences: [ParsedArguments<Tag>.Occurrence], to draft: inout SettingsDraft
    ) {
        var verbosity = 0
        for occurrence in occurrences {
            switch occurrence.option.tag {
            case .setting(let spec):
                draft.apply(spec, flag: occurrence.value, asTyped: occurrence.option.name)
            case .verbose:
                verbosity += 1
                guard let level = OptionSpec.named["log.level"] else { continue }
                draft.apply(level, flag: (verbosity == 1 ? LogLevel.info : .debug).rawValue, asTyped: "-v")
            case .udpPort:
                if occurrence.value != "0" { draft.note(OptionProblem(.flag("-U"), "UDP is not offered; only 0")) }
            case .daemonize:
                let hint = "the daemon stays in the foreground; let systemd, or a shell's &, put it in the background"
                draft.note(OptionProblem(.flag("-d"), hint))
            case .encrypted: draft.settings.tls.isDemanded = true
            case .extended: MemcachedOption.apply(occurrence.value ?? "", to: &draft)
            case .config, .checkConfig, .printConfig, .generate, .version, .help: break
            case .check, .repair, .export, .importEntries, .credential: break
            }
        }
    }

    // MARK: The command line

    /// Made once.
    ///
    /// No default depends on the machine in its text: the number of threads is called "one per core".
    private static let commandLine = makeCommandLine()

    private static func makeCommandLine() -> OptionTable<Tag> {
        let defaults = defaults(coreCount: 1)
        let general: [Option<Tag>] = [
            Option(.config, long: "config", value: "FILE", help: "Read this configuration file; flags beat it."),
            Option(.checkConfig, long: "check-config", help: "Check configuration and flags, open nothing, exit."),
            Option(
                .printConfig, long: "print-config", help: "Print the configuration, all explained, and exit."),
            Option(
                .generate, long: "generate", value: "WHAT", choices: GeneratedText.names,
                help: "Print a manual page, shell completion or the list of metrics, and exit."),
            Option(.version, long: "version", short: "V", help: "Print name and version and exit."),
            Option(.help, long: "help", short: "h", help: "Print this and exit."),
        ]
        var groups = OptionSpec.Group.allCases.map { group in
            OptionGroup(group.rawValue, OptionSpec.table.filter { $0.group == group }.map { option(for: $0, defaults) })
        }
        groups.append(OptionGroup("Verbosity", [Option(.verbose, short: "v", help: "Log more; twice, every command.")]))
        let maintenance: [Option<Tag>] = [
            Option(.check, long: "check", value: "DIR", help: "Check a stopped store from end to end, and exit."),
            Option(.repair, long: "repair", help: "With --check: remove what is bad."),
            Option(
                .export, long: "export", value: "SOURCE FILE",
                help: "Write all entries of a stopped store's directory, or of a running server, to FILE, and exit."),
            Option(
                .importEntries, long: "import", value: "TARGET FILE",
                help: "Add the entries in FILE to a stopped store's directory, or to a running server, and exit."),
        ]
        // --user is who the daemon becomes.
        let credentials = CredentialOption.options { Tag.credential($0) }.map { option in
            guard option.long == "user" else { return option }
            return Option(option.tag, long: "login", value: "NAME", help: option.help)
        }
        groups.append(OptionGroup("Maintenance", maintenance + credentials))
        groups.append(OptionGroup("General", general))
        groups.append(
            OptionGroup(
                "For scripts written for memcached",
                [
                    Option(.udpPort, short: "U", value: "0", help: "UDP port; only 0, there is no UDP."),
                    Option(
                        .encrypted, long: "enable-ssl", short: "Z",
                        help: "Refuse to start without TLS, which tls.certificate turns on."),
                    Option(
                        .extended, short: "o", value: "LIST",
                        help: "idle_timeout=SECONDS, ssl_chain_cert=FILE and the like; memory tuning has no effect."),
                    Option(.daemonize, short: "d", help: "Refused: the daemon stays in the foreground."),
                ]))
        return OptionTable(
            program: "cache-daemon", usage: "[OPTION]...",
            summary: "Serves the memcached text protocol from memory and disk.", groups: groups,
            footer: """
                Sizes take B, KiB, MiB, GiB, TiB; times ms, s, m, h, d. Every option but those of
                "General" can stand in the configuration file; see --print-config.
                SOURCE and TARGET are DIR, HOST:PORT or unix:PATH; FILE is - for standard output or input.
                Exit codes of maintenance: 0 fine, 1 repaired, 4 damage or failure, 75, 78.
                Exit codes: 0 stopped, 71 address in use, 75 directory in use, 78 wrong configuration or usage.
                """)
    }

    private static func option(for spec: OptionSpec, _ defaults: Settings) -> Option<Tag> {
        let text = spec.form.valueName == nil ? spec.help : "\(spec.help) [\(spec.defaultText(defaults))]"
        return Option(
            .setting(spec), long: spec.flag, short: spec.short, value: spec.form.valueName,
            choices: spec.form.choices, help: text)
    }
}
