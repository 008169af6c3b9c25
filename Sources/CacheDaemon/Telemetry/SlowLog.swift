// The last requests that took longer than `log.slow`, with what made them slow.
//
// A ring of bounded length; the newest stay. Nothing is written to the log: a slow disk would flood it. Thread-safe.

import Primitives
import Synchronization

/// One slow request.
struct SlowRequest: Sendable, Equatable {
    /// Where the time went.
    enum Place: String, Sendable {
        /// In the turn of a worker: many requests at once, a large one, or a machine without CPU to spare.
        case worker
        /// Reading from disk.
        case disk
        /// A change waited for the disk: for the entry, its value's file, or room in the journal.
        case write
    }

    /// When it was answered.
    var time: WallTime
    var nanoseconds: Int64
    var place: Place
    /// What was asked, in a word.
    var command: String
    /// Requests that shared the time; 1 unless `place` is `.worker`.
    var requests: Int
    /// Empty for `.worker`, where the key is not known.
    var key: [UInt8]
    /// The client's descriptor, as `stats conns` numbers it.
    var descriptor: Int32
}

/// The ring of slow requests.
final class SlowLog: Sendable {
    static let capacity = 128

    private struct State {
        var requests: [SlowRequest] = []
        var next = 0
        var total: UInt64 = 0
    }

    /// Guards the ring.
    private let state = Guarded(State(), rank: .leaf)
    private let limit: Atomic<Int64>

    init(threshold: TimeSpan) { limit = Atomic(threshold.milliseconds * 1_000_000) }

    /// From which time on a request is slow, in ns.
    @inline(__always)
    var threshold: Int64 { limit.load(ordering: .relaxed) }

    /// Changes the threshold.
    func setThreshold(_ span: TimeSpan) { limit.store(span.milliseconds * 1_000_000, ordering: .relaxed) }

    /// Adds a request.
    func add(_ request: SlowRequest) {
        state.withLock { state in
            state.total &+= 1
            if state.requests.count < Self.capacity {
                state.requests.append(request)
            } else {
                state.requests[state.next] = request
                state.next = (state.next + 1) % Self.capacity
            }
        }
    }

    /// The requests kept, newest first, and how many there were since the start.
    var all: (requests: [SlowRequest], total: UInt64) {
        state.withLock { state in
            let ordered = state.requests[state.next...] + state.requests[..<state.next]
            return (ordered.reversed(), state.total)
        }
    }
}
