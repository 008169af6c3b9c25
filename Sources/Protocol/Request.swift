// A parsed request: what the client asked for, with keys as ranges of the input and numbers already checked.
//
// Plain values without references: a request is passed in registers and on the stack and costs no allocation. Who
// executes it need not check again what is promised here: keys have 1...`keyBytesMax` bytes and no space, CR or LF
// inside, value lengths are 0...2^31 - 3.

/// How a storage command treats what is there already.
public enum StoreMode: Equatable, Sendable {
    /// Store in any case.
    case set
    /// Store if absent.
    case add
    /// Store if present.
    case replace
    /// Add to the end of the value that is there; keeps its flags and expiry.
    case append
    /// Add to the front of the value that is there; keeps its flags and expiry.
    case prepend
    /// Store if the entry still has this CAS unique.
    ///
    /// No entry has 0.
    case compare(unique: UInt64)
}

/// The line of a storage command.
///
/// A data block of `valueBytes` bytes and CR LF follows the line.
public struct StoreHeader: Equatable, Sendable {
    /// The key.
    public var key: ByteRange
    /// What to do with an existing entry.
    public var mode: StoreMode
    /// The client's flags, kept and returned as they are.
    public var flags: UInt32
    /// The client's expiry.
    public var expiration: Expiration
    /// Length of the value, in bytes, without the CR LF after it.
    ///
    /// May be over `ProtocolLimits.valueBytesMax`.
    public var valueBytes: Int
    /// Whether the client wants no reply (`noreply`).
    public var isQuiet: Bool

    /// Makes a header from its parts.
    public init(
        key: ByteRange, mode: StoreMode, flags: UInt32, expiration: Expiration, valueBytes: Int, isQuiet: Bool
    ) {
        self.key = key
        self.mode = mode
        self.flags = flags
        self.expiration = expiration
        self.valueBytes = valueBytes
        self.isQuiet = isQuiet
    }
}

/// `get`, `gets`, `gat` or `gats`.
public struct Retrieval: Equatable, Sendable {
    /// The part of the line with the keys; walk it with `KeyIterator`.
    ///
    /// Every key has been checked.
    public var keys: ByteRange
    /// How many keys there are, 1 or more.
    public var keyCount: Int
    /// Whether the reply carries CAS uniques (`gets`, `gats`).
    public var includesCAS: Bool
    /// The new expiry of every hit (`gat`, `gats`), or nil.
    public var expiration: Expiration?

    /// Makes a retrieval from its parts.
    public init(keys: ByteRange, keyCount: Int, includesCAS: Bool, expiration: Expiration?) {
        self.keys = keys
        self.keyCount = keyCount
        self.includesCAS = includesCAS
        self.expiration = expiration
    }
}

/// One request of a client.
public enum Request: Equatable, Sendable {
    /// Read entries, with a new expiry if it is a `gat`.
    case retrieve(Retrieval)
    /// Store a value; its data block follows.
    case store(StoreHeader)
    /// Delete an entry.
    case delete(key: ByteRange, isQuiet: Bool)
    /// Add to or take from a decimal value.
    case arithmetic(key: ByteRange, delta: UInt64, isIncrement: Bool, isQuiet: Bool)
    /// Give an entry a new expiry.
    case touch(key: ByteRange, expiration: Expiration, isQuiet: Bool)
    /// Invalidate everything stored so far, now (nil) or later.
    ///
    /// Never carries `.never` or `.immediately`.
    case flushAll(delay: Expiration?, isQuiet: Bool)
    /// Set how much is logged.
    ///
    /// Levels above what the program knows mean its highest.
    case verbosity(level: Int, isQuiet: Bool)
    /// Tell name and version; clients use it as a ping.
    case version
    /// Send what is queued and close.
    case quit
    /// Report counters; the argument is the rest of the line without spaces at its ends, empty for plain `stats`.
    case stats(argument: ByteRange)
    /// Print the command table, for people.
    case help
    /// Set the size of the memory tier, in MiB, 8...10^9.
    case cacheMemoryLimit(mebibytes: Int, isQuiet: Bool)
    /// Stop the server, if it allows that.
    case shutdown(isGraceful: Bool)
    /// Become a log stream of these events.
    case watch(WatchTopics)
    /// List keys, or look for expired entries.
    case crawler(CrawlerRequest, isQuiet: Bool)
    /// Switch the moving of memory between size classes, of which there is one.
    ///
    /// Without effect.
    case slabsAutomove(isQuiet: Bool)
    /// A meta command.
    ///
    /// If it is a store, its data block of `valueBytes` bytes and CR LF follows.
    case meta(MetaRequest)
}

/// What `RequestParser.parse` found at the front of the input.
public enum ParseResult: Equatable, Sendable {
    /// No whole line yet.
    ///
    /// Call again with the same bytes and more behind them.
    case incomplete
    /// A request.
    ///
    /// `lineBytes` is the length of its line, line end included; a data block comes after it.
    case request(Request, lineBytes: Int)
    /// A request that is wrong.
    ///
    /// Drop `lineBytes`, answer the error unless quiet, then drop the next `swallowBytes` of input, which are its data
    /// block.
    case refused(RequestError, lineBytes: Int, swallowBytes: Int, isQuiet: Bool)
    /// Framing is lost or this is not our protocol: answer the error's line, if it has one, and close.
    case fatal(RequestError)
}
