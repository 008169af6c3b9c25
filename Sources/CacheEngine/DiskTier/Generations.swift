// The numbers that tell writes apart: names of value files, CAS ids, versions of entries. Any thread may draw one.

import Synchronization

/// The source of generations: epoch in the upper 24 bits, a counter below.
///
/// Never repeats, not even after a crash.
final class Generations: Sendable {
    private let last: Atomic<UInt64>

    init(epoch: UInt32) { last = Atomic(UInt64(epoch) << 40) }

    /// A number greater than all before it.
    @inline(__always)
    func next() -> UInt64 { last.wrappingAdd(1, ordering: .relaxed).newValue }

    /// A new epoch began.
    func raise(epoch: UInt32) { last.store(UInt64(epoch) << 40, ordering: .relaxed) }
}
