// Numbers as text for people, without Foundation: fixed decimals, and digits in groups of three. Locale plays no part.

/// `value` with exactly `places` decimals (0 to 9), rounded half away from zero.
///
/// Not a number and infinities give `-`.
public func fixed(_ value: Double, places: Int) -> String {
    invariant(places >= 0 && places <= 9, "places \(places)")
    guard value.isFinite else { return "-" }
    var scale: Int64 = 1
    for _ in 0..<places { scale *= 10 }
    let scaled = (value.magnitude * Double(scale)).rounded()
    // Beyond 2^63 the decimals are long gone: the shortest text says as much.
    guard scaled < 9.2e18 else { return value.description }
    let units = Int64(scaled)
    let sign = value < 0 && units > 0 ? "-" : ""
    if places == 0 { return "\(sign)\(units)" }
    let fraction = String(units % scale)
    return "\(sign)\(units / scale).\(String(repeating: "0", count: places - fraction.count))\(fraction)"
}

/// `value` with commas between groups of three digits: `1,234,567`.
public func grouped(_ value: Int) -> String {
    let digits = String(value.magnitude)
    var text = ""
    for (index, digit) in digits.enumerated() {
        if index > 0, (digits.count - index).isMultiple(of: 3) { text.append(",") }
        text.append(digit)
    }
    return value < 0 ? "-\(text)" : text
}

extension String {
    /// This text with spaces after it up to `width` characters; longer texts stay whole.
    public func padded(to width: Int) -> String {
        count >= width ? self : self + String(repeating: " ", count: width - count)
    }

    /// This text with spaces before it up to `width` characters; longer texts stay whole.
    public func aligned(to width: Int) -> String {
        count >= width ? self : String(repeating: " ", count: width - count) + self
    }
}
