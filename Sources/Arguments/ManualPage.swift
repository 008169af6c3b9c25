// A program's manual page, made from its option table, in the man macros of groff: see man(7) and groff_man(7).
//
// Bold for what is typed, italics for what stands for something. No history and no dates, so that the same table always
// gives the same page.

/// What a manual page says beyond the options.
public struct ManualText: Sendable {
    /// The section of the manual: 1 for commands, 8 for daemons.
    public let section: Int
    /// The version, as in the footer of the page.
    public let version: String
    /// One line, as whatis(1) shows it.
    public let purpose: String
    /// Headings with paragraphs that come after the options; an empty line separates paragraphs, and lines that begin
    /// with four spaces are shown as they are.
    public let chapters: [(title: String, text: String)]
    /// Other pages, such as `cache-stats(1)`.
    public let seeAlso: [String]

    /// Collects the parts of a page.
    public init(
        section: Int, version: String, purpose: String, chapters: [(title: String, text: String)], seeAlso: [String]
    ) {
        self.section = section
        self.version = version
        self.purpose = purpose
        self.chapters = chapters
        self.seeAlso = seeAlso
    }
}

extension OptionTable {
    /// The program's manual page.
    public func manualPage(_ text: ManualText) -> String {
        var page = Roff.title(program, text)
        page += ".SH SYNOPSIS\n.B \(Roff.escaped(program))\n\(Roff.escaped(usage))\n"
        page += ".SH DESCRIPTION\n\(Roff.escaped(summary))\n.SH OPTIONS\n"
        for group in groups {
            page += ".SS \"\(Roff.escaped(group.title))\"\n"
            for option in group.options { page += Roff.option(option) }
        }
        page += Roff.chapters(text.chapters)
        return page + Roff.seeAlso(text.seeAlso)
    }
}

/// The pieces of a page.
public enum Roff {
    /// The head of a page.
    public static func title(_ name: String, _ text: ManualText) -> String {
        ".TH \(escaped(name.uppercased())) \(text.section) \"\" \"\(escaped(text.version))\"\n"
            + ".nh\n.ad l\n.SH NAME\n\(escaped(name)) \\- \(escaped(text.purpose))\n"
    }

    fileprivate static func option<Tag>(_ option: Option<Tag>) -> String {
        let value = option.valueName.map { "\\fI\(escaped($0))\\fR" }
        var names: [String] = []
        if let short = option.short {
            names.append("\\fB\\-\(escaped(String(short)))\\fR" + (value.map { " \($0)" } ?? ""))
        }
        if let long = option.long { names.append("\\fB\\-\\-\(escaped(long))\\fR" + (value.map { "=\($0)" } ?? "")) }
        return ".TP\n\(names.joined(separator: ", "))\n\(escaped(option.help))\n"
    }

    /// Headings with their paragraphs.
    public static func chapters(_ chapters: [(title: String, text: String)]) -> String {
        var page = ""
        for chapter in chapters {
            page += ".SH \(escaped(chapter.title.uppercased()))\n"
            var isLiteral = false
            for line in chapter.text.split(separator: "\n", omittingEmptySubsequences: false) {
                let literal = line.hasPrefix("    ")
                if literal != isLiteral { page += literal ? ".PP\n.nf\n" : ".fi\n" }
                isLiteral = literal
                page += line.isEmpty ? ".PP\n" : escaped(String(literal ? line : line.drop { $0 == " " })) + "\n"
            }
            if isLiteral { page += ".fi\n" }
        }
        return page
    }

    /// The last chapter.
    public static func seeAlso(_ pages: [String]) -> String {
        let names = pages.map { page in
            let parts = page.split(separator: "(", maxSplits: 1)
            return "\\fB\(escaped(String(parts[0])))\\fR" + (parts.count > 1 ? "(\(parts[1])" : "")
        }
        return ".SH SEE ALSO\n\(names.joined(separator: ", "))\n"
    }

    /// Text that groff shows as it is.
    public static func escaped(_ text: String) -> String {
        let plain = text.replacing("\\", with: "\\e").replacing("-", with: "\\-").replacing("\"", with: "\\(dq")
        return plain.split(separator: "\n", omittingEmptySubsequences: false).map { line in
            line.hasPrefix(".") || line.hasPrefix("'") ? "\\&\(line)" : String(line)
        }.joined(separator: "\n")
    }
}
