// One connection of a load thread: the socket and what is on its way. Holds state only; LoadThread acts on it.

import CacheClient
import Primitives

/// A request that was sent and not answered yet.
struct PendingRequest {
    var key: UInt32
    var isSet: Bool
    /// For a set, its ticket; for a get, `version` is the oldest one that may come back.
    var ticket: KeyStates.Ticket
}

/// State of one connection.
///
/// Belongs to its thread.
@safe
struct LoadConnection: ~Copyable {
    /// Nil while the connection is broken.
    var socket: Socket?
    /// Received bytes of a reply that is not whole yet; mostly empty.
    var input = ByteBuffer()
    /// Bytes that the kernel did not take; mostly empty.
    var output = ByteBuffer()
    /// Bytes that `input` needs in all before the next scan can succeed.
    var wanted = 0
    /// Requests of the batch that are still to be written.
    var unwritten = 0
    /// When the batch was due, in nanoseconds of the monotonic clock.
    var batchStart: UInt64 = 0
    /// Whether epoll reports room for output.
    var watchesOutput = false

    // SAFETY: `slots` holds `capacity` requests, allocated in `init`, freed in deinit; head and count stay within.
    private let slots: UnsafeMutablePointer<PendingRequest>
    private let capacity: Int
    private var head = 0
    /// Requests without an answer.
    private(set) var pendingCount = 0

    /// Not connected; `capacity` requests can be on their way.
    init(capacity: Int) {
        self.capacity = capacity
        socket = nil
        unsafe slots = .allocate(capacity: capacity)
    }

    deinit { unsafe slots.deallocate() }

    /// Whether the batch is written and answered.
    var isIdle: Bool { pendingCount == 0 && unwritten == 0 }

    /// The oldest request without an answer; there is one.
    var oldest: PendingRequest {
        @inline(__always) get {
            precondition(pendingCount > 0)
            return unsafe slots[head]
        }
    }

    /// Requests of the batch that are not answered, written or not.
    var unansweredCount: Int { pendingCount + unwritten }

    /// A request was written.
    @inline(__always)
    mutating func push(_ request: PendingRequest) {
        precondition(pendingCount < capacity)
        var tail = head &+ pendingCount
        if tail >= capacity { tail &-= capacity }
        unsafe slots[tail] = request
        pendingCount &+= 1
    }

    /// The oldest request was answered.
    @inline(__always)
    mutating func pop() {
        precondition(pendingCount > 0)
        head &+= 1
        if head == capacity { head = 0 }
        pendingCount &-= 1
    }

    /// Forgets everything but the capacity: the connection broke.
    ///
    /// Returns the number of requests that got no answer.
    mutating func reset() -> Int {
        let lost = unansweredCount
        socket = nil
        input.consume(input.count)
        output.consume(output.count)
        wanted = 0
        unwritten = 0
        watchesOutput = false
        head = 0
        pendingCount = 0
        return lost
    }
}
