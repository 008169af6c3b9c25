// What can be wrong with a command line's shape. Wrong values are the program's to refuse.

/// Why a command line was refused.
public enum ArgumentsError: Error, Equatable, Sendable, CustomStringConvertible {
    /// No such option; `nearest` is a name that it may be a misspelling of.
    case unknownOption(String, nearest: String?)
    /// An abbreviation that fits several options.
    case ambiguousOption(String, candidates: [String])
    /// The option's value is absent.
    case missingValue(String, valueName: String)
    /// `--switch=value` for an option that takes none.
    case unexpectedValue(String)

    /// One line for people, without a full stop.
    public var description: String {
        switch self {
        case .unknownOption(let name, nil): "unknown option '\(name)'"
        case .unknownOption(let name, let nearest?): "unknown option '\(name)'; did you mean '\(nearest)'?"
        case .ambiguousOption(let name, let candidates):
            "option '\(name)' is ambiguous: \(candidates.joined(separator: ", "))"
        case .missingValue(let name, let valueName): "option '\(name)' needs a value: \(valueName)"
        case .unexpectedValue(let name): "option '\(name)' takes no value"
        }
    }
}
