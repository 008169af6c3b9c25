// What other threads may know of a connection, for `stats conns`.

import Primitives
import Synchronization

/// Written by the connection's worker, read by whoever reports.
final class ConnectionCard: Sendable {
    private let milliseconds: Atomic<Int64>
    private let watching = Atomic<Bool>(false)

    /// A connection that begins now.
    init(now: Instant) { milliseconds = Atomic(now.milliseconds) }

    /// Whether the client watches others.
    var isWatching: Bool {
        get { watching.load(ordering: .relaxed) }
        set { watching.store(newValue, ordering: .relaxed) }
    }

    /// When bytes last went in or out.
    var lastActivity: Instant {
        get { Instant(milliseconds: milliseconds.load(ordering: .relaxed)) }
        set { milliseconds.store(newValue.milliseconds, ordering: .relaxed) }
    }
}
