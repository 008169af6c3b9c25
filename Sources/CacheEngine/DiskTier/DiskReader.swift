// One reader thread of the disk tier: looks keys up in the index, promotes what it finds, and does the file work of
// large values.
//
// Owns a read-only connection, opened anew when the store was replaced. A lookup's result enters the memory tier only
// while its `Flight` is still registered in the key's shard: any write, delete or flush of the key since the lookup
// began has unregistered it, so an old row never covers a newer value.

import Glibc
import Primitives
import Synchronization

/// Confined to its thread.
final class DiskReader {
    private let disk: DiskTier
    private var memory: MemoryTier { disk.memory }
    private var index: IndexReader?
    private(set) var store: DiskTier.Store

    init(_ disk: DiskTier) {
        self.disk = disk
        store = disk.store.withLock { $0 }
    }

    func run() {
        while let job = disk.nextJob() {
            disk.permits.wait()
            perform(job)
            disk.permits.signal()
        }
        close()
    }

    func perform(_ job: DiskJob) {
        if let (file, valueBytes) = job.fileToWrite, !disk.hasRoom(for: file, valueBytes: valueBytes, job) { return }
        switch job {
        case .lookUp(let flight): lookUp(flight)
        case .openStream(let request): openStream(request)
        case .writeValue(let file, let waiter): writeValue(file, waiter)
        case .splice(let request): request.run(self, disk)
        case .upload(let upload): upload.run()
        case .readChunk(let stream, let waiter): stream.run(waiter)
        case .removeFile(let generation): disk.removeFile(generation)
        case .demote(let file, let flight, let demoter): demoter.run(file, flight)
        case .run(let body): body(self)
        }
    }

    /// Closes the connection.
    func close() {
        index?.close()
        index = nil
    }

    /// Whether its connection is to the store in use.
    var isCurrent: Bool { disk.store.withLock { $0.number } == store.number }

    /// The connection to the present store; nil while there is none.
    func currentIndex() -> IndexReader? {
        let current = disk.store.withLock { $0 }
        if current.number != store.number {
            index?.close()
            index = nil
            store = current
        }
        if index == nil {
            do { index = try IndexReader(location: store.location) } catch { disk.counters.add(to: .readErrors) }
        }
        return index
    }

    var files: ValueFiles { disk.store.withLock { $0.files } }

    // MARK: Lookup and promotion

    private func lookUp(_ flight: Flight) {
        disk.counters.add(to: .reads)
        let found = read(hash: flight.hash, key: flight.key)
        #if DEBUG
            if SeededBug.isActive(.promotionUnchecked) { SeededBug.wait() }
            disk.injected.withLock { $0.beforeLanding }?()
        #endif
        land(flight, with: found)
    }

    /// What a read came to.
    enum Found {
        /// The entry as a block that nobody else knows yet. It may have expired.
        case entry(EntryBlock)
        /// The disk has nothing for the key, or something that is damaged and about to be removed.
        case nothing
        /// The disk could not be read: it may have something for the key.
        case failed
    }

    /// Reads the key's row and, if it has one that is to be in memory, its file.
    func read(hash: UInt64, key: [UInt8]) -> Found {
        guard disk.isServing, let index = currentIndex() else { return .failed }
        var block: EntryBlock?
        var inFile: (EntryMetadata, [UInt8])?
        do throws(DiskError) {
            #if DEBUG
                if let fault = disk.injected.withLock({ $0.readFault }) { throw fault }
            #endif
            // SAFETY: the pointers are valid during the closure only, and what they point to is copied in it.
            let lookup = try unsafe index.read(hash: hash, key: key.span) { metadata, extended, value in
                guard metadata.generation > disk.flushGeneration else { return }
                if let value = unsafe value {
                    block = unsafe build(hash, key, metadata, Span(_unsafeBytes: extended), value)
                } else {
                    inFile = unsafe (metadata, Array(extended))
                }
            }
            if case .damaged(let generation) = lookup {
                disk.reportDamage(hash: hash, generation: generation)
            }
        } catch {
            disk.counters.add(to: .readErrors)
            if error.kind == .corrupt { disk.reportCorruption(error, of: store.number) }
            return .failed
        }
        if let (metadata, extended) = inFile { return loadFile(hash, key, metadata, extended) }
        return block.map(Found.entry) ?? .nothing
    }

    private func build(
        _ hash: UInt64, _ key: [UInt8], _ metadata: EntryMetadata, _ extended: Span<UInt8>,
        _ value: UnsafeRawBufferPointer
    ) -> EntryBlock? {
        guard
            let block = EntryBlock.make(
                key: key.span, extended: extended, storedValueBytes: value.count, hash: hash)
        else { return nil }
        // SAFETY: nobody else knows the block yet, and it was made for just as many bytes.
        unsafe block.stored.copyMemory(from: value)
        memory.dress(block, metadata)
        disk.counters.add(value.count, to: .readBytes)
        return block
    }

    /// The entry of a file row: with its value if the memory tier takes values of that size, else as a stub.
    private func loadFile(
        _ hash: UInt64, _ key: [UInt8], _ metadata: EntryMetadata, _ extended: [UInt8]
    ) -> Found {
        if metadata.valueBytes > memory.valueBytesMax {
            return memory.makeStub(hash, key, metadata, extended).map(Found.entry) ?? .failed
        }
        guard
            let block = EntryBlock.make(
                key: key.span, extended: extended.span, storedValueBytes: metadata.valueBytes, hash: hash)
        else { return .failed }
        do throws(ValueFileError) {
            let reader = try files.open(key: key.span, expecting: metadata)
            // SAFETY: nobody else knows the block yet, and it was made for `metadata.valueBytes`.
            try unsafe reader.load(into: block.stored)
        } catch {
            block.free()
            if case .io = error {
                disk.counters.add(to: .readErrors)
                return .failed
            }
            // Missing: replaced while we looked, or lost. Either way this generation is of no use any more.
            disk.reportDamage(hash: hash, generation: metadata.generation)
            return .nothing
        }
        memory.dress(block, metadata)
        disk.counters.add(metadata.valueBytes, to: .readBytes)
        return .entry(block)
    }

    /// Ends a lookup: promotes `found` if the key was not written meanwhile, and tells the waiters.
    private func land(_ flight: Flight, with read: Found) {
        let found = if case .entry(let block) = read { block } else { nil as EntryBlock? }
        let now = memory.clock.now()
        let shard = memory.shard(flight.hash)
        var garbage = Garbage()
        var news: [(Waiter, CompletionOutcome, Flight?)] = []
        var needRoom: [Waiter] = []
        shard.withLock { state in
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
                news = (loads + proofs).map { ($0, .retry, nil) }
                return
            }
            guard let found = state.alive(found, now: now, disk: disk, garbage: &garbage) else {
                if case .failed = read, !proofs.isEmpty, !makeAbsent(flight, &state) {
                    state.flights[flight.hash] = nil
                    needRoom = loads + proofs
                    return
                }
                unsafe flight.state.isAbsent = true
                unsafe flight.state.holders = proofs.count
                if proofs.isEmpty { state.flights[flight.hash] = nil }
                state.counters.misses += loads.count
                if found != nil { state.counters.expiredLookups += loads.count }
                state.noteMiss(flight.hash)
                news = loads.map { ($0, .absent, nil) } + proofs.map { ($0, .retry, flight) }
                return
            }
            state.flights[flight.hash] = nil
            let linked = state.link(found, now: now, garbage: &garbage, log: memory.events)
            if !loads.isEmpty { state.bump(linked, now: now) }
            state.counters.promotions += 1
            // Who finds a stub asks for its value next, and counts then.
            if !linked.isStub { state.counters.diskHits += loads.count }
            for waiter in loads { news.append((waiter, pinned(linked, shard), nil)) }
            news += proofs.map { ($0, .retry, nil) }
        }
        garbage.free()
        for (waiter, outcome, flight) in news { waiter.complete(outcome, flight: flight) }
        for waiter in needRoom { disk.whenJournalHasRoom(waiter) }
    }

    /// Somebody is about to act on the key's absence, but the disk could not be read: makes the absence true.
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

    // MARK: Large values

    private func openStream(_ request: StreamRequest) {
        if request.metadata.valueBytes <= memory.valueBytesMax { return fillStub(request) }
        do {
            let reader = try files.open(key: request.key.span, expecting: request.metadata)
            try reader.verify()
            let stream = ValueStream(
                reader: reader, metadata: request.metadata, deadline: memory.deadline(of: request.metadata),
                extended: request.extended, disk: disk)
            memory.shard(request.hash).withLock { $0.counters.diskHits += 1 }
            request.waiter.complete(.stream(stream))
        } catch {
            giveUp(request)
        }
    }

    /// A stub that cannot be read.
    ///
    /// One that is no longer current was replaced meanwhile: the next try sees what is there.
    private func giveUp(_ request: StreamRequest) {
        let isCurrent = memory.dropStub(request)
        if isCurrent { disk.reportDamage(hash: request.hash, generation: request.metadata.generation) }
        request.waiter.complete(isCurrent ? .absent : .retry)
    }

    /// Puts the value in place of a stub that was made from the journal, without a look at the file.
    private func fillStub(_ request: StreamRequest) {
        guard case .entry(let block) = loadFile(request.hash, request.key, request.metadata, request.extended) else {
            return giveUp(request)
        }
        let guarded = memory.shard(request.hash)
        let now = memory.clock.now()
        var garbage = Garbage()
        let outcome = guarded.withLock { shard -> CompletionOutcome in
            // SAFETY: the request owns its key, and the lookup keeps no pointer.
            let found = unsafe request.key.withUnsafeBytes { unsafe shard.table.find(request.hash, $0) }
            guard let stub = found, stub.isStub, stub.file.generation == request.metadata.generation else {
                garbage.add(block)
                return .retry
            }
            block.takeMetadata(of: stub)
            shard.unlink(stub, into: &garbage)
            let linked = shard.link(block, now: now, garbage: &garbage, log: memory.events)
            shard.counters.diskHits += 1
            shard.counters.promotions += 1
            return .entry(PinnedEntry(pinning: linked, shard: guarded))
        }
        garbage.free()
        request.waiter.complete(outcome)
    }

    private func writeValue(_ file: DraftFile, _ waiter: Waiter) {
        // SAFETY of reading the block outside its lock: the draft's owner waits for this job and does not touch it.
        let block = file.state.withLock { $0.block }
        #if DEBUG
            SeededBug.spoilPresent(of: file, currentIndex(), files)
        #endif
        if let block { unsafe disk.write(block.value, to: file) } else { file.finish(.failed) }
        waiter.complete(.retry)
    }
}

/// A stub's value, wanted by a retrieval.
struct StreamRequest: Sendable {
    let hash: UInt64
    let key: [UInt8]
    let metadata: EntryMetadata
    let extended: [UInt8]
    let waiter: Waiter
}
