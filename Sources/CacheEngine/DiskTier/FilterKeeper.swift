// Keeps the shards' residency filters in step with the index, and builds them.
//
// The writer tells which rows a committed transaction added and removed; the filters learn it before the pending writes
// are forgotten, so that at no moment a row is in neither. Filters are built from the index in hash order, a slice at a
// time: a change below the slice's end goes to the filter under construction, one above it will be met later. After a
// transaction with an unknown outcome nothing is certain: the filters are dropped and built anew.

import Primitives

/// Rows that a transaction added and removed, by hash.
struct RowChanges {
    var added: [UInt64] = []
    var removed: [UInt64] = []

    /// A put: adds a row unless it took the place of one with the same hash.
    mutating func put(_ hash: UInt64, insteadOf old: Replaced?) {
        if old == nil { added.append(hash) }
    }

    /// A deletion, if there was a row.
    mutating func delete(_ hash: UInt64, _ old: Replaced?) {
        if old != nil { removed.append(hash) }
    }
}

/// Confined to the writer's thread.
final class FilterKeeper {
    private static let rowsPerStep = 8192

    private final class Construction {
        var filters: [FilterBox]
        /// Rows up to this hash, in the index's (signed) order, are in; nil at the beginning.
        var end: Int64?
        init(_ filters: [FilterBox]) { self.filters = filters }
    }

    /// Lets a move-only filter be an array's element.
    private final class FilterBox {
        var filter: ResidencyFilter?
        init(expected: Int) { filter = ResidencyFilter(expected: expected) }

        func change(_ body: (inout ResidencyFilter) -> Void) {
            guard var filter = filter.take() else { return }
            body(&filter)
            self.filter = consume filter
        }
    }

    private let memory: MemoryTier
    private var construction: Construction?
    private var isServing = false
    /// Whether a larger filter is due.
    private var isFull = false

    init(_ memory: MemoryTier) { self.memory = memory }

    /// Whether filters are being built.
    var hasMore: Bool { construction != nil || !isServing || isFull }

    // MARK: Changes

    /// A committed transaction changed these rows.
    func apply(_ changes: RowChanges) {
        for hash in changes.added { change(hash) { $0.insert(hash) } }
        for hash in changes.removed { change(hash) { $0.remove(hash) } }
    }

    private func change(_ hash: UInt64, _ body: (inout ResidencyFilter) -> Void) {
        if isServing {
            let isOver = memory.shard(hash).withLock { shard in
                shard.changeFilter(body)
                return shard.filterIsOverfull
            }
            if isOver { isFull = true }
        }
        guard let construction, let end = construction.end, Int64(bitPattern: hash) <= end else { return }
        construction.filters[memory.shardIndex(hash)].change(body)
    }

    /// The outcome of a transaction is unknown, or the store was replaced.
    func drop() {
        construction = nil
        isServing = false
        isFull = false
        for shard in memory.shards { shard.withLock { $0.installFilter(nil) } }
    }

    // MARK: Building

    /// One slice of building.
    func step(_ index: DiskIndex) throws(DiskError) {
        guard hasMore else { return }
        let construction = construction ?? begin(rows: index.totals.entries)
        let hashes = try index.hashes(after: construction.end, limit: Self.rowsPerStep)
        for hash in hashes {
            construction.filters[memory.shardIndex(hash)].change { $0.insert(hash) }
        }
        if let last = hashes.last { construction.end = Int64(bitPattern: last) }
        if hashes.count < Self.rowsPerStep { install(construction) }
    }

    private func begin(rows: Int) -> Construction {
        let perShard = max(1024, rows * 5 / 4 / memory.shards.count)
        let begun = Construction(memory.shards.map { _ in FilterBox(expected: perShard) })
        construction = begun
        return begun
    }

    private func install(_ finished: Construction) {
        construction = nil
        isServing = true
        // More rows may have come while it was built than it was made for.
        isFull = false
        for (box, shard) in zip(finished.filters, memory.shards) {
            let isOver = shard.withLock { shard in
                shard.installFilter(box.filter.take())
                return shard.filterIsOverfull
            }
            if isOver { isFull = true }
        }
    }
}
