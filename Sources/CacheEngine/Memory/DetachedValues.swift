// Values that have left the memory tier and stay in memory, because readers hold them.
//
// While an entry is linked its value belongs to the tier's limit, however many read it. One that was replaced, deleted,
// evicted or flushed meanwhile is freed with its last reader; what such values take is counted here, each once, so that
// whoever serves readers can bound it. Any thread.

import Synchronization

/// The bytes of values without an entry.
public final class DetachedValues: Sendable {
    private let total = Atomic<Int>(0)

    /// Bytes of memory that they take.
    public var bytes: Int { total.load(ordering: .relaxed) }

    func add(_ bytes: Int) { total.add(bytes, ordering: .relaxed) }
    func remove(_ bytes: Int) { total.subtract(bytes, ordering: .relaxed) }
}

extension Cache {
    /// What readers hold of values that have left the memory tier.
    public var detachedValues: DetachedValues { memory.release.detached }
}
