// One line of the input, on its way to becoming a request: meta commands.
//
// A meta line is a key and flags of one letter, each with its token attached. All commands know the same letters and
// ignore those that mean nothing to them. Like memcached, the parser reads all flags before it answers, so of several
// bad tokens the last one names the error; an unknown or repeated letter ends the reading. `ma` knows one error for all
// of it. Errors are never quiet. See memcached's doc/protocol.txt, "Meta Commands", and docs/PROTOCOL.md.

import Primitives

extension CommandLine {
    /// Parses a command of the meta family.
    func parseMeta(_ command: Command, _ words: inout Words) -> ParseResult {
        switch command {
        case .metaNoOperation: accepted(.meta(MetaRequest(operation: .noOperation, key: .empty)))
        case .metaSet: parseMetaSet(&words)
        case .metaGet: parseMetaFlags(.get, &words)
        case .metaDelete: parseMetaFlags(.delete, &words)
        case .metaArithmetic: parseMetaFlags(.arithmetic, &words)
        default: parseMetaInspect(&words)
        }
    }

    /// `mg`, `md`, `ma`: `<key> <flag>*`.
    private func parseMetaFlags(_ operation: MetaRequest.Operation, _ words: inout Words) -> ParseResult {
        guard let key = words.next() else { return refused(.badCommandLine, isQuiet: false) }
        var reader = MetaFlagReader(input, MetaRequest(operation: operation, key: key), limits)
        guard let error = reader.read(&words, wordsBefore: 2) else { return accepted(.meta(reader.request)) }
        return refused(error, isQuiet: false)
    }

    /// `me`: `<key> [b]`.
    ///
    /// Other words are ignored.
    private func parseMetaInspect(_ words: inout Words) -> ParseResult {
        guard let key = words.next(), key.count <= limits.keyBytesMax else {
            return refused(.badCommandLine, isQuiet: false)
        }
        var request = MetaRequest(operation: .inspect, key: key)
        while let word = words.next() {
            guard word.count == 1, input[word.start] == UInt8(ascii: "b") else { continue }
            guard Base64.decodedCount(input, key) != nil else { return refused(.badKeyEncoding, isQuiet: false) }
            request.flags = .base64Key
        }
        return accepted(.meta(request))
    }

    /// `ms`: `<key> <bytes> <flag>*`.
    ///
    /// Once the length is understood, errors swallow the data block.
    private func parseMetaSet(_ words: inout Words) -> ParseResult {
        guard let key = words.next(), let bytesWord = words.next(), let valueBytes = input.signed32(bytesWord),
            valueBytes >= 0, valueBytes <= ProtocolLimits.valueBytesNameable
        else { return refused(.badCommandLine, isQuiet: false) }
        var reader = MetaFlagReader(input, MetaRequest(operation: .set, key: key), limits)
        reader.request.valueBytes = Int(valueBytes)
        guard let error = reader.read(&words, wordsBefore: 3) else { return accepted(.meta(reader.request)) }
        return refused(error, isQuiet: false, swallowBytes: Int(valueBytes) &+ 2)
    }
}

/// Fills a meta request from the flags of its line.
private struct MetaFlagReader {
    var request: MetaRequest
    private let input: Input
    private let limits: ProtocolLimits
    /// What is wrong with a token so far.
    private var tokenError: RequestError?
    /// The first byte of `M`'s token; 0 if there is none.
    private var modeLetter: UInt8 = 0

    init(_ input: Input, _ request: MetaRequest, _ limits: ProtocolLimits) {
        self.input = input
        self.request = request
        self.limits = limits
    }

    /// Reads all flags of the line, `wordsBefore` words of which are taken already.
    ///
    /// Returns what is wrong, if anything.
    mutating func read(_ words: inout Words, wordsBefore: Int) -> RequestError? {
        let isArithmetic = request.operation == .arithmetic
        if let error = readFlags(&words, wordsBefore: wordsBefore) ?? tokenError {
            return isArithmetic ? .invalidArithmeticFlag : error
        }
        if request.flags.contains(.mode), let error = applyMode() { return error }
        return request.opaque.count > ProtocolLimits.opaqueBytesMax ? .opaqueTooLong : nil
    }

    /// Reads the letters and their tokens.
    ///
    /// Returns an error that ends the reading.
    private mutating func readFlags(_ words: inout Words, wordsBefore: Int) -> RequestError? {
        guard request.key.count <= limits.keyBytesMax else { return .badCommandLine }
        guard !hasTooMany(words, wordsBefore) else { return .tooManyFlags }
        while let word = words.next() {
            let letter = input[word.start]
            guard Self.isLetterOrDigit(letter) else { return .badCommandLine }
            let flag = MetaFlags(letter: letter)
            guard request.flags.isDisjoint(with: flag) else { return .duplicateFlag }
            request.flags.formUnion(flag)
            let token = ByteRange(start: word.start &+ 1, count: word.count &- 1)
            guard readFlag(letter, token) else { return .invalidFlag }
        }
        return nil
    }

    /// Whether the line has too many words.
    ///
    /// Asked first: such a line gets this error, whatever else is wrong with it.
    private func hasTooMany(_ words: Words, _ wordsBefore: Int) -> Bool {
        // A word takes two bytes at least, so most lines are too short to have too many.
        guard wordsBefore &+ words.remainingBytes / 2 > ProtocolLimits.metaWordsMax else { return false }
        var words = words
        var count = wordsBefore
        while words.next() != nil { count &+= 1 }
        return count > ProtocolLimits.metaWordsMax
    }

    private static func isLetterOrDigit(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: false
        }
    }

    /// Takes one flag.
    ///
    /// Returns false if no meta command knows the letter.
    private mutating func readFlag(_ letter: UInt8, _ token: ByteRange) -> Bool {
        switch letter {
        case UInt8(ascii: "c"), UInt8(ascii: "f"), UInt8(ascii: "h"), UInt8(ascii: "k"), UInt8(ascii: "l"),
            UInt8(ascii: "s"), UInt8(ascii: "t"):
            if request.operation.returns(letter) { request.returns.append(letter) }
            if letter == UInt8(ascii: "t"), !request.flags.contains(.ttl) { request.showsOldTTL = true }
        case UInt8(ascii: "O"):
            request.opaque = token
            request.returns.append(letter)
        case UInt8(ascii: "q"), UInt8(ascii: "u"), UInt8(ascii: "v"), UInt8(ascii: "x"), UInt8(ascii: "I"),
            // P and L are for proxies: taken with any token and never returned.
            UInt8(ascii: "P"), UInt8(ascii: "L"):
            break
        case UInt8(ascii: "b"):
            if Base64.decodedCount(input, request.key) == nil { tokenError = .badKeyEncoding }
        case UInt8(ascii: "M"):
            modeLetter = token.count > 0 ? input[token.start] : 0
        default:
            return readNumber(letter, token)
        }
        return true
    }

    /// Takes a flag whose token is a number.
    ///
    /// Returns false if no meta command knows the letter.
    private mutating func readNumber(_ letter: UInt8, _ token: ByteRange) -> Bool {
        switch letter {
        case UInt8(ascii: "T"): request.rawTTL = checked(input.signed32(token), .badFlagToken)
        case UInt8(ascii: "N"): request.rawVivify = checked(input.signed32(token), .badFlagToken)
        case UInt8(ascii: "R"): request.rawRecache = checked(input.signed32(token), .badFlagToken)
        case UInt8(ascii: "C"): request.rawCompare = checked(input.unsigned64(token), .badFlagToken)
        case UInt8(ascii: "E"): request.rawNewUnique = checked(input.unsigned64(token), .badFlagToken)
        case UInt8(ascii: "F"): request.clientFlags = checked(input.unsigned32(token), tokenError ?? .badCommandLine)
        case UInt8(ascii: "D"): request.delta = checked(input.unsigned64(token), .invalidDeltaToken)
        case UInt8(ascii: "J"): request.initial = checked(input.unsigned64(token), .invalidInitialToken)
        default: return false
        }
        return true
    }

    /// The number, or 0 and a note of what is wrong.
    private mutating func checked<Number: FixedWidthInteger>(_ number: Number?, _ error: RequestError) -> Number {
        if number == nil { tokenError = error }
        return number ?? 0
    }

    /// Sets the mode of `ms` or `ma` from `M`; for the other commands it means nothing.
    private mutating func applyMode() -> RequestError? {
        switch request.operation {
        case .set:
            guard let mode = MetaStoreMode(letter: modeLetter) else { return .invalidStoreMode }
            request.storeMode = mode
        case .arithmetic:
            switch modeLetter {
            case UInt8(ascii: "I"), UInt8(ascii: "+"): request.isDecrement = false
            case UInt8(ascii: "D"), UInt8(ascii: "-"): request.isDecrement = true
            default: return .invalidArithmeticMode
            }
        default: break
        }
        return nil
    }
}

extension MetaStoreMode {
    /// The mode of an `M` token, whose first letter counts.
    fileprivate init?(letter: UInt8) {
        switch letter {
        case UInt8(ascii: "S"): self = .set
        case UInt8(ascii: "E"): self = .add
        case UInt8(ascii: "R"): self = .replace
        case UInt8(ascii: "A"): self = .append
        case UInt8(ascii: "P"): self = .prepend
        default: return nil
        }
    }
}

extension MetaRequest.Operation {
    /// Whether the command's reply carries this letter.
    ///
    /// `k` and `O` come back from every command with flags.
    fileprivate func returns(_ letter: UInt8) -> Bool {
        switch (self, letter) {
        case (_, UInt8(ascii: "k")), (.get, _): true
        case (.set, UInt8(ascii: "c")), (.set, UInt8(ascii: "s")): true
        case (.arithmetic, UInt8(ascii: "c")), (.arithmetic, UInt8(ascii: "t")): true
        default: false
        }
    }
}
