// What can be known about an entry without reading, or using, its value.

import Primitives

/// An entry's metadata.
///
/// Asking for it does not count as a use.
public struct EntryInfo: Sendable, Equatable {
    /// Where the value is.
    public enum Storage: String, Sendable, CaseIterable {
        /// In memory.
        case memory
        /// In the disk tier's journal or index.
        case inline
        /// In a file of its own.
        case file
    }

    /// The key.
    public var key: [UInt8]
    /// Bytes of the value.
    public var valueBytes: Int
    /// Bytes of the data beside the value.
    public var extendedBytes: Int
    /// The number that was stored with the value.
    public var flags: UInt32
    /// The id of this version of the value.
    public var cas: UInt64
    /// Time since the value was stored, to the second.
    public var age: Duration
    /// Time since the value was last read or stored, to the second; coarser for entries on disk.
    public var idle: Duration
    /// What is left of its time to live; nil: it does not expire.
    public var timeToLive: Duration?
    /// Where a retrieval would find the value.
    public var storage: Storage
    /// Whether the value is marked as out of date.
    public var isStale: Bool
    /// Whether the key is shown in base64.
    public var hasBinaryKey: Bool
    /// Whether it was read since it was stored; of an entry on disk, as far as the index was told.
    public var wasFetched: Bool
    /// The number of the write that the copy on disk is from; nil: there is none, or it was not asked for.
    public var generation: UInt64?
    /// The file of the copy on disk, from the cache's directory on; nil: the copy is in the journal or the index.
    public var file: String?

    /// The tier that a retrieval would be answered from.
    public var tier: Tier { storage == .memory ? .memory : .disk }
}

extension EntryInfo {
    /// An entry in memory.
    init(_ block: EntryBlock, now: Instant) {
        // SAFETY: the caller holds the lock of the block's shard; the key is copied.
        self.init(
            key: unsafe Array(block.key), valueBytes: block.valueBytes, extendedBytes: block.extendedBytes,
            flags: block.flags, cas: block.cas, age: .seconds(Int64(now.bootSeconds) - Int64(block.written)),
            idle: .seconds(Int64(now.bootSeconds) - Int64(block.accessed)),
            timeToLive: block.deadline.timeLeft(at: now), storage: block.isStub ? .file : .memory,
            isStale: block.marks.contains(.stale), hasBinaryKey: block.marks.contains(.binaryKey),
            wasFetched: block.marks.contains(.fetched))
        if block.isStub { setCopy(block.file.generation, isFile: true) }
    }

    /// An entry on disk.
    ///
    /// `time` is `now` by the store's clock.
    init(
        key: [UInt8], _ metadata: EntryMetadata, extendedBytes: Int, deadline: Instant, now: Instant, time: WallTime,
        isFile: Bool
    ) {
        self.init(
            key: key, valueBytes: metadata.valueBytes, extendedBytes: extendedBytes, flags: metadata.flags,
            cas: metadata.cas, age: .seconds(Self.seconds(from: metadata.written, to: time)),
            idle: .seconds(Self.seconds(from: max(metadata.accessed, metadata.written), to: time)),
            timeToLive: deadline.timeLeft(at: now), storage: isFile ? .file : .inline,
            isStale: metadata.marks.contains(.stale), hasBinaryKey: metadata.marks.contains(.binaryKey),
            wasFetched: metadata.marks.contains(.fetched) || metadata.accessed.seconds > metadata.written.seconds)
        setCopy(metadata.generation, isFile: isFile)
    }

    /// Takes note of the copy on disk.
    mutating func setCopy(_ generation: UInt64, isFile: Bool) {
        self.generation = generation
        let name = ValueFiles.name(generation)
        let path = "\(StoreDirectory.storeName)/\(StoreDirectory.valuesName)/\(name.directory)/\(name.file)"
        file = isFile ? path : nil
    }

    private static func seconds(from start: WallTime, to end: WallTime) -> Int64 {
        max(0, end.milliseconds.subtractingReportingOverflow(start.milliseconds).partialValue) / 1000
    }
}
