// What operators can ask for beyond one-word commands: watching, listing keys, and the crawler's switches.
//
// Plain values, like all requests.

/// Kinds of events that `watch` shows, by memcached's names.
public struct WatchTopics: OptionSet, Sendable {
    /// One bit for each topic.
    public let rawValue: UInt16

    /// Topics from their bits.
    @inlinable
    public init(rawValue: UInt16) { self.rawValue = rawValue }

    /// Every look at a key (`type=item_get`).
    public static let fetchers = WatchTopics(rawValue: 1)
    /// Every attempt to store (`type=item_store`).
    public static let mutations = WatchTopics(rawValue: 2)
    /// Entries that left memory to make room (`type=eviction`).
    public static let evictions = WatchTopics(rawValue: 4)
    /// Connections that begin and end (`type=conn_new`, `type=conn_close`).
    public static let connectionEvents = WatchTopics(rawValue: 8)
    /// Entries that clients deleted (`type=deleted`).
    public static let deletions = WatchTopics(rawValue: 16)
    /// Every command line.
    public static let rawCommands = WatchTopics(rawValue: 32)
    /// Background work: dumps, and the state of the disk tier.
    public static let systemEvents = WatchTopics(rawValue: 64)
    /// Events of memcached's proxy: accepted, because its tools ask for them, and never sent.
    public static let proxy = WatchTopics(rawValue: 128)

    /// The topics by the words that clients send.
    static let words: [(StaticString, WatchTopics)] = [
        ("fetchers", .fetchers), ("mutations", .mutations), ("evictions", .evictions),
        ("connevents", .connectionEvents), ("deletions", .deletions), ("rawcmds", .rawCommands),
        ("sysevents", .systemEvents), ("proxyreqs", .proxy), ("proxyevents", .proxy), ("proxyuser", .proxy),
    ]
}

/// How `lru_crawler` lists keys.
public enum DumpFormat: Sendable {
    /// `metadump`: `key=<uri-encoded> exp=... la=...`, for tools.
    case metadata
    /// `mgdump`: `mg <key>` lines, to be sent back as they are.
    case metaGet
}

/// A request to the crawler, memcached's name for what walks through all entries.
public enum CrawlerRequest: Equatable, Sendable {
    /// List keys; not `isAll` names classes of sizes that no entry is in.
    case dump(DumpFormat, isAll: Bool)
    /// Free the memory of expired entries now.
    case crawl(isAll: Bool)
    /// Allow crawls and dumps, or refuse them.
    case enable(Bool)
    /// Remember how long a crawl pauses, in microseconds.
    case setSleep(UInt32)
    /// Remember how many entries a crawl looks at.
    case setCount(UInt32)
}
