// A value too large for the memory tier on its way from its file to a client, in chunks.
//
// The file was checked from end to end before the stream is handed out, and what is read then is checked again: where
// it changes in between, the last chunk is refused, and nobody gets a whole wrong value. Each chunk is read by a disk
// thread on request; the requester asks for the next when it has no more use for the present one.

import Glibc
import Hashing
public import Primitives

/// A large value, read chunk by chunk.
@safe
public final class ValueStream: Sendable {
    /// The client's flags.
    public let flags: UInt32
    /// The CAS id of this value.
    public let cas: UInt64
    /// The version of the entry that this is the value of.
    public let version: EntryVersion
    /// Bytes of the whole value.
    public let valueBytes: Int
    /// When the entry expires.
    public let deadline: Instant
    /// Data stored beside the value.
    public let extended: [UInt8]

    static let chunkBytes = 256 << 10

    private let disk: DiskTier
    // SAFETY: used by the one disk job that runs at a time, or by the requester between a completion and the next
    // request; the hand-overs go through locked queues.
    private let reader: ValueFileReader
    // Allocated for the first chunk.
    nonisolated(unsafe) private var memory = unsafe UnsafeMutableRawBufferPointer(start: nil, count: 0)
    nonisolated(unsafe) private var offset = 0
    nonisolated(unsafe) private var filled = 0
    nonisolated(unsafe) private var hash: IncrementalHash

    init(
        reader: consuming ValueFileReader, metadata: EntryMetadata, deadline: Instant, extended: [UInt8], disk: DiskTier
    ) {
        flags = metadata.flags
        cas = metadata.cas
        version = EntryVersion(fileGeneration: metadata.generation)
        valueBytes = metadata.valueBytes
        self.deadline = deadline
        self.extended = extended
        self.disk = disk
        unsafe hash = reader.makeHash()
        self.reader = reader
    }

    deinit { unsafe memory.deallocate() }

    /// Asks for the next chunk: `waiter` gets `.chunk`, or `.failed`.
    ///
    /// Not to be called while a request is open, nor when everything has been delivered.
    public func requestNext(_ waiter: Waiter) { disk.enqueue(.readChunk(self, waiter)) }

    /// The chunk that was read last; valid until `requestNext`.
    public var chunk: UnsafeRawBufferPointer { unsafe UnsafeRawBufferPointer(rebasing: memory[..<filled]) }

    /// Bytes of memory that a chunk takes.
    public var chunkBytesMax: Int { min(Self.chunkBytes, valueBytes) }

    /// Whether the last chunk has been read.
    public var isComplete: Bool { unsafe offset == valueBytes }

    /// Reads the next chunk.
    ///
    /// Runs on a disk thread.
    func run(_ waiter: Waiter) {
        if unsafe memory.isEmpty {
            unsafe memory = .allocate(byteCount: min(Self.chunkBytes, valueBytes), alignment: 16)
        }
        let count = unsafe min(memory.count, valueBytes - offset)
        do {
            try unsafe reader.read(at: offset, into: UnsafeMutableRawBufferPointer(rebasing: memory[..<count]))
            unsafe hash.update(UnsafeRawBufferPointer(rebasing: memory[..<count]))
            let isLast = unsafe offset + count == valueBytes
            guard unsafe !isLast || reader.isSum(hash) else { return waiter.complete(.failed) }
            unsafe offset += count
            unsafe filled = count
            disk.counters.add(count, to: .readBytes)
            waiter.complete(.chunk)
        } catch {
            waiter.complete(.failed)
        }
    }
}
