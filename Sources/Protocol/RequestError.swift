// Every way in which a request can be refused, with the exact line that says so.
//
// The texts are memcached 1.6.45's wherever it has one: clients and test suites match on them. Errors that only the
// daemon can find (no memory, not allowed) are here too, so that all error lines of the wire are in one table.

/// The client is wrong, or asks for what this server cannot or may not do.
public enum RequestError: UInt8, Error, CaseIterable, Sendable {
    // Found by the parser.

    /// No such command.
    case unknownCommand
    /// Too few words, a key over the limit, or a number that is none.
    case badCommandLine
    /// `touch`, `gat`, `gats`, `flush_all`: not a 32-bit number.
    case invalidExptime
    /// `incr`, `decr`: not 0...2^64 - 1.
    case invalidDelta
    /// `cache_memlimit` below 8 MiB.
    case memoryLimitTooSmall
    /// `cache_memlimit` so large that bytes were meant.
    case memoryLimitTooLarge
    /// `shutdown` with a word other than `graceful`.
    case invalidShutdownMode
    /// `lru_crawler` with a class that is none.
    case badCrawlerClass
    /// `lru_crawler sleep` above a second.
    case sleepTooLong
    /// `slabs reassign`: there is nothing to move.
    case slabReassignDisabled
    /// `slabs automove window` outside 3...1800.
    case badAutomoveWindow
    /// A line without an end.
    ///
    /// Fatal, and without a reply, as memcached's tests want it.
    case lineTooLong
    /// An HTTP request, by mistake or smuggled through a browser.
    ///
    /// Fatal, and without a reply, as memcached's tests want it.
    case httpRequest
    /// The binary protocol.
    ///
    /// Fatal, and without a line: its clients could not read one.
    case binaryProtocol

    // Meta commands.

    /// A letter came twice, or was not ASCII.
    case duplicateFlag
    /// A letter that means nothing to any meta command.
    case invalidFlag
    /// `ma`: any error in a flag.
    case invalidArithmeticFlag
    /// A flag's number is none, or out of range.
    case badFlagToken
    /// `D` is not 0...2^64 - 1.
    case invalidDeltaToken
    /// `J` is not 0...2^64 - 1.
    case invalidInitialToken
    /// More than `ProtocolLimits.metaWordsMax` words.
    case tooManyFlags
    /// An opaque over `ProtocolLimits.opaqueBytesMax` bytes.
    case opaqueTooLong
    /// The key is not base64.
    case badKeyEncoding
    /// `ms` with an unknown mode.
    case invalidStoreMode
    /// `ma` with an unknown mode.
    case invalidArithmeticMode

    // Found by the session.

    /// The data block does not end in CR LF.
    case badDataChunk
    /// The value is over `ProtocolLimits.valueBytesMax`.
    case valueTooLarge
    /// There is no room for the value and nothing to evict.
    case outOfMemory
    /// `incr`, `decr`, `ma` on a value that is not a number.
    case nonNumericValue
    /// `flush_all` is switched off.
    case flushNotAllowed
    /// `shutdown` is not switched on.
    case shutdownNotEnabled
    /// `lru_crawler disable` was sent before.
    case crawlerDisabled
    /// Another client's dump is under way.
    case crawlerBusy
    /// `metadump` behind requests whose replies are not sent yet.
    case pipelinedMetadump
    /// The same for `mgdump`.
    case pipelinedMgdump
    /// The same for `watch`.
    case pipelinedWatch
    /// `watch` is switched off.
    case watchNotAllowed
    /// There are as many watchers as there may be.
    case tooManyWatchers
    /// `metadump` is switched off.
    case metadumpNotAllowed
    /// `mgdump` is switched off.
    case mgdumpNotAllowed
    /// `stats detail` is switched off.
    case detailNotAllowed
    /// `stats detail` with another word than on, off or dump.
    case badDetailWord
    /// `stats cachedump` is switched off.
    case cachedumpNotAllowed
    /// `stats hot`, `big` or `slow` where dumps are switched off.
    case keyStatsNotAllowed
    /// `stats cachedump` without its two numbers.
    case tooFewStatsWords
    /// `stats cachedump` with a class above 63.
    case badStatsClass
    /// Too many connections.
    ///
    /// Fatal.
    case tooManyConnections
    /// A request before authentication.
    case unauthenticated
    /// Wrong name or password.
    case authenticationFailure
    /// An authentication block without a space between name and password.
    case badAuthenticationToken
    /// An authentication block that is too long.
    case authenticationTokenTooLong
    /// An authentication block that does not end in CR LF.
    case badAuthenticationEnd
    /// A request that this client has no right to.
    ///
    /// memcached has no rights, and so no line for it.
    case notPermitted

    /// The error's line without its CR LF; empty where the connection is closed without a word.
    public var replyLine: StaticString {
        switch self {
        case .unknownCommand: "ERROR"
        case .badCommandLine: "CLIENT_ERROR bad command line format"
        case .invalidExptime: "CLIENT_ERROR invalid exptime argument"
        case .invalidDelta: "CLIENT_ERROR invalid numeric delta argument"
        case .memoryLimitTooSmall: "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m"
        case .memoryLimitTooLarge: "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes"
        case .invalidShutdownMode: "CLIENT_ERROR invalid shutdown mode"
        case .badCrawlerClass: "BADCLASS invalid class id"
        case .sleepTooLong: "CLIENT_ERROR sleep must be one second or less"
        case .slabReassignDisabled: "CLIENT_ERROR slab reassignment disabled"
        case .badAutomoveWindow: "CLIENT_ERROR automove window too low or too high"
        case .lineTooLong, .httpRequest, .binaryProtocol: ""
        case .duplicateFlag: "CLIENT_ERROR duplicate flag"
        case .invalidFlag: "CLIENT_ERROR invalid flag"
        case .invalidArithmeticFlag: "CLIENT_ERROR invalid or duplicate flag"
        case .badFlagToken: "CLIENT_ERROR bad token in command line format"
        case .invalidDeltaToken: "CLIENT_ERROR invalid numeric delta value"
        case .invalidInitialToken: "CLIENT_ERROR invalid numeric initial value"
        case .tooManyFlags: "CLIENT_ERROR options flags are too long"
        case .opaqueTooLong: "CLIENT_ERROR opaque token too long"
        case .badKeyEncoding: "CLIENT_ERROR error decoding key"
        case .invalidStoreMode: "CLIENT_ERROR invalid mode for ms M token"
        case .invalidArithmeticMode: "CLIENT_ERROR invalid mode for ma M token"
        case .badDataChunk: "CLIENT_ERROR bad data chunk"
        case .valueTooLarge: "SERVER_ERROR object too large for cache"
        case .outOfMemory: "SERVER_ERROR out of memory storing object"
        case .nonNumericValue: "CLIENT_ERROR cannot increment or decrement non-numeric value"
        case .flushNotAllowed: "CLIENT_ERROR flush_all not allowed"
        case .shutdownNotEnabled: "SERVER_ERROR: shutdown not enabled"
        case .crawlerDisabled: "CLIENT_ERROR lru crawler disabled"
        case .crawlerBusy: "BUSY currently processing crawler request"
        case .pipelinedMetadump: "ERROR cannot pipeline other commands before metadump"
        case .pipelinedMgdump: "ERROR cannot pipeline other commands before mgdump"
        case .pipelinedWatch: "ERROR cannot pipeline other commands before watch"
        case .watchNotAllowed: "CLIENT_ERROR watch commands not allowed"
        case .tooManyWatchers: "WATCHER_TOO_MANY log watcher limit reached"
        case .metadumpNotAllowed: "ERROR metadump not allowed"
        case .mgdumpNotAllowed: "ERROR key dump not allowed"
        case .detailNotAllowed: "CLIENT_ERROR stats detail not allowed"
        case .badDetailWord: "CLIENT_ERROR usage: stats detail on|off|dump"
        case .keyStatsNotAllowed: "CLIENT_ERROR stats of keys not allowed"
        case .cachedumpNotAllowed: "CLIENT_ERROR stats cachedump not allowed"
        case .tooFewStatsWords: "CLIENT_ERROR bad command line"
        case .badStatsClass: "CLIENT_ERROR Illegal slab id"
        case .tooManyConnections: "ERROR Too many open connections"
        case .unauthenticated: "CLIENT_ERROR unauthenticated"
        case .authenticationFailure: "CLIENT_ERROR authentication failure"
        case .badAuthenticationToken: "CLIENT_ERROR bad authentication token format"
        case .authenticationTokenTooLong: "CLIENT_ERROR auth token too long"
        case .badAuthenticationEnd: "CLIENT_ERROR bad command line termination"
        case .notPermitted: "CLIENT_ERROR permission denied"
        }
    }

    /// Whether the connection cannot go on, because nobody knows where the next request begins.
    public var isFatal: Bool {
        switch self {
        case .lineTooLong, .httpRequest, .binaryProtocol, .tooManyConnections: true
        default: false
        }
    }

    /// What happened, for the log: the fatal errors without a reply in words, the others as they are on the wire.
    public var reason: StaticString {
        switch self {
        case .lineTooLong: "line too long"
        case .httpRequest: "HTTP"
        case .binaryProtocol: "binary protocol"
        default: replyLine
        }
    }
}
