// What a program's command line may hold, as one table: parsing, error messages and `--help` all come from it.
//
// The table knows names and arity only. What a value means, whether options exclude each other, and defaults are the
// program's: it walks the parsed occurrences in order. Each option carries a `Tag` of the program's choice, usually an
// enum case, so that the walk is an exhaustive switch.

/// One option of a program.
public struct Option<Tag: Sendable>: Sendable {
    /// What the program calls the option; comes back with each occurrence.
    public let tag: Tag
    /// The long name without dashes, or nil for options that exist for compatibility in their short form only.
    public let long: String?
    /// The short letter, or nil.
    public let short: Character?
    /// How help names the value, such as `SIZE`; nil for a switch, which takes none.
    public let valueName: String?
    /// One sentence of help.
    public let help: String
    /// The only words that the value may be; empty where it is not one of a few.
    public let choices: [String]

    /// Describes one option; at least one of `long` and `short` is given.
    public init(
        _ tag: Tag, long: String? = nil, short: Character? = nil, value valueName: String? = nil,
        choices: [String] = [], help: String
    ) {
        precondition(long != nil || short != nil, "an option without a name")
        precondition(short?.isASCII ?? true && short != ":" && short != "?" && short != "-", "short letter")
        self.tag = tag
        self.long = long
        self.short = short
        self.valueName = valueName
        self.help = help
        self.choices = choices
    }

    /// The name for messages: `--memory`, or `-m` where there is no long one.
    public var name: String { long.map { "--\($0)" } ?? short.map { "-\($0)" } ?? "" }
}

/// A heading of the help text with the options below it.
public struct OptionGroup<Tag: Sendable>: Sendable {
    /// The heading, such as `Memory`.
    public let title: String
    /// In the order of the help text.
    public let options: [Option<Tag>]

    /// Makes a group.
    public init(_ title: String, _ options: [Option<Tag>]) {
        self.title = title
        self.options = options
    }
}

/// The command line of one program.
public struct OptionTable<Tag: Sendable>: Sendable {
    /// The program's name, as in messages.
    public let program: String
    /// What follows the program's name in the usage line, such as `[OPTION]... [ADDRESS]`.
    public let usage: String
    /// One or two sentences below the usage line.
    public let summary: String
    /// The options by heading.
    public let groups: [OptionGroup<Tag>]
    /// Text below the options: examples, exit codes; may be empty.
    public let footer: String
    /// Words that may stand without an option, for completion.
    public let operands: [String]
    /// All options, in order.
    public let options: [Option<Tag>]
    /// The long names, of those that have one, with their places in `options`.
    let longNames: [LongName]
    /// The short letters with their places in `options`.
    let letters: [(letter: Character, place: Int)]

    /// A long name without dashes.
    struct LongName: Sendable {
        let name: String
        let place: Int
        let takesValue: Bool
    }

    /// Makes a table; no name may occur twice.
    public init(
        program: String, usage: String, summary: String, groups: [OptionGroup<Tag>], footer: String = "",
        operands: [String] = []
    ) {
        self.program = program
        self.usage = usage
        self.summary = summary
        self.groups = groups
        self.footer = footer
        self.operands = operands
        let options = groups.flatMap(\.options)
        self.options = options
        longNames = options.enumerated().compactMap { place, option in
            option.long.map { LongName(name: $0, place: place, takesValue: option.valueName != nil) }
        }
        letters = options.enumerated().compactMap { place, option in option.short.map { ($0, place) } }
        let names = options.compactMap { $0.long.map { "--\($0)" } } + options.compactMap { $0.short.map { "-\($0)" } }
        precondition(Set(names).count == names.count, "a name occurs twice in the option table")
    }
}
