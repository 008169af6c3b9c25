// metadump, mgdump and cachedump: lists of keys that are made while they are sent.
//
//     OK -> page requested -> page in the output -> (sent) -> page requested -> ... -> END
//
// A page is one step of the engine's walk, some hundred entries; the next one is asked for when the socket has taken
// this one, so a client that does not read costs one page of memory, and the worker serves others between two pages.

import CacheEngine
import Primitives
import Protocol

/// A list of keys on its way to a client.
final class KeyDump {
    /// How the keys are shown.
    enum Format: Equatable {
        case metadata
        case metaGet
        /// At most so many lines.
        case cachedump(linesMax: Int)
    }

    /// Bytes of all lines of a cachedump: memcached's bound.
    static let cachedumpBytesMax = 2 << 20

    let format: Format
    private let walk: EntryWalk
    private var lines = 0
    private var bytes = 0
    /// Whether the walk has a page that is not in the output yet.
    var hasPage = false
    /// Since when the client has had the present page.
    var pageSince = Instant.never

    init(_ format: Format, _ cache: Cache) {
        self.format = format
        walk = EntryWalk(cache)
    }

    /// Asks for the next page.
    func requestPage(_ waiter: Waiter) { walk.requestNext(waiter) }

    /// Appends the page that has come; returns whether it was the last one.
    func appendPage(to output: inout ByteBuffer) -> Bool {
        hasPage = false
        for entry in walk.take() {
            let before = output.count
            // SAFETY: the key outlives the call.
            unsafe entry.key.withUnsafeBytes { unsafe append($0, DumpedEntry(entry), to: &output) }
            guard case .cachedump(let linesMax) = format else { continue }
            lines += output.count > before ? 1 : 0
            bytes += output.count - before
            if lines == linesMax || bytes > Self.cachedumpBytesMax { return true }
        }
        return walk.isComplete
    }

    private func append(_ key: UnsafeRawBufferPointer, _ entry: DumpedEntry, to output: inout ByteBuffer) {
        switch format {
        case .metadata: unsafe output.appendMetadump(key: key, entry)
        case .metaGet: unsafe output.appendMetaGetDump(key: key, entry)
        case .cachedump: unsafe output.appendCachedump(key: key, entry)
        }
    }

    /// The line after the last key.
    var end: StaticString { format == .metaGet ? "EN\r\n" : "END\r\n" }
}

extension DumpedEntry {
    /// What a walk found, with the times of the wire.
    init(_ entry: WalkedEntry) {
        self.init(
            expiry: entry.deadline == .never ? nil : entry.deadline.seconds, lastUse: entry.accessed.seconds,
            unique: entry.cas, wasFetched: entry.wasFetched, valueBytes: entry.valueBytes,
            totalBytes: entry.accountedBytes, flags: entry.flags, hasBinaryKey: entry.hasBinaryKey)
    }
}

extension Session {
    /// The same as `requestNumber` for the pages of a dump.
    static let dumpNumber = UInt32.max - 1

    /// Executes `lru_crawler metadump` or `mgdump`.
    mutating func beginDump(_ format: DumpFormat, isAll: Bool, lineBytes: Int, _ turn: inout Turn) -> Step {
        if let refusal = refusal(of: format, turn) {
            reply(.error(refusal), &turn)
            return .done(lineBytes)
        }
        turn.output.bytes.append("OK\r\n")
        let dump = KeyDump(format == .metadata ? .metadata : .metaGet, turn.cache)
        guard isAll else {
            turn.service.crawler.endDump()
            turn.output.bytes.append(dump.end)
            return .done(lineBytes)
        }
        turn.service.watchers.publish(.systemEvents, at: turn.cache.clock.wall()) { line in
            line.append("type=dump status=start")
        }
        phase = .dumping(dump)
        return .done(lineBytes)
    }

    /// Why a dump cannot begin; nil if it has begun.
    private func refusal(of format: DumpFormat, _ turn: borrowing Turn) -> RequestError? {
        let isMetadump = format == .metadata
        guard turn.service.crawler.isEnabled else { return .crawlerDisabled }
        guard turn.service.allowsDumps else { return isMetadump ? .metadumpNotAllowed : .mgdumpNotAllowed }
        // As memcached: the lines would have to wait for replies that are not made yet.
        guard turn.output.isEmpty, replies.isEmpty else { return isMetadump ? .pipelinedMetadump : .pipelinedMgdump }
        return turn.service.crawler.beginDump() ? nil : .crawlerBusy
    }

    /// Executes `stats cachedump` for class 1; its lines come after all replies before it.
    mutating func beginCachedump(linesMax: Int, lineBytes: Int, _ turn: borrowing Turn) -> Step {
        guard replies.isEmpty else { return .stalled(.slots) }
        phase = .dumping(KeyDump(.cachedump(linesMax: linesMax), turn.cache))
        return .done(lineBytes)
    }

    /// Goes on with a dump.
    mutating func continueDump(_ dump: KeyDump, _ turn: inout Turn) -> Step {
        guard dump.hasPage else {
            dump.requestPage(waiter(Self.dumpNumber, turn))
            return .stalled(.engine)
        }
        dump.pageSince = turn.now
        guard dump.appendPage(to: &turn.output.bytes) else { return .stalled(.turn) }
        turn.output.bytes.append(dump.end)
        endDump(turn)
        return .done(0)
    }

    /// A page has come.
    func completeDump() -> Bool {
        guard case .dumping(let dump) = phase else { return false }
        dump.hasPage = true
        return true
    }

    /// Lets the next dump begin.
    mutating func endDump(_ turn: borrowing Turn) {
        guard case .dumping(let dump) = phase else { return }
        phase = .command
        if case .cachedump = dump.format { return }
        turn.service.crawler.endDump()
        turn.service.watchers.publish(.systemEvents, at: turn.cache.clock.wall()) { $0.append("type=dump status=end") }
    }

    /// Since when the client has had a page of a dump without the next one being asked for.
    var dumpPageSince: Instant? {
        guard case .dumping(let dump) = phase, dump.pageSince != .never, !dump.hasPage else { return nil }
        return dump.pageSince
    }
}
