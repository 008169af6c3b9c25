// Just enough Swift to look at code without comments and strings, and to measure functions.
//
// It knows line and nested block comments, plain, raw and multi-line string literals, and interpolations (whose code it
// keeps). It does not know regular expression literals: the product has none.

/// Text tools for Swift sources.
enum SwiftCode {
    /// `text` with comments and the contents of string literals replaced by spaces.
    ///
    /// Line breaks stay where they are.
    static func withoutCommentsAndStrings(_ text: String) -> String {
        var scanner = Scanner(Array(text.utf8))
        scanner.scanCode(untilParenthesisCloses: false)
        return String(decoding: scanner.output, as: UTF8.self)
    }

    /// A function's place and length.
    struct Function: Equatable {
        let name: String
        /// Line of the declaration, counted from 1.
        let line: Int
        /// Lines from the declaration to the closing brace, both included.
        let lineCount: Int
    }

    /// The functions, initialisers, deinitialisers and subscripts that have a body.
    ///
    /// `lines` are blanked code lines.
    static func functions(_ lines: [Substring]) -> [Function] {
        let code = Array(lines.joined(separator: "\n").utf8)
        var found: [Function] = []
        var line = 1
        var index = 0
        while index < code.count {
            if code[index] == newline { line += 1 }
            guard isWordStart(code, index) else {
                index += 1
                continue
            }
            let word = self.word(code, index)
            if declarators.contains(word), index == 0 || code[index - 1] != dot,
                let lineCount = bodyLineCount(code, index + word.utf8.count)
            {
                found.append(Function(name: name(code, index, word), line: line, lineCount: lineCount))
            }
            index += word.utf8.count
        }
        return found
    }

    private static let declarators: Set<String> = ["func", "init", "deinit", "subscript"]
    private static let declarationStarts: Set<String> = [
        "func", "init", "deinit", "subscript", "var", "let", "case", "static", "mutating", "associatedtype",
        "typealias",
        "struct", "class", "enum", "protocol", "extension", "public", "private", "internal", "fileprivate", "import",
    ]

    private static let newline = UInt8(ascii: "\n")
    private static let dot = UInt8(ascii: ".")

    private static func isWord(_ byte: UInt8) -> Bool {
        (byte >= UInt8(ascii: "a") && byte <= UInt8(ascii: "z"))
            || (byte >= UInt8(ascii: "A") && byte <= UInt8(ascii: "Z"))
            || (byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9")) || byte == UInt8(ascii: "_") || byte >= 0x80
    }

    private static func isWordStart(_ code: [UInt8], _ index: Int) -> Bool {
        isWord(code[index]) && (index == 0 || !isWord(code[index - 1]))
    }

    private static func word(_ code: [UInt8], _ index: Int) -> String {
        String(decoding: code[index...].prefix(while: isWord), as: UTF8.self)
    }

    private static func name(_ code: [UInt8], _ index: Int, _ word: String) -> String {
        guard word == "func" else { return word }
        let rest = code[(index + word.utf8.count)...].drop { $0 == UInt8(ascii: " ") || $0 == newline }
        return String(decoding: rest.prefix { $0 != UInt8(ascii: "(") && $0 != UInt8(ascii: "<") }, as: UTF8.self)
            .split(separator: " ").first.map(String.init) ?? word
    }

    /// Lines from `start` to the end of the body that begins after it; nil when there is no body.
    private static func bodyLineCount(_ code: [UInt8], _ start: Int) -> Int? {
        var parentheses = 0
        var braces = 0
        var lineCount = 1
        for index in start..<code.count {
            switch code[index] {
            case newline: lineCount += 1
            case UInt8(ascii: "("), UInt8(ascii: "["): parentheses += 1
            case UInt8(ascii: ")"), UInt8(ascii: "]"): parentheses -= 1
            case UInt8(ascii: "{") where parentheses <= 0 || braces > 0: braces += 1
            case UInt8(ascii: "}") where parentheses <= 0 || braces > 0:
                braces -= 1
                if braces == 0 { return lineCount }
                if braces < 0 { return nil }
            default:
                if braces == 0, parentheses == 0, lineCount > 1, isWordStart(code, index),
                    declarationStarts.contains(word(code, index))
                {
                    return nil
                }
            }
        }
        return nil
    }

    private struct Scanner {
        /// The bytes at which something other than plain code can begin.
        private static let marks = Array("/#\"()".utf8)

        let bytes: [UInt8]
        var output: [UInt8]
        var position = 0

        init(_ bytes: [UInt8]) {
            self.bytes = bytes
            output = bytes
        }

        /// Whether `literal` stands at `offset` from here.
        func sees(_ literal: StaticString, at offset: Int = 0) -> Bool {
            let count = literal.utf8CodeUnitCount
            guard position + offset + count <= bytes.count else { return false }
            return (0..<count).allSatisfy { bytes[position + offset + $0] == literal.utf8Start[$0] }
        }

        mutating func blank() {
            if bytes[position] != newline { output[position] = UInt8(ascii: " ") }
            position += 1
        }

        mutating func scanCode(untilParenthesisCloses: Bool) {
            var depth = 0
            while position < bytes.count {
                if !Self.marks.contains(bytes[position]) {
                    position += 1
                } else if sees("//") {
                    while position < bytes.count, bytes[position] != newline { blank() }
                } else if sees("/*") {
                    scanBlockComment()
                } else if let hashes = openingHashes() {
                    scanString(hashes)
                } else {
                    if sees("(") { depth += 1 }
                    if sees(")") {
                        depth -= 1
                        if depth < 0, untilParenthesisCloses { return }
                    }
                    position += 1
                }
            }
        }

        /// The number of `#` before a string literal that begins here; nil if none begins here.
        private func openingHashes() -> Int? {
            var hashes = 0
            while sees("#", at: hashes) { hashes += 1 }
            return sees("\"", at: hashes) ? hashes : nil
        }

        private mutating func scanBlockComment() {
            var depth = 0
            repeat {
                if sees("/*") {
                    depth += 1
                    blank()
                } else if sees("*/") {
                    depth -= 1
                    blank()
                }
                if position < bytes.count { blank() }
            } while depth > 0 && position < bytes.count
        }

        private func hashesFollow(_ offset: Int, _ hashes: Int) -> Bool {
            (0..<hashes).allSatisfy { sees("#", at: offset + $0) }
        }

        private mutating func scanString(_ hashes: Int) {
            position += hashes
            let isMultiline = sees("\"\"\"")
            position += isMultiline ? 3 : 1
            while position < bytes.count {
                if sees("\\"), hashesFollow(1, hashes) {
                    let isInterpolation = sees("(", at: 1 + hashes)
                    for _ in 0...(1 + hashes) where position < bytes.count { blank() }
                    if isInterpolation {
                        scanCode(untilParenthesisCloses: true)
                        if position < bytes.count { blank() }
                    }
                } else if isMultiline
                    ? sees("\"\"\"") && hashesFollow(3, hashes) : sees("\"") && hashesFollow(1, hashes)
                {
                    position += (isMultiline ? 3 : 1) + hashes
                    return
                } else if !isMultiline, bytes[position] == newline {
                    return
                } else {
                    blank()
                }
            }
        }
    }
}
