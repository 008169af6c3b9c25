// Why entries leave: a bounded stream of events for observers, delivered on the cache's background thread.
//
// Recording happens under a shard lock and costs one relaxed load while nobody observes. An observer that is too slow
// loses events, and is told how many.

public import Primitives
import Synchronization

/// Something that happened to an entry.
public struct CacheEvent: Sendable, Equatable {
    /// Why the entry is no longer what it was.
    public enum Reason: String, Sendable, CaseIterable {
        /// Least recently used, when room was needed.
        case evicted
        /// Its time was over.
        case expired
        /// A newer value took its place.
        case replaced
        /// A client, or the program, deleted it.
        case deleted
        /// Everything was flushed; the key is empty.
        case flushed
    }

    /// The reason.
    public var reason: Reason
    /// The entry's key.
    public var key: [UInt8]
    /// Bytes of its value.
    public var valueBytes: Int
    /// When it would have expired; `.never` if it did not expire.
    public var deadline: Instant
    /// When it was last read or stored, to the second.
    public var lastUse: Instant
    /// Whether it was read since it was stored.
    public var wasFetched: Bool

    /// A flush.
    static let flush = CacheEvent(
        reason: .flushed, key: [], valueBytes: 0, deadline: .never, lastUse: Instant(milliseconds: 0),
        wasFetched: false)
}

/// The events of one cache.
///
/// Thread-safe.
final class EventLog: Sendable {
    typealias Observer = @Sendable (_ events: [CacheEvent], _ dropped: Int) -> Void

    private struct State {
        var waiting: [CacheEvent] = []
        var dropped = 0
        var observers: [(id: Int, observer: Observer)] = []
        var nextID = 0
        /// Wakes the thread that delivers.
        var wake: (@Sendable () -> Void)?
    }

    private static let waitingMax = 8192

    private let isObserved = Atomic<Bool>(false)
    /// Guards events that wait for delivery and the observers.
    ///
    /// A leaf.
    private let state = Guarded(State(), rank: .leaf)

    /// Adds an observer; returns its id.
    func add(_ observer: @escaping Observer) -> Int {
        let id = state.withLock { state in
            state.nextID += 1
            // SAFETY: the block is linked into a shard whose lock the caller holds; the key is copied.
            state.observers.append((state.nextID, observer))
            return state.nextID
        }
        isObserved.store(true, ordering: .relaxed)
        return id
    }

    /// Removes an observer, if it is still there.
    func remove(_ id: Int) {
        let isLast = state.withLock { state in
            state.observers.removeAll { $0.id == id }
            if !state.observers.isEmpty { return false }
            state.waiting = []
            return true
        }
        if isLast { isObserved.store(false, ordering: .relaxed) }
    }

    @inline(__always)
    func record(_ reason: CacheEvent.Reason, _ block: EntryBlock) {
        guard isObserved.load(ordering: .relaxed) else { return }
        append(
            CacheEvent(
                reason: reason, key: unsafe Array(block.key), valueBytes: block.valueBytes, deadline: block.deadline,
                lastUse: Instant(milliseconds: Int64(block.accessed) * 1000),
                wasFetched: block.marks.contains(.fetched)))
    }

    func recordFlush() {
        guard isObserved.load(ordering: .relaxed) else { return }
        append(.flush)
    }

    private func append(_ event: CacheEvent) {
        let wake = state.withLock { state in
            let isFirst = state.waiting.isEmpty
            if state.waiting.count < Self.waitingMax { state.waiting.append(event) } else { state.dropped += 1 }
            return isFirst ? state.wake : nil
        }
        wake?()
    }

    /// Calls `wake` when there is something to deliver, maybe under a shard's lock.
    func setWake(_ wake: @escaping @Sendable () -> Void) { state.withLock { $0.wake = wake } }

    /// Hands the waiting events to the observers.
    ///
    /// Call on the background thread, holding no lock.
    func deliver() {
        guard isObserved.load(ordering: .relaxed) else { return }
        let (events, dropped, observers) = state.withLock { state in
            let taken = (state.waiting, state.dropped, state.observers)
            state.waiting = []
            state.dropped = 0
            return taken
        }
        if events.isEmpty && dropped == 0 { return }
        for (_, observer) in observers { observer(events, dropped) }
    }
}
