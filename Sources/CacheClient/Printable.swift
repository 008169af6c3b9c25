// Text of servers, made safe to show: a server may be hostile, and a terminal obeys what it is shown.
//
// Control characters become `\x1b` and the like; everything else stays as it is.

extension StringProtocol {
    /// The text without what could move a terminal's cursor, name its window or make it answer.
    public var printable: String {
        func isControl(_ scalar: Unicode.Scalar) -> Bool { scalar.value < 32 || (127..<160).contains(scalar.value) }
        guard unicodeScalars.contains(where: isControl) else { return String(self) }
        var shown = ""
        for scalar in unicodeScalars {
            shown += isControl(scalar) ? "\\x" + String(scalar.value, radix: 16) : String(scalar)
        }
        return shown
    }
}
