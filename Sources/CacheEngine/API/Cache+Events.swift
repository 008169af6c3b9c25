// Watching entries leave memory.

import Primitives

/// A program's wish to be told; ends with `cancel` or with the last reference.
public final class CacheObservation: Sendable {
    private let log: EventLog
    private let id: Int

    init(_ log: EventLog, id: Int) {
        self.log = log
        self.id = id
    }

    /// Ends the observation.
    ///
    /// Events that are being delivered may still come.
    public func cancel() { log.remove(id) }

    deinit { log.remove(id) }
}

extension Cache {
    /// Tells `observer` about entries that were evicted from memory, expired, replaced, deleted or flushed.
    ///
    /// Called on the cache's background thread, soon after the events and in their order, holding no lock; it may use
    /// the cache, but not wait long. At most 8192 events wait: `dropped` says how many were lost before these. An
    /// evicted entry may still be on disk. A flush is one event, without a key.
    public func observe(
        _ observer: @escaping @Sendable (_ events: [CacheEvent], _ dropped: Int) -> Void
    ) -> CacheObservation {
        CacheObservation(memory.events, id: memory.events.add(observer))
    }
}
