// Entries on their way from memory to disk: what an eviction writes, and what a stop writes.
//
// A small value is journalled on the spot, under the shard's lock that the eviction holds. A large one leaves memory
// with its block, which a disk thread writes to a file; meanwhile a `Flight` stands for the key, so that a read waits
// for the file and a write, delete or flush of the key ends the demotion. Only so many bytes may be under way: what
// finds no room is not admitted, which is counted, and is a miss from then on. Any thread.

import Primitives
import Synchronization

/// Brings evicted entries to disk.
///
/// The shards hold it, it holds the disk tier: `Cache.close` breaks the circle.
final class Demoter: Sendable {
    /// Values that wait for their files, in bytes.
    static let underWayBytesMax = 16 << 20

    private let disk: DiskTier
    private let underWay = Atomic<Int>(0)

    init(_ disk: DiskTier) { self.disk = disk }

    /// An entry is about to be evicted; true if this took it out of the shard, and its block with it.
    ///
    /// Call under the shard's lock.
    func takes(_ block: EntryBlock, _ shard: inout Shard, now: Instant) -> Bool {
        guard !block.marks.contains(.onDisk), disk.takesWrites else { return false }
        guard !disk.policy.refuses(block, &shard, now: now) else { return false }
        if block.valueBytes > disk.inlineBytesMax { return demoteToFile(block, &shard) }
        if !disk.journal(block, generation: disk.generations.next(), file: nil, &shard) {
            shard.counters.notAdmittedForRoom += 1
        }
        return false
    }

    private func demoteToFile(_ block: EntryBlock, _ shard: inout Shard) -> Bool {
        let bytes = block.valueBytes
        // A pinned block has another owner to come.
        guard block.pins == 0, underWay.load(ordering: .relaxed) + bytes <= Self.underWayBytesMax else {
            shard.counters.notAdmittedForRoom += 1
            return false
        }
        guard let loose = block.looseTwin() else { return false }
        // SAFETY: the shard is locked, so the block stays; its key is copied.
        let key = unsafe Array(block.key)
        let hash = shard.hash(block)
        let file = DraftFile(generation: disk.generations.next(), hash: hash, key: key, block: nil, disk: disk)
        let flight = Flight(hash: hash, key: key.span, demoted: loose)
        guard disk.enqueue(.demote(file, flight, self)) else {
            loose.freeTwin()
            shard.counters.notAdmittedForRoom += 1
            return false
        }
        underWay.add(bytes, ordering: .relaxed)
        shard.replaceByTwin(block)
        file.state.withLock { $0.block = loose }
        shard.flights[hash] = flight
        return true
    }

    /// Writes the block's file, then lets the journal refer to it, unless the key was written meanwhile.
    ///
    /// Runs on a disk thread.
    func run(_ file: DraftFile, _ flight: Flight) {
        // The job may have been taken before the eviction was done: the lock waits for that.
        let isWanted = disk.memory.shard(flight.hash).withLock { $0.flights[flight.hash] === flight }
        guard let block = file.state.withLock({ $0.block }) else { return }
        let bytes = block.valueBytes
        // SAFETY: the file owns the block, and nobody else knows it any more.
        if isWanted { unsafe disk.write(block.value, to: file) } else { file.finish(.failed) }
        let waiters = disk.memory.shard(flight.hash).withLock { shard -> [Waiter] in
            // SAFETY: a flight's state is guarded by the lock of its key's shard, which is held here.
            let waiters = unsafe flight.state.loads + flight.state.proofs
            unsafe flight.state.loads = []
            unsafe flight.state.proofs = []
            guard shard.flights[flight.hash] === flight else { return waiters }
            shard.flights[flight.hash] = nil
            guard let finished = file.finished, disk.takesWrites,
                disk.journal(block, generation: file.generation, file: finished, &shard)
            else {
                shard.counters.notAdmittedForRoom += 1
                return waiters
            }
            file.adopt()
            return waiters
        }
        underWay.subtract(bytes, ordering: .relaxed)
        for waiter in waiters { waiter.complete(.retry) }
    }
}

extension AdmissionPolicy {
    /// Whether an entry that leaves memory is to leave for good; counts why.
    func refuses(_ block: EntryBlock, _ shard: inout Shard, now: Instant) -> Bool {
        switch verdict(evicting: block, &shard, now: now) {
        case .admitted: return false
        case .refused: shard.counters.notAdmittedByPolicy += 1
        case .overBudget: shard.counters.notAdmittedByBudget += 1
        }
        return true
    }
}

extension DiskTier {
    /// Whether entries can be journalled now.
    var takesWrites: Bool { isServing && !isJournalClosed.load(ordering: .relaxed) }

    /// Journals an entry, whose value is in `file` if there is one; false if the journal has no room.
    ///
    /// Call under the lock of the block's shard, while the tier takes writes.
    func journal(
        _ block: EntryBlock, generation: UInt64, file: FinishedValueFile?, _ shard: inout Shard
    ) -> Bool {
        var header = JournalHeader(kind: block.isStub || file != nil ? .fileEntry : .inlineEntry)
        memory.describe(block, in: &header)
        header.generation = generation
        if let file {
            header.valueSum = file.valueSum
            header.fileKiB = UInt32(file.fileBytes >> 10)
        }
        // SAFETY: the caller owns the block or holds its shard's lock; the journal copies the bytes during the call.
        let value = unsafe file == nil && !block.isStub ? block.value : UnsafeRawBufferPointer(start: nil, count: 0)
        guard let place = unsafe journal.append(header, key: block.key, extended: block.extended, value: value) else {
            return false
        }
        shard.pending.put(
            header.hash, PendingWrite(kind: .entry, sequence: place.sequence, position: place.position))
        shard.counters.admittedEntries += 1
        shard.counters.admittedBytes += block.valueBytes
        block.marks.insert(.onDisk)
        return true
    }

    /// Writes `value` as the whole of `file`.
    func write(_ value: UnsafeRawBufferPointer, to file: DraftFile) {
        do {
            var writer = try createFile(file, valueBytes: value.count)
            // SAFETY: the caller keeps `value` until this returns; the writer keeps no pointer.
            try unsafe writer.append(value)
            file.finish(.finished(try writer.finish(sync: syncsFiles)))
        } catch {
            noteWriteFailure(error)
            file.finish(.failed)
        }
    }
}
