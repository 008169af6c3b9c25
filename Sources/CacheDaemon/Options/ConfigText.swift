// The configuration file as text, every option explained: what --print-config prints, and what
// config/cache-daemon.conf holds.

/// Writes configuration files.
enum ConfigText {
    private static let columns = 100

    /// The file that sets what is in `given` to the values of `settings`, and shows every other option commented out.
    static func make(_ settings: Settings, given: Set<String>, coreCount: Int) -> String {
        let defaults = Launch.defaults(coreCount: coreCount)
        var text = comment(
            """
            Configuration of cache-daemon: cache-daemon --config FILE. Made by cache-daemon --print-config. Lines that \
            begin with # or ; are comments, and so is what follows " ;" after a value. An option that is not set has \
            its default. Flags beat this file. Sizes take B, KiB, MiB, GiB, TiB; times take ms, s, m, h, d. A limit \
            that is absent does not exist; 0 never means "unlimited".
            """)
        var section = ""
        for (spec, explanation) in zip(OptionSpec.table, explanations) {
            if spec.section != section {
                section = spec.section
                text += "\n[\(section)]\n"
            }
            text += explanation
            if given.contains(spec.name) {
                text += spec.form.show(settings).map { "\(spec.key) = \($0)\n" }.joined()
            } else {
                let value = spec.sample ?? spec.form.show(defaults).first ?? ""
                text += "#\(spec.key) = \(value)\n"
            }
        }
        return text
    }

    /// What stands above each option; no default depends on the machine in words.
    private static let explanations: [String] = {
        let defaults = Launch.defaults(coreCount: 1)
        return OptionSpec.table.map { spec in
            let help = spec.fileHelp ?? spec.help
            let prose = spec.details.isEmpty ? help : "\(help) \(spec.details)"
            return "\n" + comment(prose) + facts(spec, defaults)
        }
    }()

    /// The lines below an option's explanation: values, default, flag, when a change takes effect.
    private static func facts(_ spec: OptionSpec, _ defaults: Settings) -> String {
        let flags = (spec.short.map { "-\($0), " } ?? "") + "--\(spec.flag)"
        let reload = spec.isReloadable ? "a reload" : "a restart"
        return comment("Values: \(spec.form.range). Default: \(spec.defaultText(defaults)).")
            + comment("Flag: \(flags). A change needs \(reload).")
    }

    private static func comment(_ prose: String) -> String {
        var lines: [String] = []
        var line = "#"
        // Counted along: `line.count` walks over all of its characters.
        var width = 1
        for word in prose.split(separator: " ") {
            let wordWidth = word.count
            if width + 1 + wordWidth > columns {
                lines.append(line)
                line = "#"
                width = 1
            }
            line += " " + word
            width += 1 + wordWidth
        }
        lines.append(line)
        return lines.map { $0 + "\n" }.joined()
    }
}
