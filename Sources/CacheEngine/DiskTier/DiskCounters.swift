// What the disk tier counts, for the statistics. Added to by its threads, read by anybody.

import Primitives

/// Counts of the disk tier since start.
///
/// Any thread may add to them.
final class DiskCounters: Sendable {
    enum Name: Int, CaseIterable {
        case reads, readErrors, writeErrors, commits, committedWrites, coalescedWrites, evictions, expirations
        case quarantines, orphansRemoved, fileWaits, fileRefusals
        case readBytes, writtenBytes, evictedBytes, deviceBytes, recencyWrites
    }

    private let values: Guarded<[Int]> = Guarded(Array(repeating: 0, count: Name.allCases.count), rank: .leaf)

    func add(_ amount: Int = 1, to name: Name) { values.withLock { $0[name.rawValue] += amount } }

    subscript(name: Name) -> Int { values.withLock { $0[name.rawValue] } }
}
