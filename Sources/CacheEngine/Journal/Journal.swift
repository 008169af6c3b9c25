// The journal: a ring in a shared file mapping that makes an acknowledged write survive `kill -9` at memcpy cost.
//
// A write is appended under the lock of its key's shard, so for each key journal order is memory order; the page cache
// keeps what was stored in the mapping when the process dies. The disk writer reads records from the tail, brings them
// into the index, and only then advances the tail. Positions count bytes since the journal was made and never wrap;
// `position % capacity` is the place in the ring. A record never straddles the ring's end: a marker fills what is left.
// The file is allocated in full before it is mapped: a store into a hole on a full disk would be SIGBUS.
//
// Appending: any thread, under the lock inside. Reading and advancing: the disk writer only.

import Glibc
import Hashing
import Primitives

/// An mmap'd ring of write records.
@safe
final class Journal: Sendable {
    struct State {
        /// Where the next record goes.
        var head: UInt64
        /// Where the oldest record that is not in the index begins.
        var tail: UInt64
        /// Sequence of the newest record.
        var sequence: UInt64
        /// Set while the writer waits for work: the next append wakes it.
        var writerIsIdle = false
    }

    /// Guards the append position.
    ///
    /// Held for one memcpy and one checksum. Taken after a shard's lock.
    private let state: Guarded<State>
    let capacity: Int
    private let firstHead: UInt64
    private let seed: UInt64
    // SAFETY: a shared mapping of `headerBytes + capacity` bytes, unmapped in deinit. Bytes between tail and head are
    // written once, under `state`, before head passes them; readers only follow positions below head.
    nonisolated(unsafe) private let mapping: UnsafeMutableRawPointer
    private let wake: @Sendable () -> Void

    static let headerBytes = JournalFile.headerBytes
    private static let wrapMarker = UInt32.max

    /// Takes over an opened and recovered file.
    ///
    /// `wake` is called after an append when the writer was idle.
    init(_ file: JournalFile, wake: @escaping @Sendable () -> Void) {
        capacity = file.capacity
        firstHead = file.head
        seed = file.seed
        unsafe mapping = file.mapping
        self.wake = wake
        state = Guarded(
            State(head: file.head, tail: file.tail, sequence: file.sequence), rank: .journal)
    }

    deinit { unsafe munmap(mapping, Self.headerBytes + capacity) }

    /// Goes on in another file of the same size, which `JournalFile` has made; closes `descriptor`.
    ///
    /// Only while nobody appends. The new file says nothing of this journal yet: `discardAll` must follow.
    func move(to descriptor: Int32) throws(JournalFile.Failure) {
        defer { close(descriptor) }
        // SAFETY: MAP_FIXED replaces exactly our own mapping, at its address, by the new file's pages.
        let moved = unsafe mmap(
            mapping, Self.headerBytes + capacity, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, descriptor, 0)
        guard let moved = unsafe moved, unsafe moved == mapping else {
            throw JournalFile.Failure(operation: "map", errno: errno)
        }
    }

    private var ring: UnsafeMutableRawPointer { unsafe mapping + Self.headerBytes }

    /// The largest record that is accepted: half of the ring, so that one record can never wedge it.
    var recordBytesMax: Int { capacity / 2 }

    // MARK: Appending

    /// Appends one write; nil when the ring has no room until the writer advances.
    ///
    /// Completes `header`: sequence, lengths and sum.
    func append(
        _ header: JournalHeader, key: UnsafeRawBufferPointer, extended: UnsafeRawBufferPointer,
        value: UnsafeRawBufferPointer
    ) -> (position: UInt64, sequence: UInt64)? {
        let payloadBytes = key.count + extended.count + value.count
        let recordBytes = (JournalHeader.bytes + payloadBytes + 7) & ~7
        guard recordBytes <= recordBytesMax else { return nil }
        var header = header
        header.recordBytes = UInt32(recordBytes)
        header.keyBytes = UInt8(key.count)
        header.extendedBytes = UInt32(extended.count)
        let result: (position: UInt64, sequence: UInt64, waiting: Int, wakes: Bool)? = state.withLock { state in
            guard let (position, place) = reserve(recordBytes, &state) else { return nil }
            state.sequence += 1
            header.sequence = state.sequence
            unsafe write(&header, key, extended, value, at: ring + place)
            unsafe JournalFile.noteNewest(mapping, sequence: header.sequence)
            state.head = position + UInt64(recordBytes)
            let wakes = state.writerIsIdle
            state.writerIsIdle = false
            return (position, state.sequence, Int(state.head - state.tail), wakes)
        }
        guard let result else { return nil }
        if result.wakes { wake() }
        passAppended(from: result.position, to: result.position + UInt64(recordBytes), waiting: result.waiting)
        return (result.position, result.sequence)
    }

    /// Finds `bytes` of contiguous room and returns its position and its place in the ring, having marked the ring's
    /// rest if it had to be skipped.
    private func reserve(_ bytes: Int, _ state: inout State) -> (position: UInt64, place: Int)? {
        let place = Int(state.head % UInt64(capacity))
        let untilEnd = capacity - place
        let skipped = untilEnd < bytes ? untilEnd : 0
        guard Int(state.head - state.tail) + skipped + bytes <= capacity else { return nil }
        if skipped > 0 { unsafe (ring + place).storeBytes(of: Self.wrapMarker, as: UInt32.self) }
        return (state.head + UInt64(skipped), skipped > 0 ? 0 : place)
    }

    private func write(
        _ header: inout JournalHeader, _ key: UnsafeRawBufferPointer, _ extended: UnsafeRawBufferPointer,
        _ value: UnsafeRawBufferPointer, at target: UnsafeMutableRawPointer
    ) {
        let payload = unsafe target + JournalHeader.bytes
        let payloadBytes = key.count + extended.count + value.count
        invariant(payloadBytes <= Int(header.recordBytes) - JournalHeader.bytes)
        if let base = key.baseAddress { unsafe payload.copyMemory(from: base, byteCount: key.count) }
        if let base = extended.baseAddress {
            unsafe (payload + key.count).copyMemory(from: base, byteCount: extended.count)
        }
        if let base = value.baseAddress {
            unsafe (payload + key.count + extended.count).copyMemory(from: base, byteCount: value.count)
        }
        header.sum = unsafe header.computedSum(
            payload: UnsafeRawBufferPointer(start: payload, count: payloadBytes), seed: seed)
        unsafe target.storeBytes(of: header, as: JournalHeader.self)
    }

    // MARK: Reading

    /// The record at `position`, which must lie between tail and head.
    func record(at position: UInt64) -> JournalRecord {
        unsafe JournalRecord(base: UnsafeRawPointer(ring + Int(position % UInt64(capacity))))
    }

    /// The record, if it still is what was appended: the page that it lies on may have been read again from a device.
    ///
    /// O(bytes of the record). The writer finds what is damaged, too, and gives the store up.
    func wholeRecord(at position: UInt64) -> JournalRecord? {
        let record = record(at: position)
        let room = capacity - Int(position % UInt64(capacity))
        return record.isWhole(room: room, seed: seed) ? record : nil
    }

    /// The position of the record at or after `position`: skips the marker at the ring's end.
    func normalized(_ position: UInt64) -> UInt64 {
        let place = Int(position % UInt64(capacity))
        let untilEnd = capacity - place
        let isMarker = unsafe untilEnd < 4 || (ring + place).loadUnaligned(as: UInt32.self) == Self.wrapMarker
        return isMarker ? position + UInt64(untilEnd) : position
    }

    /// Where the journal begins and ends now.
    var extent: (tail: UInt64, head: UInt64, sequence: UInt64) {
        state.withLock { ($0.tail, $0.head, $0.sequence) }
    }

    /// Bytes appended since it was opened.
    var appendedBytes: Int { state.withLock { Int($0.head - firstHead) } }

    /// Bytes between tail and head.
    var usedBytes: Int { state.withLock { Int($0.head - $0.tail) } }

    /// Says that the writer is about to wait.
    ///
    /// False if there is something to do.
    func declareIdle() -> Bool {
        state.withLock { state in
            if state.head != state.tail { return false }
            state.writerIsIdle = true
            return true
        }
    }

    /// Gives up everything before `position`: the index has it.
    ///
    /// Marks it in the file, then opens the room.
    func advance(to position: UInt64, sequence: UInt64) {
        unsafe JournalFile.mark(mapping, position: position, sequence: sequence, seed: seed)
        let before = state.withLock { state in
            let before = state.tail
            state.tail = position
            return before
        }
        unmapPages(from: before, to: position)
    }

    /// Takes passed pages out of this process' resident set; the page cache keeps them until they are written again.
    func unmapPages(from start: UInt64, to end: UInt64) {
        let page: UInt64 = 4096
        let first = (start + page - 1) / page * page
        let last = end / page * page
        guard first < last else { return }
        let place = Int(first % UInt64(capacity))
        let count = min(Int(last - first), capacity)
        let untilEnd = min(count, capacity - place)
        unsafe madvise(ring + place, untilEnd, MADV_DONTNEED)
        if count > untilEnd { unsafe madvise(ring, count - untilEnd, MADV_DONTNEED) }
    }

    /// Forgets all records; the next one has the following sequence.
    func discardAll() {
        let (_, head, sequence) = extent
        advance(to: head, sequence: sequence)
    }

    // MARK: The barred flag

    /// Whether writes were acknowledged that neither journal nor index have.
    ///
    /// While set, a store found at start cannot be believed. With `syncs` the flag is on the device on return; false if
    /// the device refused.
    @discardableResult
    func setBarred(_ isBarred: Bool, syncs: Bool = false) -> Bool {
        unsafe JournalFile.setBarred(mapping, isBarred, syncs: syncs)
    }
}
