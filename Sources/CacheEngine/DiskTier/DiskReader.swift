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
    let disk: DiskTier
    var memory: MemoryTier { disk.memory }
    private var index: IndexReader?
    private(set) var store: DiskTier.Store
    /// Page cache of the connection.
    private let cacheBytes: Int
    /// Whether it may wait for a lock of another process.
    private let waits: Bool
    /// Lookups under way, what their rows say, and who is to be told; empty between jobs.
    private var flights: [Flight] = []
    private var rows: [Row] = []
    var news = WaiterNews()

    /// Most lookups in one snapshot: the first of them waits for the last.
    private static let lookupsMax = 16

    init(_ disk: DiskTier, cacheBytes: Int? = nil, waits: Bool = true) {
        self.disk = disk
        self.cacheBytes = cacheBytes ?? disk.options.indexCacheBytes / 16
        self.waits = waits
        store = disk.store.withLock { $0 }
    }

    func run() {
        while let job = disk.jobs.next() {
            disk.permits.wait()
            serve(job)
            disk.permits.signal()
        }
        close()
    }

    /// Performs a job of the queue; with a lookup, its share of those that come next.
    func serve(_ job: DiskJob) {
        guard case .lookUp(let flight) = job else { return perform(job) }
        flights.append(flight)
        disk.jobs.nextLookups(into: &flights, most: Self.lookupsMax, readers: max(1, disk.options.readers))
        lookUpAll()
    }

    func perform(_ job: DiskJob) {
        if let (file, valueBytes) = job.fileToWrite, !disk.hasRoom(for: file, valueBytes: valueBytes, job) { return }
        switch job {
        case .lookUp(let flight):
            flights.append(flight)
            lookUpAll()
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

    /// Lets the snapshot go that lookups at hand have left.
    func releaseSnapshot() { index?.releaseSnapshot() }

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
        if index?.isOpen != true {
            do {
                index = try IndexReader(
                    location: store.location, cacheBytes: cacheBytes, busyMilliseconds: waits ? 200 : 0,
                    hints: disk.hints)
            } catch {
                // Who does not wait may only have met what is not in memory.
                if waits { disk.counters.add(to: .readErrors) }
            }
        }
        return index
    }

    var files: ValueFiles { disk.store.withLock { $0.files } }

    // MARK: Lookup and promotion

    /// Does the lookups of `flights`.
    ///
    /// All rows are read in one snapshot, and the waiters told at the end, so that an event loop wakes once for them.
    private func lookUpAll() {
        disk.counters.add(flights.count, to: .reads)
        readRows()
        #if DEBUG
            if SeededBug.isActive(.promotionUnchecked) { SeededBug.wait() }
            disk.injected.withLock { $0.beforeLanding }?()
        #endif
        for (flight, row) in zip(flights, rows) { land(flight, with: resolve(row, flight)) }
        flights.removeAll(keepingCapacity: true)
        rows.removeAll(keepingCapacity: true)
        news.tell(disk)
    }

    /// What a key's row came to.
    enum Row {
        case found(Found)
        /// The value is in a file, to be read when the snapshot is over.
        case file(EntryMetadata, extended: [UInt8])
    }

    /// What a read came to.
    enum Found {
        /// The entry as a block that nobody else knows yet. It may have expired.
        case entry(EntryBlock)
        /// The disk has nothing for the key.
        case nothing
        /// What the disk has is damaged, or its file is missing: to be removed, and until then it may come back whole,
        /// as what a page held, or what a directory named, before a power cut.
        case damaged
        /// The disk could not be read: it may have something for the key.
        case failed

        /// Whether the key is absent for now only.
        var mayComeBack: Bool {
            switch self {
            case .damaged, .failed: true
            case .entry, .nothing: false
            }
        }
    }

    /// Fills `rows` with what the index has for each of `flights`.
    ///
    /// Each key was written before its flight was registered, or the write ended the flight: a snapshot of any time
    /// since then is new enough.
    private func readRows() {
        guard flights.count > 1, disk.isServing, let index = currentIndex() else {
            return readEach()
        }
        do throws(DiskError) {
            try index.holdSnapshot(asOf: disk.commitCount.now)
        } catch {
            // No snapshot: what is wrong with the index is found, and reported, without one.
        }
        readEach()
        index.releaseSnapshot()
    }

    private func readEach() {
        for flight in flights.dropFirst(rows.count) { rows.append(readRow(flight)) }
    }

    func resolve(_ row: Row, _ flight: Flight) -> Found {
        switch row {
        case .found(let found): found
        case .file(let metadata, let extended): loadFile(flight.hash, flight.key, metadata, extended)
        }
    }

    private func readRow(_ flight: Flight) -> Row {
        guard disk.isServing, let index = currentIndex() else { return .found(.failed) }
        do throws(DiskError) {
            return try readRow(flight, index)
        } catch {
            disk.counters.add(to: .readErrors)
            if error.kind == .corrupt { disk.reportCorruption(error, of: store.number) }
            return .found(.failed)
        }
    }

    /// What the index has for a flight's key; a damaged row is reported, and nothing.
    func readRow(_ flight: Flight, _ index: IndexReader) throws(DiskError) -> Row {
        let key = flight.key
        var row = Row.found(.nothing)
        #if DEBUG
            if let fault = disk.injected.withLock({ $0.readFault }) { throw fault }
        #endif
        // SAFETY: the pointers are valid during the closure only, and what they point to is copied in it.
        let lookup = try unsafe index.read(hash: flight.hash, key: key.span) { metadata, extended, value in
            guard metadata.generation > disk.flushGeneration else { return }
            if let value = unsafe value {
                let block = unsafe build(flight, metadata, Span(_unsafeBytes: extended), value)
                if let block { row = .found(.entry(block)) }
            } else {
                row = unsafe .file(metadata, extended: Array(extended))
            }
        }
        if case .damaged(let generation) = lookup {
            disk.reportDamage(hash: flight.hash, generation: generation)
            return .found(.damaged)
        }
        return row
    }

    private func build(
        _ flight: Flight, _ metadata: EntryMetadata, _ extended: Span<UInt8>, _ value: UnsafeRawBufferPointer
    ) -> EntryBlock? {
        let key = flight.key
        guard
            let block = EntryBlock.make(
                key: key.span, extended: extended, storedValueBytes: value.count, hash: flight.hash)
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
            return .damaged
        }
        memory.dress(block, metadata)
        disk.counters.add(metadata.valueBytes, to: .readBytes)
        return .entry(block)
    }

    // MARK: Large values

    private func openStream(_ request: StreamRequest) {
        if request.metadata.valueBytes <= memory.valueBytesMax { return fillStub(request) }
        do throws(ValueFileError) {
            let reader = try files.open(key: request.key.span, expecting: request.metadata)
            try reader.verify()
            let stream = ValueStream(
                reader: reader, metadata: request.metadata, deadline: memory.instant(request.metadata.deadline),
                extended: request.extended, disk: disk)
            memory.shard(request.hash).withLock { $0.counters.diskHits += 1 }
            request.waiter.complete(.stream(stream))
        } catch {
            if case .io = error { return failToRead(request) }
            giveUp(request)
        }
    }

    /// The system refuses to read a file, for want of a descriptor perhaps, which says nothing about the file: a miss.
    private func failToRead(_ request: StreamRequest) {
        disk.counters.add(to: .readErrors)
        request.waiter.complete(.absent)
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
        let block: EntryBlock
        switch loadFile(request.hash, request.key, request.metadata, request.extended) {
        case .entry(let found): block = found
        // Counted by `loadFile`.
        case .failed: return request.waiter.complete(.absent)
        case .damaged, .nothing: return giveUp(request)
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
