// Memory that connections hold from one turn to the next, of all of them together: `client_memory`.
//
// Counted are replies that were not taken, requests of which only a part has come, and values that left the memory tier
// while replies refer to them; a value that is still an entry belongs to `memory.limit`. From half of the limit on
// memory is scarce: a connection gets a small part of its replies at a time, and no more before it has taken that.
// Clients that read do not notice. At the limit those go whose replies, or requests, have waited for the longest; see
// Worker. Values that are being received have a budget of their own, in the engine. Any thread.

import CacheEngine
import Primitives
import Synchronization

/// What all connections of a server hold.
final class ClientMemory: Sendable {
    /// What a connection holds is not counted below this.
    static let countedBytesMin = 16 << 10

    private let held = Atomic<Int>(0)
    private let limit: Atomic<Int>
    private let detached: DetachedValues
    /// Guards the list of workers, which is complete soon after the start.
    private let workers = Guarded<[Mailbox]>([], rank: .leaf)
    /// Whether the workers were told that the limit is reached, and none has looked since.
    private let isTold = Atomic<Bool>(false)

    init(_ cache: Cache, bytesMax: Int) {
        detached = cache.detachedValues
        limit = Atomic(bytesMax)
    }

    /// Bytes held now.
    var bytes: Int { max(0, held.load(ordering: .relaxed)) + detached.bytes }

    /// The most that may be held.
    var bytesMax: Int {
        get { limit.load(ordering: .relaxed) }
        set { limit.store(newValue, ordering: .relaxed) }
    }

    /// Whether each connection is to get less at a time.
    @inline(__always)
    var isScarce: Bool { bytes >= bytesMax / 2 }

    /// Whether connections have to go.
    @inline(__always)
    var isExhausted: Bool { bytes > bytesMax }

    /// Whether enough have gone: below the limit by an eighth, so that not every turn has to look for some.
    var isRelieved: Bool { bytes <= bytesMax / 8 * 7 }

    /// A connection holds so many bytes more than before.
    func add(_ bytes: Int) { held.add(bytes, ordering: .relaxed) }

    // MARK: Workers

    /// Adds a worker that has connections.
    func join(_ mailbox: Mailbox) { workers.withLock { $0.append(mailbox) } }

    /// Lets every worker look for connections that have to go.
    func tellWorkers() {
        guard !isTold.exchange(true, ordering: .relaxed) else { return }
        for mailbox in workers.withLock({ $0 }) { mailbox.post(.memoryExhausted) }
    }

    /// A worker looks for connections that have to go.
    func noteLook() { isTold.store(false, ordering: .relaxed) }
}
