// The largest values that clients have stored lately: a short list, ordered by size.
//
// Values that do not come whole in one read of the socket are noted, which is every value above 64 KiB. Who reports
// leaves out what memory knows to be gone. Thread-safe.

import Primitives
import Synchronization

/// One entry of the list.
struct BigEntry: Sendable, Equatable {
    var key: [UInt8]
    var valueBytes: Int
    /// When it was stored.
    var stored: WallTime
}

/// The list of the largest values.
final class BigEntries: Sendable {
    static let capacity = 32

    /// Guards the list, largest first.
    private let entries = Guarded([BigEntry](), rank: .leaf)
    /// The smallest size that gets into a full list.
    private let threshold = Atomic<Int>(0)

    /// Takes note of a store; cheap for what is too small for the list.
    func note(_ key: UnsafeRawBufferPointer, valueBytes: Int, at time: @autoclosure () -> WallTime) {
        guard valueBytes > threshold.load(ordering: .relaxed) else { return }
        // SAFETY: the key is copied.
        let entry = unsafe BigEntry(key: Array(key), valueBytes: valueBytes, stored: time())
        entries.withLock { entries in
            entries.removeAll { $0.key == entry.key }
            let position = entries.firstIndex { $0.valueBytes < valueBytes } ?? entries.count
            entries.insert(entry, at: position)
            if entries.count > Self.capacity { entries.removeLast() }
            let isFull = entries.count == Self.capacity
            threshold.store(isFull ? entries.last?.valueBytes ?? 0 : 0, ordering: .relaxed)
        }
    }

    /// The list, largest first.
    var all: [BigEntry] { entries.withLock { $0 } }

    /// Forgets entries that are gone.
    func forget(_ keys: Set<[UInt8]>) {
        guard !keys.isEmpty else { return }
        entries.withLock { entries in
            entries.removeAll { keys.contains($0.key) }
            threshold.store(0, ordering: .relaxed)
        }
    }
}
