// Making drafts, and overcoming what stands between an operation and its execution.

public import Primitives
import Synchronization

extension Cache {
    /// Begins an entry of `valueBytes`; nil if this cache does not take values of that size (now).
    ///
    /// Allocates a loose block, the only allocation of a store, which lasts until the store. `deadline` is cut to the
    /// longest TTL, and the default TTL applied to `.never`.
    public func makeDraft(
        key: Span<UInt8>, valueBytes: Int, flags: UInt32, deadline: Instant, extended: Span<UInt8> = Span()
    ) -> EntryDraft? {
        guard valueBytes >= 0, valueBytes <= options.entryBytesMax, key.count <= Self.keyBytesMax,
            extended.count <= Self.extendedBytesMax
        else { return nil }
        // SAFETY: hashing reads the key during the call only.
        let hash = unsafe key.withUnsafeBytes { unsafe memory.hash($0) }
        if valueBytes > memory.valueBytesMax {
            guard let serving = writableDisk else { return nil }
            return makeUpload(key, valueBytes, flags, capped(deadline), extended, hash, serving)
        }
        guard let block = EntryBlock.make(key: key, extended: extended, storedValueBytes: valueBytes, hash: hash)
        else { return nil }
        block.flags = flags
        block.deadline = capped(deadline)
        return EntryDraft(block, hash: hash, valueBytes: valueBytes, upload: nil, charge: bodies.charge(valueBytes))
    }

    /// The disk tier, while it takes writes.
    var writableDisk: DiskTier? {
        guard let disk, disk.isServing, !disk.isJournalClosed.load(ordering: .relaxed) else { return nil }
        return disk
    }

    /// Longest key in bytes.
    public static var keyBytesMax: Int { 250 }
    /// Longest extended data in bytes.
    public static var extendedBytesMax: Int { 4096 }

    private func makeUpload(
        _ key: Span<UInt8>, _ valueBytes: Int, _ flags: UInt32, _ deadline: Instant, _ extended: Span<UInt8>,
        _ hash: UInt64, _ disk: DiskTier
    ) -> EntryDraft? {
        let bytes = MemoryLayout<FileReference>.size
        guard let stub = EntryBlock.make(key: key, extended: extended, storedValueBytes: bytes, hash: hash) else {
            return nil
        }
        let now = clock.now()
        disk.policy.charge(valueBytes, now: now)
        // Before the number is drawn: a flush that is due by now must not take along what comes after it.
        performDueFlush(now)
        let generation = generations.next()
        stub.turnIntoStub(valueBytes: valueBytes, file: FileReference(generation: generation, sum: 0))
        stub.flags = flags
        stub.deadline = deadline
        // SAFETY: the key is copied during the call.
        let file = DraftFile(
            generation: generation, hash: hash, key: unsafe key.withUnsafeBufferPointer { unsafe Array($0) },
            block: nil, disk: disk)
        let upload = ValueUpload(file: file, valueBytes: valueBytes, disk: disk)
        let held = min(valueBytes, ValueUpload.heldBytesMax)
        return EntryDraft(stub, hash: hash, valueBytes: valueBytes, upload: upload, charge: bodies.charge(held))
    }

    /// A deadline within the longest TTL; the default TTL for `.never`.
    func capped(_ deadline: Instant) -> Instant {
        let standard = standardTTL.load(ordering: .relaxed)
        let longest = longestTTL.load(ordering: .relaxed)
        if standard == .max, longest == .max { return deadline }
        let now = clock.now()
        let wanted = deadline == .never ? now.advanced(byMilliseconds: standard) : deadline
        return min(wanted, now.advanced(byMilliseconds: longest))
    }

    // MARK: Waiting

    /// Begins to overcome what `delete`, `touch` or `arithmetic` met.
    ///
    /// `waiter` gets `.retry`, maybe at once; for `.valueOnDisk` anything that `load` gives, and then looks again too.
    public func overcome(_ obstacle: Obstacle, key: Span<UInt8>, waiter: Waiter) {
        overcome(obstacle, key: key, waiter: waiter, here: false)
    }

    /// The same; with `here`, the calling thread may wait, and does a disk read itself.
    func overcome(_ obstacle: Obstacle, key: Span<UInt8>, waiter: Waiter, here: Bool) {
        guard let disk else { return waiter.complete(.retry) }
        switch obstacle {
        // SAFETY: `startFlight` runs the closure under the lock of the key's shard, which guards a flight's state.
        case .entryOnDisk: startFlight(key, disk, here: here) { unsafe $0.state.proofs.append(waiter) }
        case .valueOnDisk:
            startFlight(key, disk, stub: waiter, here: here) { unsafe $0.state.proofs.append(waiter) }
        case .journalFull: disk.whenJournalHasRoom(waiter)
        case .valueFile: invariant(false, "only stores write value files")
        }
    }

    /// Begins to overcome what `store` met.
    ///
    /// `waiter` gets `.retry`, maybe at once.
    public func overcome(_ obstacle: Obstacle, draft: inout EntryDraft, waiter: Waiter) {
        overcome(obstacle, draft: &draft, waiter: waiter, here: false)
    }

    /// The same; with `here`, the calling thread may wait, and reads and writes itself.
    func overcome(_ obstacle: Obstacle, draft: inout EntryDraft, waiter: Waiter, here: Bool) {
        guard let disk else { return waiter.complete(.retry) }
        switch obstacle {
        case .journalFull: disk.whenJournalHasRoom(waiter)
        case .entryOnDisk:
            // SAFETY: the draft owns the block and is borrowed until this returns. The closure runs under the shard's
            // lock.
            let key = unsafe Span<UInt8>(_unsafeBytes: draft.block.key)
            startFlight(key, disk, here: here) { unsafe $0.state.proofs.append(waiter) }
        case .valueOnDisk: invariant(false, "stores read values in files by themselves")
        case .valueFile:
            draft.dropRetiredSplices()
            if let splice = draft.splice {
                disk.enqueue(.splice(splice.waking(waiter)))
                return
            }
            if case .upload(_, let upload) = draft.body { return upload.whenFinished(waiter) }
            let block = draft.block
            // SAFETY: the draft owns the block; its key is copied.
            let file = DraftFile(
                generation: generations.next(), hash: draft.hash, key: unsafe Array(block.key), block: nil, disk: disk)
            draft.hand(to: file)
            let job = DiskJob.writeValue(file, waiter)
            if here { disk.performHere(job) } else { disk.enqueue(job) }
        }
    }

    /// Fetches what a retrieval could not see.
    ///
    /// `waiter` gets `.entry`, `.stream`, `.absent` or `.retry`, maybe at once. With `touches`, `withEntry` was to
    /// touch the entry, and may have met a full journal: the next try waits for room there. No other retrieval does.
    public func load(_ key: Span<UInt8>, waiter: Waiter, touches: Bool = false) {
        load(key, waiter: waiter, touches: touches, here: false)
    }

    /// The same; with `here`, the calling thread may wait, and reads itself.
    func load(_ key: Span<UInt8>, waiter: Waiter, touches: Bool = false, here: Bool) {
        guard let disk else { return waiter.complete(.absent) }
        // SAFETY: the closure runs under the lock of the key's shard, which guards a flight's state.
        startFlight(key, disk, stub: waiter, isChange: touches, here: here) { unsafe $0.state.loads.append(waiter) }
    }

    /// Joins or starts the disk lookup of a key, unless memory knows the answer by now.
    ///
    /// Who `isChange` waits in that case until the journal has room, if there is little: it may need some.
    private func startFlight(
        _ key: Span<UInt8>, _ disk: DiskTier, stub streamWaiter: Waiter? = nil, isChange: Bool = true, here: Bool,
        join: (Flight) -> Void
    ) {
        let now = clock.now()
        // SAFETY: the key outlives the call. Blocks and flights are used only under the shard's lock; what leaves it is
        // copied.
        let hash = unsafe key.withUnsafeBytes { unsafe memory.hash($0) }
        var garbage = Garbage()
        var started: Flight?
        var isKnown = false
        var stream: StreamRequest?
        memory.shard(hash).withLock { shard in
            let found = unsafe key.withUnsafeBytes {
                unsafe presence(hash, $0, &shard, now: now, flight: nil, garbage: &garbage)
            }
            if case .resident(let block) = found, block.isStub, let streamWaiter {
                stream = unsafe StreamRequest(
                    hash: hash, key: Array(block.key), metadata: memory.metadata(ofStub: block),
                    extended: Array(block.extended), waiter: streamWaiter)
                shard.bump(block, now: now)
                return
            }
            // Whatever memory knows by now, the waiter finds by executing its operation again.
            guard case .unknown = found else {
                let flight = Flight(hash: hash, key: key)
                join(flight)
                isKnown = true
                return started = flight
            }
            if let flight = shard.flights[hash], unsafe !flight.state.isAbsent { return join(flight) }
            let flight = Flight(hash: hash, key: key)
            shard.flights[hash] = flight
            join(flight)
            started = flight
        }
        garbage.free()
        if let stream {
            if here { disk.performHere(.openStream(stream)) } else { disk.enqueue(.openStream(stream)) }
        }
        guard let started else { return }
        let isRegistered = memory.shard(hash).withLock { $0.flights[hash] === started }
        if isRegistered {
            if here { disk.performHere(.lookUp(started)) } else { disk.enqueue(.lookUp(started)) }
        } else if isKnown, isChange, disk.journal.usedBytes > disk.journal.capacity / 2 {
            // Perhaps a touch that met a full journal.
            releaseWithRoom(started, disk)
        } else {
            release(started)
        }
    }

    /// Tells the waiters of a flight that never took off to look again.
    private func release(_ flight: Flight) {
        for waiter in takeWaiters(flight) { waiter.complete(.retry) }
    }

    private func releaseWithRoom(_ flight: Flight, _ disk: DiskTier) {
        for waiter in takeWaiters(flight) { disk.whenJournalHasRoom(waiter) }
    }

    private func takeWaiters(_ flight: Flight) -> [Waiter] {
        memory.shard(flight.hash).withLock { _ in
            // SAFETY: a flight's state is guarded by the lock of its key's shard, which is held here.
            let waiters = unsafe flight.state.loads + flight.state.proofs
            unsafe flight.state.loads = []
            unsafe flight.state.proofs = []
            return waiters
        }
    }

    /// Gives a flight back, after the operation that it was proof for was executed, or given up.
    public func finish(_ flight: Flight) {
        memory.shard(flight.hash).withLock { shard in
            // SAFETY: a flight's state is guarded by the lock of its key's shard, which is held here.
            unsafe flight.state.holders -= 1
            if unsafe flight.state.holders <= 0, shard.flights[flight.hash] === flight {
                shard.flights[flight.hash] = nil
            }
        }
    }

    /// Whether replies to mutations must wait for `commitBarrier`: durability `always`.
    public var waitsForCommit: Bool { disk?.waitsForCommit ?? false }

    /// Completes `waiter` when everything applied so far is durable: `.retry`, or `.failed` if it never will be.
    public func commitBarrier(_ waiter: Waiter) {
        guard let disk else { return waiter.complete(.retry) }
        if disk.isServing { return disk.commitBarrier(waiter) }
        // Memory only, for now: what is on disk must not be believed after a power loss either.
        waiter.complete(disk.barHolds.load(ordering: .acquiring) ? .retry : .failed)
    }
}
