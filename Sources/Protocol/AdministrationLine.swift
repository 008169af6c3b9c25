// Lines of operators: parsed like all others, none of them hot.

extension CommandLine {
    /// Parses a command of the administration family.
    func parseAdministration(_ command: Command, _ words: inout Words) -> ParseResult {
        switch command {
        case .flushAll: parseFlushAll(&words)
        case .verbosity: parseVerbosity(&words)
        case .cacheMemoryLimit: parseMemoryLimit(&words)
        case .shutdown: parseShutdown(&words)
        case .watch: parseWatch(&words)
        case .lruCrawler: parseCrawler(&words)
        case .slabs: parseSlabs(&words)
        case .stats: accepted(.stats(argument: words.rest()))
        // Arguments of the following are ignored.
        case .version: accepted(.version)
        case .help: accepted(.help)
        case .quit: accepted(.quit)
        default: refused(.unknownCommand, isQuiet: false)
        }
    }

    private func parseFlushAll(_ words: inout Words) -> ParseResult {
        let argument = words.next()
        // `flush_all noreply` has no delay; `flush_all x noreply` has a wrong one.
        guard let word = argument, !(isQuiet && word.end == end) else {
            return accepted(.flushAll(delay: nil, isQuiet: isQuiet))
        }
        guard let exptime = input.signed32(word) else { return refused(.invalidExptime, isQuiet: isQuiet) }
        let delay = exptime > 0 ? Expiration(exptime: Int64(exptime)) : nil
        return accepted(.flushAll(delay: delay, isQuiet: isQuiet))
    }

    private func parseVerbosity(_ words: inout Words) -> ParseResult {
        guard let word = words.next(), let level = input.unsigned32(word) else {
            return refused(.badCommandLine, isQuiet: isQuiet)
        }
        return accepted(.verbosity(level: Int(level), isQuiet: isQuiet))
    }

    private func parseMemoryLimit(_ words: inout Words) -> ParseResult {
        // memcached answers a plain ERROR here, also when the argument is missing.
        guard let word = words.next(), let mebibytes = input.unsigned32(word) else {
            return refused(.unknownCommand, isQuiet: isQuiet)
        }
        guard mebibytes >= 8 else { return refused(.memoryLimitTooSmall, isQuiet: isQuiet) }
        guard mebibytes <= 1_000_000_000 else { return refused(.memoryLimitTooLarge, isQuiet: isQuiet) }
        return accepted(.cacheMemoryLimit(mebibytes: Int(mebibytes), isQuiet: isQuiet))
    }

    private func parseShutdown(_ words: inout Words) -> ParseResult {
        guard let word = words.next() else { return accepted(.shutdown(isGraceful: false)) }
        guard word.count == 8, input.matches("graceful", at: word.start), words.next() == nil else {
            return refused(.invalidShutdownMode, isQuiet: false)
        }
        return accepted(.shutdown(isGraceful: true))
    }
}

// MARK: Watching, crawling and size classes

extension CommandLine {
    private func parseWatch(_ words: inout Words) -> ParseResult {
        guard var word = words.next() else { return accepted(.watch(.fetchers)) }
        var topics: WatchTopics = []
        while true {
            guard let known = WatchTopics.words.first(where: { isWord(word, $0.0) }) else {
                return refused(.unknownCommand, isQuiet: false)
            }
            topics.formUnion(known.1)
            guard let next = words.next() else { return accepted(.watch(topics)) }
            word = next
        }
    }

    private func parseCrawler(_ words: inout Words) -> ParseResult {
        let isQuiet = isQuiet
        guard let action = words.next() else { return refused(.unknownCommand, isQuiet: isQuiet) }
        let argument = argument(&words)
        guard argument == nil || self.argument(&words) == nil else { return refused(.unknownCommand, isQuiet: isQuiet) }
        guard let argument else {
            if isWord(action, "enable") { return accepted(.crawler(.enable(true), isQuiet: isQuiet)) }
            if isWord(action, "disable") { return accepted(.crawler(.enable(false), isQuiet: isQuiet)) }
            return refused(.unknownCommand, isQuiet: isQuiet)
        }
        if isWord(action, "sleep") || isWord(action, "tocrawl") {
            return parseCrawlerNumber(argument, isSleep: isWord(action, "sleep"))
        }
        return parseWalk(action, classes: argument)
    }

    /// `metadump`, `mgdump` and `crawl`, which go through all entries of some classes.
    private func parseWalk(_ action: ByteRange, classes: ByteRange) -> ParseResult {
        let isMetadump = isWord(action, "metadump")
        guard isMetadump || isWord(action, "mgdump") || isWord(action, "crawl") else {
            return refused(.unknownCommand, isQuiet: isQuiet)
        }
        guard let isAll = coversAll(classes) else { return refused(.badCrawlerClass, isQuiet: isQuiet) }
        if isWord(action, "crawl") { return accepted(.crawler(.crawl(isAll: isAll), isQuiet: isQuiet)) }
        return accepted(.crawler(.dump(isMetadump ? .metadata : .metaGet, isAll: isAll), isQuiet: isQuiet))
    }

    private func parseCrawlerNumber(_ word: ByteRange, isSleep: Bool) -> ParseResult {
        guard let number = input.unsigned32(word) else { return refused(.badCommandLine, isQuiet: isQuiet) }
        guard isSleep else { return accepted(.crawler(.setCount(number), isQuiet: isQuiet)) }
        guard number <= 1_000_000 else { return refused(.sleepTooLong, isQuiet: isQuiet) }
        return accepted(.crawler(.setSleep(number), isQuiet: isQuiet))
    }

    /// The next word that is not the `noreply` at the end.
    private func argument(_ words: inout Words) -> ByteRange? {
        guard let word = words.next(), !(isQuiet && word.end == end) else { return nil }
        return word
    }

    private func isWord(_ word: ByteRange, _ text: StaticString) -> Bool {
        word.count == text.utf8CodeUnitCount && input.matches(text, at: word.start)
    }

    /// Whether `all`, `hash`, or a list of classes with commas, names the class that all entries are in, which is 1.
    ///
    /// Nil for a class that is none: memcached has 1 to 63.
    private func coversAll(_ word: ByteRange) -> Bool? {
        if isWord(word, "all") || isWord(word, "hash") { return true }
        var isAll = false
        var start = word.start
        while start < word.end {
            let comma = input.first(UInt8(ascii: ","), from: start, to: word.end) ?? word.end
            if comma > start {
                let number = input.unsigned32(ByteRange(start: start, count: comma &- start))
                guard let number, (1...63).contains(number) else { return nil }
                if number == 1 { isAll = true }
            }
            start = comma &+ 1
        }
        return isAll
    }

    /// Nothing is moved between size classes; the words are checked as memcached checks them.
    private func parseSlabs(_ words: inout Words) -> ParseResult {
        let isQuiet = isQuiet
        guard let action = words.next(), let first = argument(&words) else {
            return refused(.unknownCommand, isQuiet: isQuiet)
        }
        let second = argument(&words)
        if isWord(action, "reassign"), second != nil, argument(&words) == nil {
            return refused(.slabReassignDisabled, isQuiet: isQuiet)
        }
        guard isWord(action, "automove") else { return refused(.unknownCommand, isQuiet: isQuiet) }
        if isWord(first, "window") {
            guard let second, let seconds = input.unsigned32(second) else {
                return refused(.badCommandLine, isQuiet: isQuiet)
            }
            guard (3...1800).contains(seconds) else { return refused(.badAutomoveWindow, isQuiet: isQuiet) }
        } else if isWord(first, "ratio") || isWord(first, "freeratio") {
            guard second != nil else { return refused(.unknownCommand, isQuiet: isQuiet) }
        } else {
            guard let level = input.unsigned32(first) else { return refused(.badCommandLine, isQuiet: isQuiet) }
            guard level <= 2 else { return refused(.unknownCommand, isQuiet: isQuiet) }
        }
        return accepted(.slabsAutomove(isQuiet: isQuiet))
    }
}
