// Why a number with a unit was refused, and the one parser that sizes and durations share.
//
// Only exact integers are taken: no sign, no fraction, no exponent, no digit grouping. The messages name the text that
// was refused and what would have been right; the caller adds where it stood (option, file and line).

/// Why a size or a duration could not be read.
public enum QuantityError: Error, Equatable, Sendable, CustomStringConvertible {
    /// There is no text at all.
    case empty
    /// The text does not begin with a decimal digit.
    case notANumber(String)
    /// A number without the unit that it needs. `units` lists those that exist.
    case missingUnit(String, units: String)
    /// The unit is not one that exists. `units` lists those that do.
    case unknownUnit(String, unit: String, units: String)
    /// The amount does not fit 63 bits of the smallest unit.
    case tooLarge(String)

    /// One line for people, without a full stop.
    public var description: String {
        switch self {
        case .empty: "empty value"
        case .notANumber(let text): "'\(text)' is not a whole number with a unit"
        case .missingUnit(let text, let units): "'\(text)' needs a unit: \(units)"
        case .unknownUnit(let text, let unit, let units): "'\(text)' has the unknown unit '\(unit)'; use \(units)"
        case .tooLarge(let text): "'\(text)' is too large"
        }
    }
}

/// Reads `NUMBER [space] UNIT` and returns number times scale.
///
/// `scale` maps the unit as written, empty when absent, to its size; nil refuses it.
/// - Throws: `QuantityError` for anything but an exact integer, a known unit and a product below 2^63.
func parseQuantity(
    _ text: String, units: String, scale: (String) -> Int64?
) throws(QuantityError) -> Int64 {
    if text.isEmpty { throw .empty }
    var number: Int64 = 0
    var digits = 0
    for byte in text.utf8 {
        guard byte >= 48, byte <= 57 else { break }
        let (tens, overflowTimes) = number.multipliedReportingOverflow(by: 10)
        let (sum, overflowPlus) = tens.addingReportingOverflow(Int64(byte - 48))
        if overflowTimes || overflowPlus { throw .tooLarge(text) }
        number = sum
        digits += 1
    }
    if digits == 0 { throw .notANumber(text) }
    var rest = text.utf8.dropFirst(digits)
    // "64 MiB" is what people write in files; a lone trailing space is not.
    if rest.count > 1, rest.first == 32 { rest = rest.dropFirst() }
    let unit = String(Substring(rest))
    guard let scale = scale(unit) else {
        if unit.isEmpty { throw .missingUnit(text, units: units) }
        throw .unknownUnit(text, unit: unit, units: units)
    }
    let (product, overflow) = number.multipliedReportingOverflow(by: scale)
    if overflow { throw .tooLarge(text) }
    return product
}
