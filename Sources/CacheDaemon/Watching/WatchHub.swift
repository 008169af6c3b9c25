// Who watches, and the log lines that wait for them.
//
//     worker: event -> line -> ring of every watcher that wants it -> message to the watcher's worker -> its connection
//
// While nobody watches, a request costs one branch on a flag that is read once per turn of a connection. Each watcher
// has a ring of bounded size: what does not fit is counted, and told in a line `skipped=<n>` before the next one that
// fits. Thread-safe; workers publish, and the watchers' own workers take.

import CacheEngine
import Primitives
import Protocol
import Synchronization

/// What somebody wants to know about the requests that are executed, as one set of bits.
struct Observation: OptionSet, Sendable {
    let rawValue: UInt16

    /// `stats detail` is on.
    static let prefixes = Observation(rawValue: 1 << 15)

    init(rawValue: UInt16) { self.rawValue = rawValue }

    init(_ topics: WatchTopics) { rawValue = topics.rawValue }

    /// Whether somebody watches one of these.
    @inline(__always)
    func includes(_ topics: WatchTopics) -> Bool { rawValue & topics.rawValue != 0 }
}

/// The watchers of a daemon.
final class WatchHub: Sendable {
    /// As in memcached.
    static let watchersMax = 20
    /// Bytes of lines that wait for one watcher.
    static let ringBytesMax = 256 << 10

    fileprivate struct Watcher {
        let topics: WatchTopics
        let waker: any ConnectionWaker
        let connection: UInt32
        var ring: [UInt8] = []
        var skipped: UInt64 = 0
        /// Whether its worker was told that there is something in the ring.
        var isTold = false
    }

    fileprivate struct State {
        var watchers: [UInt64: Watcher] = [:]
        var lastID: UInt64 = 0
        /// Number of the last line: memcached's `gid`.
        var lastLine: UInt64 = 0
        var isPrefixTallyOn = false
        var counts = Counts()
    }

    /// What the hub has done.
    struct Counts: Sendable {
        /// Clients that watch now.
        var watchers = 0
        /// Lines made.
        var lines: UInt64 = 0
        /// Lines put into rings.
        var sent: UInt64 = 0
        /// Lines that did not fit into a ring.
        var skipped: UInt64 = 0
    }

    /// What is to be observed, for `Turn.begin`.
    private let flags = Atomic<UInt16>(0)
    /// Guards the watchers, their rings and the numbers of lines.
    private let state = Guarded(State(), rank: .leaf)

    /// What has to be observed now.
    @inline(__always)
    var observation: Observation { Observation(rawValue: flags.load(ordering: .relaxed)) }

    var counts: Counts {
        state.withLock { state in
            var counts = state.counts
            counts.watchers = state.watchers.count
            return counts
        }
    }

    // MARK: Watchers

    /// Adds a watcher, whose connection is told through `waker`; nil if there are too many.
    func add(_ topics: WatchTopics, waker: any ConnectionWaker, connection: UInt32) -> UInt64? {
        state.withLock { state in
            guard state.watchers.count < Self.watchersMax else { return nil }
            state.lastID += 1
            state.watchers[state.lastID] = Watcher(topics: topics, waker: waker, connection: connection)
            updateFlags(state)
            return state.lastID
        }
    }

    /// Forgets a watcher.
    func remove(_ id: UInt64) {
        state.withLock { state in
            state.watchers[id] = nil
            updateFlags(state)
        }
    }

    /// Moves the lines that wait for a watcher to the end of `output`.
    func take(_ id: UInt64, into output: inout ByteBuffer) {
        let lines = state.withLock { state -> [UInt8] in
            guard let lines = state.watchers[id]?.ring else { return [] }
            state.watchers[id]?.ring = []
            state.watchers[id]?.isTold = false
            return lines
        }
        unsafe lines.withUnsafeBytes { unsafe output.append($0) }
    }

    /// Turns the tally of key prefixes on or off.
    func setPrefixTally(_ isOn: Bool) {
        state.withLock { state in
            state.isPrefixTallyOn = isOn
            updateFlags(state)
        }
    }

    private func updateFlags(_ state: borrowing State) {
        var observation: Observation = state.isPrefixTallyOn ? .prefixes : []
        for watcher in state.watchers.values { observation.formUnion(Observation(watcher.topics)) }
        flags.store(observation.rawValue, ordering: .relaxed)
    }

    // MARK: Lines

    /// Gives a line to everybody who watches `topic`.
    ///
    /// `body` appends what follows time and number, without a line end. Takes the mailboxes' locks, so no lock may be
    /// held by the caller.
    func publish(_ topic: WatchTopics, at wall: WallTime, _ body: (inout ByteBuffer) -> Void) {
        guard observation.includes(topic) else { return }
        var rest = ByteBuffer()
        body(&rest)
        rest.append(byte: UInt8(ascii: "\n"))
        let told = state.withLock { state in
            state.lastLine += 1
            state.counts.lines += 1
            var line = ByteBuffer()
            line.appendWatchPrefix(milliseconds: wall.milliseconds, number: state.lastLine)
            unsafe line.append(rest.readable)
            return state.put(line, for: topic)
        }
        for (waker, connection) in told { waker.wake(connection: connection) }
    }
}

extension WatchHub {
    /// Tells that the disk tier's state has changed.
    func publishDiskState(_ state: String, reason: String, _ clock: any TimeSource) {
        publish(.systemEvents, at: clock.wall()) { line in
            line.append("type=disk state=\(state) reason=")
            // SAFETY: the text's bytes are lent for the call.
            var reason = reason
            reason.withUTF8 { unsafe line.append(uriEncoded: UnsafeRawBufferPointer($0)) }
        }
    }

    /// Tells about an entry that left memory to make room.
    func publishEviction(_ event: CacheEvent, _ clock: any TimeSource) {
        let now = clock.now()
        let left =
            event.deadline == .never ? -1 : max(0, event.deadline.milliseconds - now.milliseconds) / 1000
        let idle = max(0, now.milliseconds - event.lastUse.milliseconds) / 1000
        publish(.evictions, at: clock.wall()) { line in
            // SAFETY: the key outlives the call.
            unsafe event.key.withUnsafeBytes { key in
                unsafe line.appendWatchedEviction(
                    key: key, wasFetched: event.wasFetched, timeToLive: left, idleSeconds: idle,
                    valueBytes: event.valueBytes)
            }
        }
    }
}

extension WatchHub.State {
    /// Puts a line into the rings of those who watch `topic`; returns who has to be told.
    fileprivate mutating func put(
        _ line: borrowing ByteBuffer, for topic: WatchTopics
    ) -> [(any ConnectionWaker, UInt32)] {
        var told: [(any ConnectionWaker, UInt32)] = []
        for id in watchers.keys {
            guard var watcher = watchers[id], !watcher.topics.isDisjoint(with: topic) else { continue }
            watchers[id] = nil
            let isKept = watcher.put(line)
            counts.sent += isKept ? 1 : 0
            counts.skipped += isKept ? 0 : 1
            if isKept, !watcher.isTold {
                watcher.isTold = true
                told.append((watcher.waker, watcher.connection))
            }
            watchers[id] = watcher
        }
        return told
    }
}

extension WatchHub.Watcher {
    /// Whether the line, and news of lines that were skipped before it, fit into the ring.
    fileprivate mutating func put(_ line: borrowing ByteBuffer) -> Bool {
        // Room for the longest news: its word, twenty digits and the line end.
        guard ring.count + line.count + 32 <= WatchHub.ringBytesMax else {
            skipped += 1
            return false
        }
        if skipped > 0 { ring.append(contentsOf: Array("skipped=\(skipped)\n".utf8)) }
        skipped = 0
        // SAFETY: the bytes are copied.
        unsafe ring.append(contentsOf: line.readable)
        return true
    }
}
