// Lines of operators: parsed like all others, none of them hot.

extension CommandLine {
    /// Parses a command of the administration family.
    func parseAdministration(_ command: Command, _ words: inout Words) -> ParseResult {
        switch command {
        case .flushAll: parseFlushAll(&words)
        case .verbosity: parseVerbosity(&words)
        case .cacheMemoryLimit: parseMemoryLimit(&words)
        case .shutdown: parseShutdown(&words)
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
