// The `--help` text of an option table: usage, summary, options in aligned columns wrapped at 80 characters, footer.

extension OptionTable {
    /// The whole text, ending in a newline.
    public var helpText: String {
        var text = "Usage: \(program)\(usage.isEmpty ? "" : " ")\(usage)\n"
        if !summary.isEmpty { text += Self.wrap(summary, indent: 0) + "\n" }
        let widest = options.map { Self.label($0).count }.max() ?? 0
        // A long label gets a line of its own rather than pushing everybody's help to the right edge.
        let column = min(widest, 30) + 2
        for group in groups where !group.options.isEmpty {
            text += "\n\(group.title):\n"
            for option in group.options { text += Self.line(option, column: column) }
        }
        if !footer.isEmpty { text += "\n\(footer)\n" }
        return text
    }

    private static func label(_ option: Option<Tag>) -> String {
        var label = option.short.map { "  -\($0)" } ?? "    "
        if let long = option.long { label += (option.short == nil ? "  " : ", ") + "--\(long)" }
        if let valueName = option.valueName { label += " \(valueName)" }
        return label
    }

    private static func line(_ option: Option<Tag>, column: Int) -> String {
        let label = label(option)
        let help = wrap(option.help, indent: column)
        if label.count + 2 > column {
            return "\(label)\n\(String(repeating: " ", count: column))\(help)\n"
        }
        return label + String(repeating: " ", count: column - label.count) + help + "\n"
    }

    /// Breaks at spaces so that lines end before column 80; the first line carries no indent.
    private static func wrap(_ text: String, indent: Int) -> String {
        var result = ""
        var used = indent
        for word in text.split(separator: " ") {
            if used > indent, used + 1 + word.count > 79 {
                result += "\n" + String(repeating: " ", count: indent)
                used = indent
            } else if used > indent {
                result += " "
                used += 1
            }
            result += word
            used += word.count
        }
        return result
    }
}
