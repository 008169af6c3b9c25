// How an operation that had to wait for the disk goes on: a waiter is told, once, through its queue.

import Primitives

/// Where completions go.
///
/// One per event loop.
public protocol CompletionQueue: AnyObject, Sendable {
    /// Takes a completion. Called on a disk thread, or from inside the call that registered the waiter: it must only
    /// enqueue and wake, never call back into the cache.
    func post(_ completion: Completion)
}

/// Who waits: a queue, and a token that means something to the queue's owner.
public struct Waiter: Sendable {
    let queue: any CompletionQueue
    let token: UInt64

    /// A waiter whose completion carries `token`.
    public init(queue: any CompletionQueue, token: UInt64) {
        self.queue = queue
        self.token = token
    }

    func complete(_ outcome: CompletionOutcome, flight: Flight? = nil) {
        queue.post(Completion(token: token, outcome: outcome, flight: flight))
    }
}

/// The end of a wait.
public struct Completion: Sendable {
    /// The waiter's token.
    public let token: UInt64
    /// What was found.
    public let outcome: CompletionOutcome
    /// Proof for the operation that is executed again; give it back with `Cache.finish`.
    public let flight: Flight?
}

/// What a wait found.
public enum CompletionOutcome: Sendable {
    /// The obstacle is gone: execute the operation again, passing the completion's flight.
    case retry
    /// The key is in neither tier.
    case absent
    /// The entry, pinned.
    case entry(PinnedEntry)
    /// An entry too large for the memory tier, verified, to be read chunk by chunk.
    case stream(ValueStream)
    /// The stream's requested chunk is there.
    case chunk
    /// The rest of a stream cannot be read any more.
    case failed
}

/// One disk lookup: any number of waiters share it, and its result proves what the disk holds for as long as nobody
/// writes the key.
public final class Flight: Sendable {
    /// Guarded by the lock of the key's shard, like everything in a flight.
    struct State {
        var loads: [Waiter] = []
        var proofs: [Waiter] = []
        /// Operations that still rely on a finished flight.
        var holders = 0
        var isAbsent = false
    }

    let hash: UInt64
    let key: [UInt8]
    /// An entry on its way from memory to its file, for which the flight stands instead of a lookup.
    ///
    /// To be used while the flight is registered in its shard only.
    let demoted: EntryBlock?
    var isDemotion: Bool { demoted != nil }
    /// Begun by the warm-up: what it finds comes in as the least recently used, unless a client has joined.
    let isWarming: Bool
    // SAFETY: read and written only under the lock of the shard of `hash`.
    nonisolated(unsafe) var state = State()

    init(hash: UInt64, key: Span<UInt8>, demoted: EntryBlock? = nil, isWarming: Bool = false) {
        self.hash = hash
        self.isWarming = isWarming
        self.demoted = demoted
        self.key = unsafe key.withUnsafeBufferPointer { unsafe Array($0) }
    }
}
