// Completion of a program's command line in bash, zsh and fish, made from its option table.
//
// Options, the words that an option takes, and the words that may stand without one. Values that name files are
// completed as files: the table's value names FILE, DIR and PATH say which.

/// The shells that can be served.
public enum Shell: String, Sendable, CaseIterable {
    /// GNU bash with the bash-completion package.
    case bash
    /// zsh, as an autoloaded function.
    case zsh
    /// fish.
    case fish
}

extension OptionTable {
    /// The completion script for a shell.
    public func completion(for shell: Shell) -> String {
        switch shell {
        case .bash: bash
        case .zsh: zsh
        case .fish: fish
        }
    }

    private static var fileNames: Set<String> { ["FILE", "PATH", "ADDRESS"] }

    // MARK: bash

    private var bash: String {
        let function = "_" + program.replacing("-", with: "_")
        let names = options.flatMap { option in
            (option.long.map { ["--\($0)"] } ?? []) + (option.short.map { ["-\($0)"] } ?? [])
        }
        var cases = ""
        for option in options {
            guard let value = option.valueName else { continue }
            let patterns = [option.long.map { "--\($0)" }, option.short.map { "-\($0)" }].compactMap { $0 }
            let reply: String
            if !option.choices.isEmpty {
                reply = "COMPREPLY=($(compgen -W \"\(option.choices.joined(separator: " "))\" -- \"$cur\"))"
            } else if value == "DIR" {
                reply = "_filedir -d"
            } else if Self.fileNames.contains(value) {
                reply = "_filedir"
            } else {
                reply = ":"
            }
            cases += "        \(patterns.joined(separator: " | "))) \(reply); return ;;\n"
        }
        return """
            # bash completion for \(program); made by \(program) --generate bash
            \(function)() {
                local cur prev words cword split
                _init_completion -s || return
                case "$prev" in
            \(cases)    esac
                $split && return
                if [[ $cur == -* ]]; then
                    COMPREPLY=($(compgen -W "\(names.joined(separator: " "))" -- "$cur"))
                else
                    COMPREPLY=($(compgen -W "\(operands.joined(separator: " "))" -- "$cur"))
                fi
            }
            complete -F \(function) \(program)

            """
    }

    // MARK: zsh

    private var zsh: String {
        var lines: [String] = []
        for option in options {
            let help = Self.quoted(option.help.replacing("[", with: "\\[").replacing("]", with: "\\]"))
            let names = [option.short.map { "-\($0)" }, option.long.map { "--\($0)" }].compactMap { $0 }
            for name in names {
                let sign = option.valueName == nil ? "" : name.hasPrefix("--") ? "=" : "+"
                lines.append("    '*\(name)\(sign)[\(help)]\(Self.action(option))'")
            }
        }
        if !operands.isEmpty { lines.append("    '*:word:(\(operands.joined(separator: " ")))'") }
        return "#compdef \(program)\n# Made by \(program) --generate zsh\n_arguments -s -S \\\n"
            + lines.joined(separator: " \\\n") + "\n"
    }

    private static func action(_ option: Option<Tag>) -> String {
        guard let value = option.valueName else { return "" }
        if !option.choices.isEmpty { return ":\(value):(\(option.choices.joined(separator: " ")))" }
        if value == "DIR" { return ":\(value):_files -/" }
        let name = value.filter { $0.isLetter || $0.isNumber }
        return fileNames.contains(value) ? ":\(name):_files" : ":\(name):"
    }

    // MARK: fish

    private var fish: String {
        var text = "# fish completion for \(program); made by \(program) --generate fish\ncomplete -c \(program) -f\n"
        for option in options {
            var line = "complete -c \(program)"
            if let short = option.short { line += " -s \(short)" }
            if let long = option.long { line += " -l \(long)" }
            if let value = option.valueName {
                line += Self.fileNames.contains(value) || value == "DIR" ? " -r -F" : " -x"
                if !option.choices.isEmpty { line += " -a '\(option.choices.joined(separator: " "))'" }
            }
            text += line + " -d '\(Self.fishQuoted(option.help))'\n"
        }
        if !operands.isEmpty { text += "complete -c \(program) -a '\(operands.joined(separator: " "))'\n" }
        return text
    }

    private static func fishQuoted(_ text: String) -> String {
        text.replacing("\\", with: "\\\\").replacing("'", with: "\\'")
    }

    private static func quoted(_ text: String) -> String {
        text.replacing("'", with: "'\\''").replacing(":", with: "\\:")
    }
}
