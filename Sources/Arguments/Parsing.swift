// Command lines to occurrences, by glibc's getopt_long: so bundled letters (`-vv`), joined values (`-m64`,
// `--memory=1GiB`), unambiguous abbreviations, options after operands and `--` all work as everywhere else on the
// system.
//
// getopt keeps its place in global variables; one lock round each parse makes `parse` safe to call from any thread, as
// tests do. Nothing else of ours may call getopt. Source: getopt_long(3).

import CGetopt
import Glibc
import Primitives

/// What a command line said, in the order in which it said it.
public struct ParsedArguments<Tag: Sendable>: Sendable {
    /// One option as given.
    public struct Occurrence: Sendable {
        /// The option.
        public let option: Option<Tag>
        /// Its value; nil exactly for switches.
        public let value: String?
    }

    /// Options with values, in order; the same option may occur several times.
    public let occurrences: [Occurrence]
    /// Arguments that belong to no option, in order.
    public let operands: [String]
}

/// Held while getopt's global variables are in use.
private let getoptLock = Guarded((), rank: .leaf)

/// Long options return this plus their index, out of the way of short letters.
private let longBase: Int32 = 256

extension OptionTable {
    /// Parses `arguments`, which do not begin with the program's name.
    ///
    /// - Throws: `ArgumentsError` for the first thing that is wrong.
    public func parse(_ arguments: [String]) throws(ArgumentsError) -> ParsedArguments<Tag> {
        let result: Result<ParsedArguments<Tag>, ArgumentsError> = getoptLock.withLock { _ in run(arguments) }
        return try result.get()
    }

    private func run(_ arguments: [String]) -> Result<ParsedArguments<Tag>, ArgumentsError> {
        let strings = CStrings([program] + arguments)
        let names = CStrings(longNames.map(\.name))
        // A leading colon asks for ':' instead of '?' where a value is missing.
        var accepted = ":"
        for (letter, place) in letters {
            accepted.append(letter)
            if options[place].valueName != nil { accepted += ":" }
        }
        // SAFETY: `names` outlives `longOptions`, and `strings` every use of argv; getopt permutes the pointer array
        // only, which belongs to `strings`.
        var longOptions: [option] = unsafe []
        for (index, long) in longNames.enumerated() {
            let code = longBase + Int32(long.place)
            unsafe longOptions.append(
                option(name: names[index], has_arg: long.takesValue ? 1 : 0, flag: nil, val: code))
        }
        unsafe longOptions.append(option())
        getopt_restart()
        var occurrences: [ParsedArguments<Tag>.Occurrence] = []
        while true {
            let code = unsafe getopt_long(strings.count, strings.base, accepted, longOptions, nil)
            if code == -1 { break }
            guard code != 63, code != 58, let entry = find(code) else {
                // getopt works in bytes: amid a letter of several bytes, it has not moved past the argument yet.
                let culprit = getopt_culprit()
                let amidLetter = culprit < 0 || (culprit >= 128 && culprit < longBase)
                let argument = strings.text(getopt_index() - (amidLetter ? 0 : 1))
                return .failure(refusal(of: culprit, argument: argument))
            }
            let value = unsafe entry.valueName == nil ? nil : getopt_value().map { unsafe String(cString: $0) }
            occurrences.append(.init(option: entry, value: value))
        }
        let operands = (getopt_index()..<strings.count).map { strings.text($0) }
        return .success(ParsedArguments(occurrences: occurrences, operands: operands))
    }

    private func find(_ code: Int32) -> Option<Tag>? {
        if code >= longBase { return options[Int(code - longBase)] }
        guard let byte = UInt8(exactly: code) else { return nil }
        return letters.first { $0.letter.asciiValue == byte }.map { options[$0.place] }
    }

    /// What was wrong, from getopt's `optopt` and the argument it stopped at.
    private func refusal(of culprit: Int32, argument: String) -> ArgumentsError {
        let known = culprit == 0 ? nil : find(culprit)
        if let known, let valueName = known.valueName {
            // A short name is what the user typed, even where a long one exists.
            let name = culprit < longBase ? "-\(known.short.map(String.init) ?? "")" : known.name
            return .missingValue(name, valueName: valueName)
        }
        if let known { return .unexpectedValue(known.name) }
        if culprit != 0 {
            let letter = UInt8(exactly: culprit).flatMap { $0 < 128 ? "-\(Character(UnicodeScalar($0)))" : nil }
            return .unknownOption(letter ?? argument, nearest: nil)
        }
        let typed = String(argument.prefix { $0 != "=" })
        let names = longNames.map { "--\($0.name)" }
        let candidates = names.filter { $0.hasPrefix(typed) }
        if candidates.count > 1 { return .ambiguousOption(typed, candidates: candidates) }
        // The distance is at least the difference in length, so that long words need not be compared at all.
        let nearest = names.filter { abs($0.utf8.count - typed.utf8.count) <= distanceMax }
            .map { ($0, editDistance($0, typed)) }.min { $0.1 < $1.1 }
        return .unknownOption(typed, nearest: nearest.flatMap { $0.1 <= distanceMax ? $0.0 : nil })
    }
}

/// How far a name may be from what was typed to be meant.
private let distanceMax = 2

/// Insertions, deletions and substitutions from `left` to `right` (Levenshtein), for "did you mean".
private func editDistance(_ left: String, _ right: String) -> Int {
    let right = Array(right.utf8)
    var row = Array(0...right.count)
    for (line, byte) in left.utf8.enumerated() {
        var diagonal = row[0]
        row[0] = line + 1
        for column in right.indices {
            let above = row[column + 1]
            row[column + 1] = min(above + 1, row[column] + 1, diagonal + (byte == right[column] ? 0 : 1))
            diagonal = above
        }
    }
    return row[right.count]
}

/// Owns a null-terminated array of C strings, as argv is.
@safe
private struct CStrings: ~Copyable {
    let base: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>
    private let total: Int

    init(_ strings: [String]) {
        total = strings.count
        unsafe base = .allocate(capacity: total + 1)
        // SAFETY: slots 0..<total hold strdup'd strings, freed in deinit; getopt may permute them, never drops one.
        for (index, string) in strings.enumerated() { unsafe (base + index).initialize(to: strdup(string)) }
        unsafe (base + total).initialize(to: nil)
    }

    deinit {
        for index in 0..<total { unsafe free(base[index]) }
        unsafe base.deallocate()
    }

    var count: Int32 { Int32(total) }

    subscript(index: Int) -> UnsafePointer<CChar>? { unsafe base[index].map { unsafe UnsafePointer($0) } }

    func text(_ index: Int32) -> String {
        precondition(index >= 0 && index < count)
        return unsafe base[Int(index)].map { unsafe String(cString: $0) } ?? ""
    }
}
