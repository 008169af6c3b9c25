// The command table: every command that a client can send, once.
//
// Adding a case makes the compiler point at `spec`, at the parser and at the daemon's dispatch; tests hold the table,
// the parser and docs/PROTOCOL.md together. The steps are in docs/ADDING_A_COMMAND.md.

/// What kind of work a command is; handlers and documentation are ordered by it.
public enum CommandFamily: UInt8, CaseIterable, Sendable {
    /// Reads entries.
    case retrieval
    /// Stores values; a data block follows the line.
    case storage
    /// Deletes, counts, touches: one key, no data block.
    case update
    /// For operators.
    case administration
    /// Meta commands.
    case meta
}

/// What a command's reply looks like when all is well.
public enum ReplyShape: UInt8, Sendable {
    /// One line.
    case line
    /// `VALUE` blocks and `END`.
    case values
    /// `STAT` lines and `END`.
    case statistics
    /// One meta line, with a data block if it begins with `VA`.
    case meta
    /// Lines of text and `END`.
    case help
    /// `OK` and lines, some with a bare LF, up to an `END` or `EN`, or without an end.
    case stream
    /// Nothing: the connection closes.
    case none
}

/// One row of the command table.
public struct CommandSpec: Sendable {
    /// The word that clients send, in lower case.
    public var name: StaticString
    /// Its family.
    public var family: CommandFamily
    /// What follows the name, as documentation shows it.
    public var arguments: StaticString
    /// Fewest words of its line, the name included.
    ///
    /// Fewer are `CLIENT_ERROR bad command line format`.
    public var wordsMin: Int
    /// The reply when all is well.
    public var reply: ReplyShape
    /// Whether a last word `noreply` silences it.
    public var allowsNoreply: Bool
    /// What it does, in one line.
    public var summary: StaticString

    /// A row.
    ///
    /// A command takes `noreply` where its arguments show it.
    fileprivate init(
        _ name: StaticString, _ arguments: StaticString, _ family: CommandFamily, _ wordsMin: Int,
        _ reply: ReplyShape, _ summary: StaticString, noreply: Bool = false
    ) {
        self.name = name
        self.family = family
        self.arguments = arguments
        self.wordsMin = wordsMin
        self.reply = reply
        self.allowsNoreply = noreply
        self.summary = summary
    }

    /// A row of a command that takes `noreply` as its last word.
    fileprivate static func quietable(
        _ name: StaticString, _ arguments: StaticString, _ family: CommandFamily, _ wordsMin: Int,
        _ reply: ReplyShape, _ summary: StaticString
    ) -> CommandSpec {
        CommandSpec(name, arguments, family, wordsMin, reply, summary, noreply: true)
    }
}

/// The arguments of all storage commands but `cas`.
private let dataBlock: StaticString = "<key> <flags> <exptime> <bytes> [noreply]"

/// A command of the wire.
public enum Command: UInt8, CaseIterable, Sendable {
    // One case a line, in the order of docs/PROTOCOL.md.
    case get, gets, gat, gats
    case set, add, replace, append, prepend, cas
    case delete, incr, decr, touch
    case flushAll, version, verbosity, stats, cacheMemoryLimit, watch, lruCrawler, slabs, shutdown, help, quit
    case metaNoOperation, metaGet, metaSet, metaDelete, metaArithmetic, metaInspect

    /// The command's row of the table.
    public var spec: CommandSpec {
        switch self {
        case .get: .init("get", "<key>+", .retrieval, 2, .values, "read entries")
        case .gets: .init("gets", "<key>+", .retrieval, 2, .values, "read entries with their CAS uniques")
        case .gat: .init("gat", "<exptime> <key>+", .retrieval, 3, .values, "read entries and give them a new expiry")
        case .gats: .init("gats", "<exptime> <key>+", .retrieval, 3, .values, "like gat, with CAS uniques")
        case .set: .quietable("set", dataBlock, .storage, 5, .line, "store a value")
        case .add: .quietable("add", dataBlock, .storage, 5, .line, "store if absent")
        case .replace:
            .quietable("replace", dataBlock, .storage, 5, .line, "store if present")
        case .append:
            .quietable(
                "append", dataBlock, .storage, 5, .line, "add to the end of a value")
        case .prepend:
            .quietable(
                "prepend", dataBlock, .storage, 5, .line,
                "add to the front of a value")
        case .cas:
            .quietable(
                "cas", "<key> <flags> <exptime> <bytes> <unique> [noreply]", .storage, 6, .line, "store if unchanged")
        case .delete: .quietable("delete", "<key> [0] [noreply]", .update, 2, .line, "delete an entry")
        case .incr: .quietable("incr", "<key> <delta> [noreply]", .update, 3, .line, "add to a decimal value")
        case .decr:
            .quietable("decr", "<key> <delta> [noreply]", .update, 3, .line, "take from a decimal value, down to 0")
        case .touch: .quietable("touch", "<key> <exptime> [noreply]", .update, 3, .line, "give an entry a new expiry")
        case .flushAll: .quietable("flush_all", "[delay] [noreply]", .administration, 1, .line, "invalidate everything")
        case .version: .init("version", "", .administration, 1, .line, "tell name and version")
        case .verbosity:
            .quietable("verbosity", "<level> [noreply]", .administration, 2, .line, "set how much is logged")
        case .stats: .init("stats", "[group]", .administration, 1, .statistics, "report counters")
        case .cacheMemoryLimit:
            .quietable("cache_memlimit", "<MiB> [noreply]", .administration, 2, .line, "resize the memory tier")
        case .watch: .init("watch", "<topic>*", .administration, 1, .stream, "become a stream of log lines")
        case .lruCrawler:
            .quietable(
                "lru_crawler", "<action> [argument] [noreply]", .administration, 2, .stream,
                "list keys, or free expired entries")
        case .slabs:
            .quietable(
                "slabs", "<action> <argument>+ [noreply]", .administration, 3, .line,
                "does nothing: there are no size classes")
        case .shutdown: .init("shutdown", "[graceful]", .administration, 1, .none, "stop the server")
        case .help: .init("help", "", .administration, 1, .help, "list the commands")
        case .quit: .init("quit", "", .administration, 1, .none, "close the connection")
        case .metaNoOperation: .init("mn", "", .meta, 1, .meta, "answer MN after everything before it")
        case .metaGet: .init("mg", "<key> <flag>*", .meta, 2, .meta, "read an entry")
        case .metaSet: .init("ms", "<key> <bytes> <flag>*", .meta, 3, .meta, "store a value")
        case .metaDelete: .init("md", "<key> <flag>*", .meta, 2, .meta, "delete an entry or mark it stale")
        case .metaArithmetic: .init("ma", "<key> <flag>*", .meta, 2, .meta, "count up or down")
        case .metaInspect: .init("me", "<key> [b]", .meta, 2, .meta, "tell about an entry, for people")
        }
    }
}
