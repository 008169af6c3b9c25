// One line of the input, on its way to becoming a request: classic commands.
//
// Checks come in memcached's order, because the order decides which error a line with two mistakes gets: number of
// words, length of the data block (what cannot be skipped must be known first), key, the other numbers. A storage
// command that is refused after its length was understood has its data block swallowed, so that framing survives. Meta
// commands are in MetaLine.swift.

/// A line without its line end, and the rules for reading it.
struct CommandLine {
    let input: Input
    /// Where the line ends, spaces at the end not counted.
    let end: Int
    /// Length of the line with its line end.
    let lineBytes: Int
    let limits: ProtocolLimits
    /// Length of the text with spaces at its end.
    private let textBytes: Int
    /// Length of the first word; 0 if the line begins with a space.
    private let nameBytes: Int

    /// The line from the front of `input` to `textEnd`, where CR LF or LF begins.
    @inline(__always)
    init(_ input: Input, textEnd: Int, lineBytes: Int, limits: ProtocolLimits) {
        self.input = input
        self.lineBytes = lineBytes
        self.limits = limits
        textBytes = textEnd
        var end = textEnd
        while end > 0, input[end &- 1] == UInt8(ascii: " ") { end &-= 1 }
        self.end = end
        nameBytes = input.first(UInt8(ascii: " "), from: 0, to: textEnd) ?? textEnd
    }

    /// The request, or why it is none.
    @inline(__always)
    func parse() -> ParseResult {
        guard let command = Command.named(input, from: 0, count: nameBytes) else { return parseUnknown() }
        var words = Words(input, from: nameBytes, to: end)
        switch command {
        case .get, .gets:
            return parseGet(words, includesCAS: command == .gets)
        case .set, .add, .replace, .append, .prepend, .cas:
            return parseStore(command, &words)
        case .gat, .gats:
            return parseGetAndTouch(&words, includesCAS: command == .gats)
        case .delete:
            return parseDelete(&words)
        case .incr, .decr:
            return parseArithmetic(&words, isIncrement: command == .incr)
        case .touch:
            return parseTouch(&words)
        case .flushAll, .version, .verbosity, .stats, .cacheMemoryLimit, .watch, .lruCrawler, .slabs, .shutdown, .help,
            .quit:
            return parseAdministration(command, &words)
        case .metaNoOperation, .metaGet, .metaSet, .metaDelete, .metaArithmetic, .metaInspect:
            return parseMeta(command, &words)
        }
    }

    // MARK: Answers

    @inline(__always)
    func accepted(_ request: Request) -> ParseResult { .request(request, lineBytes: lineBytes) }

    func refused(_ error: RequestError, isQuiet: Bool, swallowBytes: Int = 0) -> ParseResult {
        .refused(error, lineBytes: lineBytes, swallowBytes: swallowBytes, isQuiet: isQuiet)
    }

    /// Whether the last word is `noreply`, and not the command itself.
    @inline(__always)
    var isQuiet: Bool {
        // The line ends in a word, so one byte tells most lines apart.
        guard end >= 9, input[end &- 1] == UInt8(ascii: "y") else { return false }
        return input.packed(from: end &- 8, count: 8) == packed(" noreply")
    }

    private func parseUnknown() -> ParseResult {
        // Not even a two-letter name: an empty line of a person on telnet, mostly.
        guard textBytes >= 2 else { return refused(.badCommandLine, isQuiet: false) }
        var words = Words(input, from: 0, to: end)
        var wordCount = 0
        var last = ByteRange.empty
        while let word = words.next() {
            last = word
            wordCount &+= 1
        }
        if wordCount > 1, last.count >= 5, input.matches("HTTP/", at: last.start) { return .fatal(.httpRequest) }
        return refused(.unknownCommand, isQuiet: isQuiet)
    }

    // MARK: Retrieval

    @inline(__always)
    private func parseGet(_ words: Words, includesCAS: Bool) -> ParseResult {
        parseKeys(words, includesCAS: includesCAS, expiration: nil)
    }

    private func parseGetAndTouch(_ words: inout Words, includesCAS: Bool) -> ParseResult {
        guard let exptimeWord = words.next(), words.position < end else {
            return refused(.badCommandLine, isQuiet: false)
        }
        guard let exptime = input.signed32(exptimeWord) else { return refused(.invalidExptime, isQuiet: false) }
        return parseKeys(words, includesCAS: includesCAS, expiration: Expiration(exptime: Int64(exptime)))
    }

    /// Counts and checks the keys, which are all that is left of the line.
    ///
    /// `noreply` is a key like any other.
    @inline(__always)
    private func parseKeys(_ words: Words, includesCAS: Bool, expiration: Expiration?) -> ParseResult {
        var words = words
        let keys = words.rest()
        var keyCount = 0
        while let key = words.next() {
            guard key.count <= limits.keyBytesMax else { return refused(.badCommandLine, isQuiet: false) }
            keyCount &+= 1
        }
        guard keyCount > 0 else { return refused(.badCommandLine, isQuiet: false) }
        return accepted(
            .retrieve(
                Retrieval(keys: keys, keyCount: keyCount, includesCAS: includesCAS, expiration: expiration)))
    }

    // MARK: Storage

    @inline(__always)
    private func parseStore(_ command: Command, _ words: inout Words) -> ParseResult {
        guard let key = words.next(), let flagsWord = words.next(), let exptimeWord = words.next(),
            let bytesWord = words.next()
        else { return refused(.badCommandLine, isQuiet: isQuiet) }
        guard let valueBytes = input.signed32(bytesWord), valueBytes >= 0,
            valueBytes <= ProtocolLimits.valueBytesNameable
        else { return refused(.badCommandLine, isQuiet: isQuiet) }
        guard key.count <= limits.keyBytesMax, let flags = input.clientFlags(flagsWord),
            let exptime = input.storageExptime(exptimeWord), let mode = storeMode(command, &words)
        else { return refused(.badCommandLine, isQuiet: isQuiet, swallowBytes: Int(valueBytes) &+ 2) }
        return accepted(
            .store(
                StoreHeader(
                    key: key, mode: mode, flags: flags, expiration: Expiration(exptime: Int64(exptime)),
                    valueBytes: Int(valueBytes), isQuiet: isQuiet)))
    }

    /// The mode that belongs to the command, or nil if its `unique` is missing or none.
    @inline(__always)
    private func storeMode(_ command: Command, _ words: inout Words) -> StoreMode? {
        switch command {
        case .add: return .add
        case .replace: return .replace
        case .append: return .append
        case .prepend: return .prepend
        case .cas:
            guard let word = words.next(), let unique = input.unsigned64(word) else { return nil }
            return .compare(unique: unique)
        default: return .set
        }
    }

    // MARK: One key

    /// The key, if it is there and not too long.
    @inline(__always)
    private func nextKey(_ words: inout Words) -> ByteRange? {
        guard let key = words.next(), key.count <= limits.keyBytesMax else { return nil }
        return key
    }

    private func parseDelete(_ words: inout Words) -> ParseResult {
        let isQuiet = isQuiet
        guard let key = nextKey(&words) else { return refused(.badCommandLine, isQuiet: isQuiet) }
        // Old clients send a delay of 0. Anything else behind the key is refused rather than guessed at.
        var surplus = words.next()
        if let word = surplus, word.count == 1, input[word.start] == UInt8(ascii: "0") { surplus = words.next() }
        if surplus != nil, isQuiet { surplus = words.next() }
        guard surplus == nil else { return refused(.badCommandLine, isQuiet: isQuiet) }
        return accepted(.delete(key: key, isQuiet: isQuiet))
    }

    private func parseArithmetic(_ words: inout Words, isIncrement: Bool) -> ParseResult {
        let isQuiet = isQuiet
        guard let key = nextKey(&words), let deltaWord = words.next() else {
            return refused(.badCommandLine, isQuiet: isQuiet)
        }
        guard let delta = input.unsigned64(deltaWord) else { return refused(.invalidDelta, isQuiet: isQuiet) }
        return accepted(.arithmetic(key: key, delta: delta, isIncrement: isIncrement, isQuiet: isQuiet))
    }

    private func parseTouch(_ words: inout Words) -> ParseResult {
        let isQuiet = isQuiet
        guard let key = nextKey(&words), let exptimeWord = words.next() else {
            return refused(.badCommandLine, isQuiet: isQuiet)
        }
        guard let exptime = input.signed32(exptimeWord) else { return refused(.invalidExptime, isQuiet: isQuiet) }
        return accepted(
            .touch(key: key, expiration: Expiration(exptime: Int64(exptime)), isQuiet: isQuiet))
    }
}
