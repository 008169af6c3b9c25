// One row of the option table.

import Arguments

/// Everything there is to know about one option: the file, the command line, `--help`, the sample configuration and the
/// manuals are made from it.
struct OptionSpec: Sendable {
    /// The headings of `--help`.
    enum Group: String, CaseIterable, Sendable {
        case network = "Network"
        case access = "Access"
        case tls = "TLS"
        case memory = "Memory tier"
        case disk = "Disk tier"
        case life = "Life of entries"
        case log = "Log"
    }

    /// `section.key`, or `key` for what stands above the sections.
    let name: String
    /// The long flag, without dashes.
    let flag: String
    /// The short flag; memcached's letter where memcached has the option.
    let short: Character?
    let group: Group
    let form: OptionForm
    /// Whether a reload takes a changed value over.
    ///
    /// Otherwise it waits for the next start.
    let isReloadable: Bool
    /// What absence means, in words; nil where the default is a plain value.
    let absence: String?
    /// The value that the sample configuration shows where there is no default.
    let sample: String?
    /// One sentence, for `--help`.
    let help: String
    /// The same for the sample configuration, where the flag means the opposite of the key.
    let fileHelp: String?
    /// More sentences, for the sample configuration.
    let details: String

    static func option(
        _ name: String, flag: String, short: Character? = nil, _ group: Group, _ form: OptionForm,
        reloads: Bool = false, absence: String? = nil, sample: String? = nil, _ help: String, _ details: String = "",
        inFile fileHelp: String? = nil
    ) -> OptionSpec {
        OptionSpec(
            name: name, flag: flag, short: short, group: group, form: form, isReloadable: reloads, absence: absence,
            sample: sample, help: help, fileHelp: fileHelp, details: details)
    }

    /// The section that the option stands in; empty above the first one.
    var section: String { name.contains(".") ? String(name.prefix { $0 != "." }) : "" }

    /// The name within the section.
    var key: String { name.split(separator: ".").last.map(String.init) ?? name }

    /// The default in words: the value of `defaults`, or what absence means.
    func defaultText(_ defaults: Settings) -> String { absence ?? form.show(defaults).joined(separator: ", ") }
}
