// verbosity, cache_memlimit, shutdown, stats, lru_crawler: what operators ask for.

import CacheEngine
import Primitives
import Protocol

extension Session {
    /// `verbosity <level>`: 0 is what the settings say, 1 adds connections, 2 and above every command.
    mutating func setVerbosity(_ level: Int, isQuiet: Bool, _ turn: inout Turn) {
        turn.service.log.setVerbosity(level)
        if !isQuiet { reply(.ok, &turn) }
    }

    /// `cache_memlimit <MiB>`: until the next start or reload.
    mutating func setMemoryLimit(_ mebibytes: Int, isQuiet: Bool, _ turn: inout Turn) {
        turn.service.setMemoryLimit(bytes: mebibytes << 20)
        if !isQuiet { reply(.ok, &turn) }
    }

    /// `shutdown`: if the operator switched it on, stops the daemon as SIGTERM does.
    mutating func shutdown(_ turn: inout Turn) -> Step {
        guard turn.service.acceptsShutdownCommand else {
            reply(.error(.shutdownNotEnabled), &turn)
            return .done(0)
        }
        turn.service.control.requestStop()
        return .stalled(.closing)
    }

    /// Executes `lru_crawler`.
    mutating func crawl(_ request: CrawlerRequest, isQuiet: Bool, lineBytes: Int, _ turn: inout Turn) -> Step {
        let crawler = turn.service.crawler
        switch request {
        case .dump(let format, let isAll):
            // A list that nobody is to read is not made.
            return isQuiet ? .done(lineBytes) : beginDump(format, isAll: isAll, lineBytes: lineBytes, &turn)
        case .crawl(let isAll):
            guard crawler.isEnabled else {
                if !isQuiet { reply(.error(.crawlerDisabled), &turn) }
                return .done(lineBytes)
            }
            crawler.noteStart()
            if isAll { turn.cache.sweepExpired() }
        case .enable(let isEnabled): crawler.isEnabled = isEnabled
        case .setSleep(let microseconds): crawler.sleepMicroseconds = microseconds
        case .setCount(let count): crawler.entriesMax = count
        }
        if !isQuiet { reply(.ok, &turn) }
        return .done(lineBytes)
    }

    /// Answers `stats [group]`.
    mutating func statistics(_ argument: UnsafeRawBufferPointer, lineBytes: Int, _ turn: inout Turn) -> Step {
        // SAFETY: the bytes are copied.
        let group = unsafe String(decoding: argument, as: UTF8.self)
        let words = group.split(separator: " ")
        if words.first == "cachedump" {
            return cachedump(Array(words.dropFirst()), lineBytes: lineBytes, &turn)
        }
        if words.first == "explain", words.count == 2 {
            return explain(Array(words[1].utf8), lineBytes: lineBytes, &turn)
        }
        let service = turn.service
        turn.endShare()
        reply(&turn) { StatsReport().append(group: group, of: service, to: &$0) }
        return .done(lineBytes)
    }

    /// `stats cachedump <class> <limit>`: keys of the class that all entries are in, 1; the others are empty.
    private mutating func cachedump(_ words: [Substring], lineBytes: Int, _ turn: inout Turn) -> Step {
        let answer: Reply
        if !turn.service.allowsDumps {
            answer = .error(.cachedumpNotAllowed)
        } else if words.count < 2 {
            answer = .error(.tooFewStatsWords)
        } else if let slabClass = UInt32(words[0]), let limit = UInt32(words[1]) {
            if slabClass == 1 {
                return beginCachedump(linesMax: limit == 0 ? .max : Int(limit), lineBytes: lineBytes, turn)
            }
            answer = slabClass < 64 ? .end : .error(.badStatsClass)
        } else {
            answer = .error(.badCommandLine)
        }
        reply(answer, &turn)
        return .done(lineBytes)
    }
}
