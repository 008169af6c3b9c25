// Writes JSON (RFC 8259) in one line. Commas are its business, nesting the caller's: a debug build traps on a key
// outside of an object, a value without a key, or an end without a beginning.

/// Builds one JSON text; not for the request path.
public struct JSONWriter: Sendable {
    private enum Container { case object, array }

    /// What was written so far.
    public private(set) var text = ""
    private var open: [Container] = []
    private var needsComma = false
    private var hasKey = false

    /// An empty text.
    public init() {}

    /// Begins an object, as a value.
    public mutating func beginObject() { begin(.object, "{") }

    /// Ends the innermost container, which is an object.
    public mutating func endObject() { end(.object, "}") }

    /// Begins an array, as a value.
    public mutating func beginArray() { begin(.array, "[") }

    /// Ends the innermost container, which is an array.
    public mutating func endArray() { end(.array, "]") }

    /// The name of the next value.
    public mutating func key(_ name: String) {
        expensiveInvariant(open.last == .object && !hasKey, "JSON key '\(name)' outside of an object")
        if needsComma { text += "," }
        quote(name)
        text += ":"
        needsComma = false
        hasKey = true
    }

    /// A string.
    public mutating func string(_ value: String) {
        beginValue()
        quote(value)
        needsComma = true
    }

    /// A whole number.
    public mutating func integer(_ value: some BinaryInteger) { literal(String(value)) }

    /// A number; null where JSON has none, as for infinities.
    public mutating func number(_ value: Double) { literal(value.isFinite ? value.description : "null") }

    /// A number with `places` decimals.
    public mutating func number(_ value: Double, places: Int) {
        literal(value.isFinite ? fixed(value, places: places) : "null")
    }

    /// True or false.
    public mutating func boolean(_ value: Bool) { literal(value ? "true" : "false") }

    /// Null.
    public mutating func null() { literal("null") }

    /// A number given as text if it is one in JSON's sense, else a string.
    public mutating func numberOrString(_ value: String) {
        if Self.isNumber(value) { literal(value) } else { string(value) }
    }

    /// Whether `text` is a JSON number without an exponent: `-12`, `0.25`; not `007`, `+1`, `1.`.
    public static func isNumber(_ text: String) -> Bool {
        var rest = Substring(text).utf8
        if rest.first == 45 { rest = rest.dropFirst() }
        let whole = rest.prefix { $0 >= 48 && $0 <= 57 }
        if whole.isEmpty || (whole.count > 1 && whole.first == 48) { return false }
        rest = rest.dropFirst(whole.count)
        if rest.isEmpty { return true }
        guard rest.first == 46 else { return false }
        let fraction = rest.dropFirst()
        return !fraction.isEmpty && fraction.allSatisfy { $0 >= 48 && $0 <= 57 }
    }

    private mutating func literal(_ value: String) {
        beginValue()
        text += value
        needsComma = true
    }

    private mutating func begin(_ container: Container, _ mark: String) {
        beginValue()
        text += mark
        open.append(container)
        needsComma = false
    }

    private mutating func end(_ container: Container, _ mark: String) {
        expensiveInvariant(open.last == container && !hasKey, "JSON container ends that did not begin")
        open.removeLast()
        text += mark
        needsComma = true
    }

    private mutating func beginValue() {
        expensiveInvariant(open.last != .object || hasKey, "JSON value without a key")
        if needsComma { text += "," }
        needsComma = false
        hasKey = false
    }

    private mutating func quote(_ value: String) {
        text += "\""
        for scalar in value.unicodeScalars {
            switch scalar {
            case "\"": text += "\\\""
            case "\\": text += "\\\\"
            case "\n": text += "\\n"
            case "\r": text += "\\r"
            case "\t": text += "\\t"
            case "\0"..<" ":
                let hex = String(scalar.value, radix: 16)
                text += "\\u" + String(repeating: "0", count: 4 - hex.count) + hex
            default: text.unicodeScalars.append(scalar)
            }
        }
        text += "\""
    }
}
