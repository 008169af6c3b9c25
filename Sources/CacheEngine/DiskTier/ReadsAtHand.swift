// Lookups on the thread that asks: of an event loop, which takes what the page cache holds, and of a blocking caller,
// which may wait.
//
// Handing a lookup to a reader thread and its result back costs more than the lookup itself when the pages are in the
// page cache. So the asking thread looks first, with a connection of its own; what would have to wait for the device,
// and all that is not a plain hit or miss of a small value, goes to the reader threads as if nothing had been tried.
// The rules are those of any lookup: a flight is registered first, the snapshot is at least as new as the flight, and
// the result counts only while the flight is still registered.

public import Primitives
import SQLite

/// The lookups of one event loop that need not wait.
///
/// Belongs to the loop's thread, and ends before the cache is closed.
public final class ReadsAtHand {
    private let disk: DiskTier
    private let cache: Cache
    private let reader: DiskReader
    /// Lookups in a row that would have had to wait.
    private var refusals = 0
    /// Lookups that are not tried: the disk is much larger than the page cache.
    private var skips = 0
    /// For good: also where the file system cannot do without waiting.
    private var isClosed = false

    private static let refusalsMax = 8
    private static let skipsMax = 64

    init(_ cache: Cache, _ disk: DiskTier, cacheBytes: Int) {
        self.cache = cache
        self.disk = disk
        reader = DiskReader(disk, cacheBytes: cacheBytes, waits: false)
    }

    deinit { reader.close() }

    /// Shows an entry that memory does not hold to `body`, having brought it there, if that takes no waiting.
    ///
    /// To be called when `withEntry` was `.unresolved`, and if this is, too: call `load`. `body` runs under the shard's
    /// lock. What is found, or found to be absent, is counted.
    public func withEntry(_ key: Span<UInt8>, _ hash: KeyHash, now: Instant, _ body: (EntryView) -> Void) -> Lookup {
        if isClosed { return .unresolved }
        if skips > 0 {
            skips -= 1
            return .unresolved
        }
        guard let flight = cache.beginFlight(key, hash.value, disk, now: now) else { return .unresolved }
        var row: DiskReader.Row?
        switch CachedReads.run({ row = reader.rowAtHand(flight) }) {
        case .complete: refusals = 0
        case .wouldWait: noteRefusal()
        case .unsupported: close()
        }
        guard case .found(let found) = row else {
            cache.handOver(flight, disk)
            return .unresolved
        }
        return reader.landAtHand(flight, found, body)
    }

    /// Lets go of what the lookups of one turn of the loop have shared; to be called before the thread sleeps.
    public func endTurn() {
        #if DEBUG
            if SeededBug.isActive(.snapshotKept) { return }
        #endif
        reader.releaseSnapshot()
    }

    /// Closes the connection; nothing is looked up any more.
    func close() {
        isClosed = true
        reader.close()
    }

    private func noteRefusal() {
        refusals += 1
        if refusals >= Self.refusalsMax { skips = Self.skipsMax }
    }
}

extension DiskReader {
    /// What the index has for a flight's key; nil if it cannot be told now, or not without waiting.
    func rowAtHand(_ flight: Flight) -> Row? {
        guard disk.isServing, let index = currentIndex() else { return nil }
        disk.counters.add(to: .reads)
        do throws(DiskError) {
            try index.holdSnapshot(asOf: disk.commitCount.now)
            return try readRow(flight, index)
        } catch {
            // The reader threads meet the error again, if it is one, and report it.
            return nil
        }
    }

    /// Ends a lookup of the calling thread, and tells those who have joined it.
    func landAtHand(_ flight: Flight, _ found: Found, _ show: (EntryView) -> Void) -> Lookup {
        #if DEBUG
            if SeededBug.isActive(.promotionUnchecked) { SeededBug.wait() }
            disk.injected.withLock { $0.beforeLanding }?()
        #endif
        let lookup = withoutActuallyEscaping(show) { land(flight, with: found, showing: $0) }
        news.tell(disk)
        return lookup
    }
}

extension Cache {
    /// For an event loop, one of `loops`: lookups on its own thread; nil without a disk tier.
    public func readsAtHand(loops: Int) -> ReadsAtHand? {
        guard let disk else { return nil }
        return ReadsAtHand(self, disk, cacheBytes: disk.options.indexCacheBytes / 8 / max(1, loops))
    }

    /// Shows an entry that memory does not hold, having looked for it on this thread, which may wait.
    ///
    /// `.unresolved`: call `load`.
    func withEntryOnDisk(_ key: Span<UInt8>, now: Instant, _ body: (EntryView) -> Void) -> Lookup {
        guard let disk else { return .unresolved }
        let hash = hash(of: key).value
        return disk.callerReads.withReader(disk) { reader in
            guard let flight = beginFlight(key, hash, disk, now: now) else { return .unresolved }
            guard let row = reader.rowAtHand(flight) else {
                handOver(flight, disk)
                return .unresolved
            }
            let found = reader.resolve(row, flight)
            if case .failed = found {
                handOver(flight, disk)
                return .unresolved
            }
            return reader.landAtHand(flight, found, body)
        } ?? .unresolved
    }

    /// Registers a lookup of the calling thread; nil if memory knows the answer by now, or a lookup is under way.
    func beginFlight(_ key: Span<UInt8>, _ hash: UInt64, _ disk: DiskTier, now: Instant) -> Flight? {
        var garbage = Garbage()
        let flight = memory.withShard(hash) { shard -> Flight? in
            guard shard.flights.isEmpty || shard.flights[hash] == nil else { return nil }
            // SAFETY: the key outlives the call, and the lookup keeps no pointer.
            let found = unsafe key.withUnsafeBytes {
                unsafe presence(hash, $0, &shard, now: now, flight: nil, garbage: &garbage)
            }
            guard case .unknown = found else { return nil }
            let flight = Flight(hash: hash, key: key)
            shard.flights[hash] = flight
            return flight
        }
        garbage.free()
        return flight
    }

    /// Gives up a lookup that was begun here; the reader threads do it for those who have joined it meanwhile.
    ///
    /// Who began it calls `load`, so that the hit is counted as one on disk.
    func handOver(_ flight: Flight, _ disk: DiskTier) {
        let isAwaited = memory.withShard(flight.hash) { shard in
            // SAFETY: a flight's state is guarded by the lock of its key's shard, which is held in this closure.
            if unsafe !flight.state.loads.isEmpty || !flight.state.proofs.isEmpty { return true }
            if shard.flights[flight.hash] === flight { shard.flights[flight.hash] = nil }
            return false
        }
        if isAwaited { disk.enqueue(.lookUp(flight)) }
    }
}
