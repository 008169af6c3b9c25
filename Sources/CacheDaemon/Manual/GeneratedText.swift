// What `--generate` prints: manual pages and shell completions, made from the one option table, and the list of
// metrics. Packages are built from it, and tests hold the committed copies against it.

import Arguments

/// Texts made from the program's tables.
enum GeneratedText {
    /// What can be asked for.
    static let names = ["man", "man-config", "metrics"] + Shell.allCases.map(\.rawValue)

    /// The text called `name`; nil if there is none.
    static func make<Tag>(_ name: String, table: OptionTable<Tag>) -> String? {
        switch name {
        case "man": table.manualPage(manual)
        case "man-config": configManual
        case "metrics": MetricsManual.text
        default: Shell(rawValue: name).map { table.completion(for: $0) }
        }
    }

    private static let manual = ManualText(
        section: 8, version: ProductVersion.line,
        purpose: "cache server for memcached's text protocol, in memory and on disk",
        chapters: [
            (
                "Description of the tiers",
                """
                Hot entries are in memory, all entries are on disk, up to a limit for each. What is on disk survives \
                restarts and, by default, kill -9; after a loss of power the disk tier begins empty unless it is \
                told otherwise. Without options the daemon takes 64 MiB of memory and at most 1 GiB of disk, and \
                serves this machine only, on port 11211. It stays in the foreground and logs to standard error.
                """
            ),
            (
                "Signals",
                """
                SIGTERM and SIGINT stop it: what is in hand is finished, the journal is written back. A second one \
                drops connections at once. SIGHUP reads the options again; what cannot change while it runs is named \
                in the log and waits for the next start.
                """
            ),
            (
                "Exit status",
                """
                0: stopped on request. 71: an address cannot be listened on. 75: another daemon holds the directory. \
                78: wrong configuration or usage.
                """
            ),
            (
                "Environment",
                """
                CACHE_DIRECTORY, XDG_CACHE_HOME and HOME give the directory where none is set. JOURNAL_STREAM makes \
                log lines begin with their priority. NOTIFY_SOCKET, WATCHDOG_USEC, LISTEN_FDS and LISTEN_PID are \
                those of systemd(1).
                """
            ),
            (
                "Files",
                """
                /etc/cache-daemon.conf and /etc/default/cache-daemon: the options of the packaged service. \
                /var/cache/cache-daemon: its disk tier.
                """
            ),
            ("Examples", "    cache-daemon --memory 1GiB --disk 50GiB --dir /srv/cache --admin 127.0.0.1:11212"),
        ], seeAlso: ["cache-daemon.conf(5)", "cache-stats(1)", "cache-bench(1)"])

    /// The manual page of the configuration file.
    private static var configManual: String {
        let defaults = Launch.defaults(coreCount: 4)
        var page = Roff.title(
            "cache-daemon.conf",
            ManualText(
                section: 5, version: ProductVersion.line, purpose: "configuration of cache-daemon", chapters: [],
                seeAlso: []))
        page += Roff.chapters([
            (
                "Description",
                """
                INI: key = value, below a [section] or above the first. Lines that begin with # or ; are comments, and \
                so is what follows " ;" after a value. Flags on the command line beat the file. Sizes take B, KiB, \
                MiB, GiB, TiB; times take ms, s, m, h, d. A limit that is absent does not exist; 0 never means \
                unlimited. A wrong line ends the program with status 78 before anything is opened.
                """
            )
        ])
        var section: String?
        for spec in OptionSpec.table {
            if spec.section != section {
                section = spec.section
                page += ".SH \(spec.section.isEmpty ? "ABOVE THE FIRST SECTION" : "[\(spec.section)]")\n"
            }
            page += ".TP\n\\fB\(Roff.escaped(spec.key))\\fR = \\fI\(Roff.escaped(spec.form.range))\\fR\n"
            let help = spec.fileHelp ?? spec.help
            page += Roff.escaped(spec.details.isEmpty ? help : "\(help) \(spec.details)") + "\n"
            let reload = spec.isReloadable ? "A reload is enough" : "A change needs a restart"
            page += Roff.escaped("Default: \(spec.defaultText(defaults)). \(reload).") + "\n"
        }
        return page + Roff.seeAlso(["cache-daemon(8)"])
    }
}
