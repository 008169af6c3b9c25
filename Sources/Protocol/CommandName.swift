// Finds a command by its name: one load and a few compares with constants, by length.

extension Command {
    /// The command whose name is the first `count` bytes of `input` from `start`, or nil.
    ///
    /// Lower case only.
    @inline(__always)
    static func named(_ input: Input, from start: Int, count: Int) -> Command? {
        guard count >= 2, count <= 14 else { return nil }
        guard count <= 8 else { return longName(input, from: start, count: count) }
        return shortName(input.packed(from: start, count: count), count: count)
    }

    /// Names of two to eight bytes.
    @inline(__always)
    private static func shortName(_ word: UInt64, count: Int) -> Command? {
        switch count {
        case 2: metaName(word)
        case 3: threeLetters(word)
        case 4: fourLetters(word)
        case 5: fiveLetters(word)
        case 6: word == packed("delete") ? .delete : word == packed("append") ? .append : nil
        case 7:
            word == packed("replace")
                ? .replace : word == packed("prepend") ? .prepend : word == packed("version") ? .version : nil
        case 8: word == packed("shutdown") ? .shutdown : nil
        default: nil
        }
    }

    @inline(__always)
    private static func threeLetters(_ word: UInt64) -> Command? {
        if word == packed("get") { return .get }
        if word == packed("set") { return .set }
        if word == packed("add") { return .add }
        if word == packed("cas") { return .cas }
        if word == packed("gat") { return .gat }
        return nil
    }

    @inline(__always)
    private static func fourLetters(_ word: UInt64) -> Command? {
        if word == packed("gets") { return .gets }
        if word == packed("incr") { return .incr }
        if word == packed("decr") { return .decr }
        if word == packed("gats") { return .gats }
        if word == packed("quit") { return .quit }
        if word == packed("help") { return .help }
        return nil
    }

    @inline(__always)
    private static func fiveLetters(_ word: UInt64) -> Command? {
        if word == packed("touch") { return .touch }
        if word == packed("stats") { return .stats }
        if word == packed("watch") { return .watch }
        if word == packed("slabs") { return .slabs }
        return nil
    }

    @inline(__always)
    private static func metaName(_ word: UInt64) -> Command? {
        if word == packed("mg") { return .metaGet }
        if word == packed("ms") { return .metaSet }
        if word == packed("mn") { return .metaNoOperation }
        if word == packed("md") { return .metaDelete }
        if word == packed("ma") { return .metaArithmetic }
        if word == packed("me") { return .metaInspect }
        return nil
    }

    /// Names of nine to fourteen bytes, none of them hot.
    private static func longName(_ input: Input, from start: Int, count: Int) -> Command? {
        switch count {
        case 9 where input.matches("flush_all", at: start): .flushAll
        case 9 where input.matches("verbosity", at: start): .verbosity
        case 11 where input.matches("lru_crawler", at: start): .lruCrawler
        case 14 where input.matches("cache_memlimit", at: start): .cacheMemoryLimit
        default: nil
        }
    }
}
