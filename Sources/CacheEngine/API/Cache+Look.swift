// Looking at an entry from an event loop: never a wait, no recency, no counters, no promotion.

import Primitives

/// A question about a key; asked with `Cache.look`.
public final class EntryLook: Sendable {
    private let answer = Answer<EntryInfo?>(nil)

    /// A question that is not asked yet.
    public init() {}

    /// What is known about the key's entry, once the waiter was told; nil if it is in neither tier.
    public internal(set) var info: EntryInfo? {
        get { answer.value }
        set { answer.value = newValue }
    }
}

extension Cache {
    /// Finds out what is known about the key's entry, and then tells `waiter`, on whatever thread.
    public func look(at key: [UInt8], _ look: EntryLook, waiter: Waiter) {
        findInfoOfBothTiers(key) { info in
            look.info = info
            waiter.complete(.retry)
        }
    }
}
