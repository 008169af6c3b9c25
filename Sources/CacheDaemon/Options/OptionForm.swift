// The form of an option's value: how text becomes part of the settings, and how it is shown again.

import Primitives

/// Why a value was refused, without the place where it stood.
struct ValueProblem: Error, Equatable {
    let reason: String

    init(_ reason: String) { self.reason = reason }

    init(_ error: QuantityError) { reason = error.description }
}

/// A field of the settings.
typealias Field<Value> = any WritableKeyPath<Settings, Value> & Sendable

/// One kind of value, bound to the field of the settings that it sets.
struct OptionForm: Sendable {
    /// How help names the value; nil for switches, whose flag takes none.
    let valueName: String?
    /// The accepted values in words.
    let range: String
    /// Reads `text` into the draft.
    let read: @Sendable (_ text: String, inout SettingsDraft) throws(ValueProblem) -> Void
    /// The values as a file would give them; empty when absent.
    let show: @Sendable (Settings) -> [String]
    /// Copies the field from the first to the second settings.
    let copy: @Sendable (Settings, inout Settings) -> Void
    /// Whether the option may be given several times, each adding a value.
    var isList = false
    /// What a switch's flag stands for.
    var flagText = ""
    /// The only words that the value may be; empty where it is not one of a few.
    var choices: [String] = []
    /// Unit of a number without one on the command line; memcached's `-m 64` means MiB.
    var bareFlagUnit = ""

    // MARK: Amounts

    /// A number of bytes.
    static func size(
        _ field: Field<Int>, _ range: ClosedRange<Int>, bareFlagUnit: String = ""
    ) -> OptionForm {
        OptionForm(
            valueName: "SIZE", range: sizeRange(range),
            read: { text, draft throws(ValueProblem) in draft.settings[keyPath: field] = try bytes(text, in: range) },
            show: { [ByteSize(bytes: $0[keyPath: field]).description] }, copy: copier(field), bareFlagUnit: bareFlagUnit
        )
    }

    /// A number of bytes, or no limit.
    static func optionalSize(
        _ field: Field<Int?>, _ range: ClosedRange<Int>
    ) -> OptionForm {
        OptionForm(
            valueName: "SIZE", range: sizeRange(range),
            read: { text, draft throws(ValueProblem) in draft.settings[keyPath: field] = try bytes(text, in: range) },
            show: { $0[keyPath: field].map { [ByteSize(bytes: $0).description] } ?? [] }, copy: copier(field))
    }

    /// A plain number.
    static func count(
        _ field: Field<Int>, _ range: ClosedRange<Int>
    ) -> OptionForm {
        OptionForm(
            valueName: "N", range: "\(range.lowerBound) to \(range.upperBound)",
            read: { text, draft throws(ValueProblem) in draft.settings[keyPath: field] = try number(text, in: range) },
            show: { ["\($0[keyPath: field])"] }, copy: copier(field))
    }

    /// A plain number, or no limit.
    static func optionalCount(
        _ field: Field<Int?>, _ range: ClosedRange<Int>
    ) -> OptionForm {
        OptionForm(
            valueName: "N", range: "\(range.lowerBound) to \(range.upperBound)",
            read: { text, draft throws(ValueProblem) in draft.settings[keyPath: field] = try number(text, in: range) },
            show: { $0[keyPath: field].map { ["\($0)"] } ?? [] }, copy: copier(field))
    }

    /// A duration.
    static func span(
        _ field: Field<TimeSpan>, _ range: ClosedRange<TimeSpan>
    ) -> OptionForm {
        OptionForm(
            valueName: "TIME", range: "\(range.lowerBound) to \(range.upperBound)",
            read: { text, draft throws(ValueProblem) in draft.settings[keyPath: field] = try span(text, in: range) },
            show: { [$0[keyPath: field].description] }, copy: copier(field))
    }

    /// A duration, or no limit.
    static func optionalSpan(
        _ field: Field<TimeSpan?>, _ range: ClosedRange<TimeSpan>
    ) -> OptionForm {
        OptionForm(
            valueName: "TIME", range: "\(range.lowerBound) to \(range.upperBound)",
            read: { text, draft throws(ValueProblem) in draft.settings[keyPath: field] = try span(text, in: range) },
            show: { $0[keyPath: field].map { [$0.description] } ?? [] }, copy: copier(field))
    }

    // MARK: Words

    /// One of a few words.
    static func choice<Choice: RawRepresentable<String> & CaseIterable & Sendable>(
        _ field: Field<Choice>, valueName: String
    ) -> OptionForm {
        let words = Choice.allCases.map(\.rawValue)
        let list = words.dropLast().joined(separator: ", ") + " or " + (words.last ?? "")
        return OptionForm(
            valueName: valueName, range: list,
            read: { text, draft throws(ValueProblem) in
                guard let choice = Choice(rawValue: text) else {
                    throw ValueProblem("'\(text)' is not \(list)")
                }
                draft.settings[keyPath: field] = choice
            }, show: { [$0[keyPath: field].rawValue] }, copy: copier(field), choices: words)
    }

    /// Yes or no in a file; on the command line a switch that stands for `flagMeans`.
    static func toggle(_ field: Field<Bool>, flagMeans: Bool) -> OptionForm {
        OptionForm(
            valueName: nil, range: "yes or no",
            read: { text, draft throws(ValueProblem) in
                switch text {
                case "yes", "true", "on": draft.settings[keyPath: field] = true
                case "no", "false", "off": draft.settings[keyPath: field] = false
                default: throw ValueProblem("'\(text)' is not yes or no")
                }
            }, show: { [$0[keyPath: field] ? "yes" : "no"] }, copy: copier(field), flagText: flagMeans ? "yes" : "no")
    }

    /// Text of at most `bytesMax` bytes, or nothing.
    static func optionalText(
        _ field: Field<String?>, valueName: String, range: String, bytesMax: Int
    ) -> OptionForm {
        OptionForm(
            valueName: valueName, range: range,
            read: { text, draft throws(ValueProblem) in
                draft.settings[keyPath: field] = try self.text(text, bytesMax: bytesMax)
            }, show: { $0[keyPath: field].map { [$0] } ?? [] }, copy: copier(field))
    }

    /// The path of a directory.
    static func directory(_ field: Field<String>) -> OptionForm {
        OptionForm(
            valueName: "DIR", range: "a path",
            read: { text, draft throws(ValueProblem) in
                // PATH_MAX, less the longest name below the directory.
                draft.settings[keyPath: field] = try self.text(text, bytesMax: 4000)
            }, show: { [$0[keyPath: field]].filter { !$0.isEmpty } }, copy: copier(field))
    }

    /// Permission bits in octal.
    static func permissions(_ field: Field<UInt32>) -> OptionForm {
        OptionForm(
            valueName: "MODE", range: "octal, 0 to 777",
            read: { text, draft throws(ValueProblem) in
                let isOctal = !text.isEmpty && text.utf8.count <= 4 && text.utf8.allSatisfy { (48...55).contains($0) }
                guard isOctal, let mode = UInt32(text, radix: 8), mode <= 0o777 else {
                    throw ValueProblem("'\(text)' is not an octal mode from 0 to 777")
                }
                draft.settings[keyPath: field] = mode
            }, show: { [String($0[keyPath: field], radix: 8)] }, copy: copier(field))
    }

    private static func copier<Value>(_ field: Field<Value>) -> @Sendable (Settings, inout Settings) -> Void {
        { source, target in target[keyPath: field] = source[keyPath: field] }
    }

    // MARK: Reading

    private static func sizeRange(_ range: ClosedRange<Int>) -> String {
        "\(ByteSize(bytes: range.lowerBound)) to \(ByteSize(bytes: range.upperBound))"
    }

    private static func bytes(_ text: String, in range: ClosedRange<Int>) throws(ValueProblem) -> Int {
        let size: ByteSize
        do { size = try ByteSize(parsing: text) } catch { throw ValueProblem(error) }
        guard range.contains(size.bytes) else { throw ValueProblem("\(size) is not from \(sizeRange(range))") }
        return size.bytes
    }

    private static func span(_ text: String, in range: ClosedRange<TimeSpan>) throws(ValueProblem) -> TimeSpan {
        let span: TimeSpan
        do { span = try TimeSpan(parsing: text) } catch { throw ValueProblem(error) }
        guard range.contains(span) else {
            throw ValueProblem("\(span) is not from \(range.lowerBound) to \(range.upperBound)")
        }
        return span
    }

    private static func number(_ text: String, in range: ClosedRange<Int>) throws(ValueProblem) -> Int {
        guard !text.isEmpty, text.utf8.allSatisfy({ (48...57).contains($0) }) else {
            throw ValueProblem("'\(text)' is not a whole number")
        }
        // More digits than fit are out of every range.
        guard let number = Int(text), range.contains(number) else {
            throw ValueProblem("\(text) is not from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    static func text(_ text: String, bytesMax: Int) throws(ValueProblem) -> String {
        if text.isEmpty { throw ValueProblem("empty value") }
        if text.utf8.contains(where: { $0 < 32 || $0 == 127 }) { throw ValueProblem("contains a control character") }
        // What a file could not say, a flag must not say either: --print-config prints what was given.
        if text.hasPrefix(";") { throw ValueProblem("begins with ';', which would begin a comment") }
        if text.contains(" ;") || text.hasPrefix(" ") || text.hasSuffix(" ") {
            throw ValueProblem("contains ' ;' or begins or ends with a space")
        }
        if text.utf8.count > bytesMax { throw ValueProblem("longer than \(bytesMax) bytes") }
        return text
    }
}
