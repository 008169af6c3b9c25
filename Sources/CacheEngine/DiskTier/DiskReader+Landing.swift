// The end of a lookup: what was read enters memory, and those who wait learn of it.
//
// A result counts only while its flight is registered in the key's shard, whose lock is held for it. Runs on the thread
// that has read: a reader's, a blocking caller's, or an event loop's.

import Primitives
import Synchronization

extension DiskReader {
    /// Ends a lookup: promotes what was found, unless the key was written meanwhile, and notes what waiters are told.
    ///
    /// Who has looked up on the calling thread gives `show`, and is told here: `.hit` after `show` has run under the
    /// shard's lock, `.miss`, or `.unresolved` if only another look can tell.
    @discardableResult
    func land(_ flight: Flight, with read: Found, showing show: ((EntryView) -> Void)? = nil) -> Lookup {
        let found = if case .entry(let block) = read { block } else { nil as EntryBlock? }
        let now = memory.clock.now()
        let shard = memory.shard(flight.hash)
        var garbage = Garbage()
        let lookup = shard.withLock { state -> Lookup in
            // SAFETY: a flight's state is guarded by the lock of its key's shard, which is held in this closure.
            let loads = unsafe flight.state.loads
            let proofs = unsafe flight.state.proofs
            unsafe flight.state.loads = []
            unsafe flight.state.proofs = []
            #if DEBUG
                // SAFETY: the flight owns its key, and the lookup keeps no pointer.
                let isUnknown = unsafe flight.key.withUnsafeBytes { unsafe state.table.find(flight.hash, $0) } == nil
                if SeededBug.isActive(.promotionUnchecked), isUnknown { state.flights[flight.hash] = flight }
            #endif
            guard state.flights[flight.hash] === flight else {
                state.counters.promotionsDropped += 1
                if let found { garbage.add(found) }
                news.add(loads, .retry)
                news.add(proofs, .retry)
                return .unresolved
            }
            guard let alive = state.alive(found, now: now, disk: disk, garbage: &garbage) else {
                if read.mayComeBack, !proofs.isEmpty, !makeAbsent(flight, &state) {
                    state.flights[flight.hash] = nil
                    news.needRoom += loads + proofs
                    return .unresolved
                }
                let misses = loads.count + (show == nil ? 0 : 1)
                if found != nil { state.counters.expiredLookups += misses }
                noteAbsent(flight, &state, misses: misses, loads, proofs)
                return .miss
            }
            state.flights[flight.hash] = nil
            let linked = state.link(alive, now: now, garbage: &garbage, log: memory.events)
            if !loads.isEmpty || show != nil {
                state.bump(linked, now: now)
            } else if flight.isWarming, proofs.isEmpty {
                state.moveBehind(linked)
            }
            state.counters.promotions += 1
            for waiter in loads { news.add(waiter, pinned(linked, shard)) }
            news.add(proofs, .retry)
            // Who finds a stub asks for its value next, and counts then.
            if linked.isStub { return .unresolved }
            state.counters.diskHits += loads.count
            guard let show else { return .unresolved }
            state.counters.diskHits += 1
            show(unsafe EntryView(block: linked, shard: .passUnretained(shard)))
            return .hit
        }
        garbage.free()
        return lookup
    }

    /// The disk has nothing for the key, which is proof for those who asked for one.
    private func noteAbsent(
        _ flight: Flight, _ shard: inout Shard, misses: Int, _ loads: [Waiter], _ proofs: [Waiter]
    ) {
        // SAFETY: a flight's state is guarded by the lock of its key's shard, which the caller holds.
        unsafe flight.state.isAbsent = true
        unsafe flight.state.holders = proofs.count
        if proofs.isEmpty { shard.flights[flight.hash] = nil }
        shard.counters.misses += misses
        if !flight.isWarming || !loads.isEmpty || !proofs.isEmpty { shard.noteMiss(flight.hash) }
        news.add(loads, .absent)
        news.add(proofs, .retry, flight)
    }

    /// Somebody is about to act on the key's absence, which may not last: makes it true.
    ///
    /// False if that cannot be promised before the journal has room.
    private func makeAbsent(_ flight: Flight, _ shard: inout Shard) -> Bool {
        if disk.isJournalClosed.load(ordering: .relaxed) {
            shard.pending.put(flight.hash, PendingWrite(kind: .barred, sequence: .max, position: 0))
            shard.counters.barredWrites += 1
            return true
        }
        var header = JournalHeader(kind: .deletion)
        header.hash = flight.hash
        header.generation = disk.generations.next()
        // SAFETY: the flight owns its key; the journal copies it during the call. The other buffers are empty.
        let nothing = unsafe UnsafeRawBufferPointer(start: nil, count: 0)
        let place = unsafe flight.key.withUnsafeBytes { key in
            unsafe disk.journal.append(header, key: key, extended: nothing, value: nothing)
        }
        guard let place else { return false }
        shard.pending.put(
            flight.hash, PendingWrite(kind: .deletion, sequence: place.sequence, position: place.position))
        return true
    }

    /// What a waiting retrieval gets: the value itself, or for a stub another try, which finds the stub.
    private func pinned(_ block: EntryBlock, _ shard: Guarded<Shard>) -> CompletionOutcome {
        if block.isStub { return .retry }
        return .entry(PinnedEntry(pinning: block, shard: shard))
    }
}
