// What a connection holds from one turn to the next, and since when: its part of `client_memory`.
//
// Counted at the end of each turn. A turn that leaves nothing behind, as most do, pays a few comparisons. Belongs to
// the worker's thread.

import CacheEngine
import Primitives
import Protocol

/// What is counted of a connection.
struct HeldMemory {
    /// Bytes; 0 for few.
    var bytes = 0
    /// Since when something has waited without progress of the client; `.never`: nothing waits.
    var since = Instant.never
    /// The count of the request that was the last one then.
    var request: UInt32 = 0
}

extension Connection {
    /// Whether replies or a part of a request wait.
    @inline(__always)
    var isHolding: Bool { !unsent.isEmpty || !session.replies.isEmpty || input.allocatedBytes > 0 }

    /// Bytes of memory that come back when the connection is closed.
    var giveableBytes: Int {
        unsent.heldBytes + session.replies.heldBytes + input.allocatedBytes + unsent.detachedBytes
            + session.replies.detachedBytes
    }

    /// Counts what is left of the turn that ends.
    @inline(__always)
    func countHeldMemory(_ now: Instant) {
        if isHolding || held.since != .never { recountHeldMemory(now) }
    }

    private func recountHeldMemory(_ now: Instant) {
        guard isHolding else {
            held.since = .never
            return setHeldBytes(0)
        }
        let request = session.requestCount
        // Progress: a request that was executed, or replies that were taken to the last byte (`sendLeftover`).
        if held.since == .never || request != held.request { held.since = now }
        held.request = request
        let bytes = unsent.heldBytes + session.replies.heldBytes + input.allocatedBytes
        setHeldBytes(bytes < ClientMemory.countedBytesMin ? 0 : bytes)
    }

    /// Gives everything back: the connection is closed, and somebody may still hold the object.
    func releaseHeldMemory() {
        unsent = Output()
        session.replies = ReplyQueue()
        input = ByteBuffer()
        held.since = .never
        setHeldBytes(0)
    }

    private func setHeldBytes(_ bytes: Int) {
        guard bytes != held.bytes else { return }
        worker.service.clientMemory.add(bytes - held.bytes)
        held.bytes = bytes
    }
}
