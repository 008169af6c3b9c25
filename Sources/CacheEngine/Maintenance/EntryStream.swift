// The form in which entries travel: a stream of records with sums, for backup and moves. docs/BACKUP.md has the bytes.
//
// Encoder and decoder of the fixed parts; values pass by in pieces of any size and are never held here. Numbers are
// little-endian. Pure: no I/O, no clock.

import Hashing
public import Primitives

/// What a record says about an entry besides its value.
public struct StreamedEntry: Sendable, Equatable {
    /// The key.
    public var key: [UInt8]
    /// The client's flags.
    public var flags: UInt32
    /// Data stored beside the value.
    public var extended: [UInt8]
    /// Its time to live in ms, from when the stream was begun; nil: it does not expire.
    public var timeToLive: Int64?
    /// Time since the value was stored, in ms.
    public var age: Int64
    /// Whether the key is shown in base64.
    public var hasBinaryKey: Bool
    /// Bytes of the value.
    public var valueBytes: Int

    /// An entry.
    public init(
        key: [UInt8], flags: UInt32, extended: [UInt8] = [], timeToLive: Int64?, age: Int64 = 0,
        hasBinaryKey: Bool = false, valueBytes: Int
    ) {
        self.key = key
        self.flags = flags
        self.extended = extended
        self.timeToLive = timeToLive
        self.age = age
        self.hasBinaryKey = hasBinaryKey
        self.valueBytes = valueBytes
    }
}

/// Why a stream cannot be read on.
public enum EntryStreamError: Error, Sendable, Equatable, CustomStringConvertible {
    /// It does not begin like a stream of ours.
    case notAStream
    /// A newer program wrote it.
    case newerVersion(UInt32)
    /// A record's head is damaged: where the next one begins is not known.
    case damaged(offset: Int)
    /// It ends before its last record.
    case truncated(offset: Int)
    /// It ends with another count than it has entries.
    case wrongCount(promised: Int, found: Int)
    /// The source or target failed, with errno.
    case failed(operation: String, errno: Int32)

    /// One line for people.
    public var description: String {
        switch self {
        case .notAStream: "not a stream of entries"
        case .newerVersion(let version): "version \(version) is newer than this program's"
        case .damaged(let offset): "damaged at byte \(offset)"
        case .truncated(let offset): "ends too early, at byte \(offset)"
        case .wrongCount(let promised, let found): "promises \(promised) entries and holds \(found)"
        case .failed(let operation, let errno): "\(operation): \(systemErrorText(errno))"
        }
    }
}

/// The fixed parts of a stream.
enum EntryStreamFormat {
    static let headBytes = 32
    static let recordBytes = 48
    static let version: UInt32 = 1
    private static let magic: UInt64 = 0x7274_736e_6574_6463  // "cdtenstr" in little-endian order
    private static let entryKind: UInt8 = 1
    private static let endKind: UInt8 = 2
    private static let binaryKeyMark: UInt8 = 8

    /// A record's fixed part, decoded.
    enum Record: Equatable {
        /// With the bytes of key and extended data that follow.
        case entry(StreamedEntry, keyBytes: Int, extendedBytes: Int)
        case end(entries: Int, valueBytes: Int)
    }

    static func head(writtenAt time: WallTime) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: headBytes)
        bytes.put(magic, at: 0)
        bytes.put(UInt64(version), at: 8)
        bytes.put(UInt64(bitPattern: time.milliseconds), at: 16)
        bytes.put(sum(bytes[..<24], seed: 0), at: 24)
        return bytes
    }

    /// When the stream was written.
    static func readHead(_ bytes: [UInt8]) throws(EntryStreamError) -> WallTime {
        guard bytes.count == headBytes, bytes.number(at: 0) == magic, sum(bytes[..<24], seed: 0) == bytes.number(at: 24)
        else { throw .notAStream }
        let version = UInt32(truncatingIfNeeded: bytes.number(at: 8))
        if version > Self.version { throw .newerVersion(version) }
        return WallTime(milliseconds: Int64(bitPattern: bytes.number(at: 16)))
    }

    /// Head, key and extended data of an entry's record.
    static func record(_ entry: StreamedEntry) -> [UInt8] {
        invariant(entry.key.count <= 250 && entry.extended.count <= Int(UInt16.max), "an entry out of bounds")
        var bytes = [UInt8](repeating: 0, count: recordBytes)
        let marks = entry.hasBinaryKey ? binaryKeyMark : 0
        bytes.put(
            UInt64(entryKind) | UInt64(marks) << 8 | UInt64(entry.key.count) << 16 | UInt64(entry.flags) << 32, at: 0)
        bytes.put(UInt64(bitPattern: entry.timeToLive ?? -1), at: 8)
        bytes.put(UInt64(bitPattern: entry.age), at: 16)
        bytes.put(UInt64(entry.valueBytes), at: 24)
        bytes.put(UInt64(entry.extended.count), at: 32)
        let rest = entry.key + entry.extended
        bytes.put(sum(bytes[..<40], seed: sum(rest[...], seed: 0)), at: 40)
        return bytes + rest
    }

    /// The last record.
    static func end(entries: Int, valueBytes: Int) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: recordBytes)
        bytes.put(UInt64(endKind), at: 0)
        bytes.put(UInt64(entries), at: 8)
        bytes.put(UInt64(valueBytes), at: 24)
        bytes.put(sum(bytes[..<40], seed: sum([], seed: 0)), at: 40)
        return bytes
    }

    /// A record's fixed part; nil if it cannot be one.
    ///
    /// Nothing of it is to be believed before `isWhole`.
    static func read(_ head: [UInt8]) -> Record? {
        guard head.count == recordBytes else { return nil }
        let first = head.number(at: 0)
        let keyBytes = Int(first >> 16 & 0xffff)
        guard let extendedBytes = Int(exactly: head.number(at: 32)), extendedBytes <= Int(UInt16.max),
            let valueBytes = Int(exactly: head.number(at: 24))
        else { return nil }
        let third = Int64(bitPattern: head.number(at: 8))
        switch UInt8(truncatingIfNeeded: first) {
        case entryKind:
            guard keyBytes > 0, keyBytes <= 250, valueBytes <= Int(UInt32.max), third >= -1 else { return nil }
            let entry = StreamedEntry(
                key: [], flags: UInt32(truncatingIfNeeded: first >> 32), timeToLive: third < 0 ? nil : third,
                age: max(0, Int64(bitPattern: head.number(at: 16))),
                hasBinaryKey: UInt8(truncatingIfNeeded: first >> 8) & binaryKeyMark != 0, valueBytes: valueBytes)
            return .entry(entry, keyBytes: keyBytes, extendedBytes: extendedBytes)
        case endKind:
            guard keyBytes == 0, extendedBytes == 0, let entries = Int(exactly: third), entries >= 0 else { return nil }
            return .end(entries: entries, valueBytes: valueBytes)
        default: return nil
        }
    }

    /// Whether the record's sum fits its fixed part and `rest`, its key and extended data.
    static func isWhole(_ head: [UInt8], rest: [UInt8]) -> Bool {
        head.number(at: 40) == sum(head[..<40], seed: sum(rest[...], seed: 0))
    }

    /// The seed of the sum that follows a record's value.
    static func valueSeed(_ head: [UInt8]) -> UInt64 { head.number(at: 40) }

    private static func sum(_ bytes: ArraySlice<UInt8>, seed: UInt64) -> UInt64 {
        // SAFETY: xxh3 reads the buffer's own bytes and keeps nothing.
        unsafe bytes.withUnsafeBytes { unsafe xxh3($0, seed: seed) }
    }
}

/// Writes a stream.
///
/// The target is called with up to some hundred KiB at a time and says with errno, or 0, how it went.
public struct EntryStreamWriter: ~Copyable {
    /// Takes bytes in order; returns 0, or an errno.
    public typealias Target = (Span<UInt8>) -> Int32

    private let target: Target
    /// When the stream was begun: times to live count from then.
    public let writtenAt: WallTime
    private var buffer: [UInt8] = []
    private var hash: IncrementalHash?
    private var valueLeft = 0
    /// Entries, and bytes of their values, that were written.
    public private(set) var entries = 0
    /// Bytes of their values.
    public private(set) var valueBytes = 0

    private static let bufferBytes = 256 << 10

    /// Begins a stream.
    public init(writtenAt time: WallTime, to target: @escaping Target) {
        self.target = target
        writtenAt = time
        buffer = EntryStreamFormat.head(writtenAt: time)
    }

    /// Begins a record; `append` the value, then `endEntry`.
    public mutating func begin(_ entry: StreamedEntry) throws(EntryStreamError) {
        invariant(valueLeft == 0, "the record before lacks bytes")
        let record = EntryStreamFormat.record(entry)
        hash = IncrementalHash(seed: EntryStreamFormat.valueSeed(Array(record[..<EntryStreamFormat.recordBytes])))
        valueLeft = entry.valueBytes
        entries += 1
        valueBytes += entry.valueBytes
        try put(record.span)
    }

    /// Appends a piece of the value.
    public mutating func append(_ bytes: Span<UInt8>) throws(EntryStreamError) {
        invariant(bytes.count <= valueLeft, "more bytes than the record has")
        valueLeft -= bytes.count
        // SAFETY: the hash reads the span's own bytes and keeps nothing.
        unsafe bytes.withUnsafeBytes { unsafe hash?.update($0) }
        try put(bytes)
    }

    /// Ends a record, or gives it up: then what is missing is made up, and the sum is wrong, so that readers skip it.
    public mutating func endEntry(isWhole: Bool = true) throws(EntryStreamError) {
        invariant(!isWhole || valueLeft == 0, "a record ends too early")
        if !isWhole {
            entries -= 1
            let zeros = [UInt8](repeating: 0, count: min(valueLeft, Self.bufferBytes))
            while valueLeft > 0 {
                let part = zeros.span.extracting(0..<min(valueLeft, zeros.count))
                try append(part)
            }
        }
        var sum = [UInt8](repeating: 0, count: 8)
        let digest = hash?.digest() ?? 0
        sum.put(isWhole ? digest : ~digest, at: 0)
        hash = nil
        try put(sum.span)
    }

    /// Ends the stream.
    public mutating func finish() throws(EntryStreamError) {
        try put(EntryStreamFormat.end(entries: entries, valueBytes: valueBytes).span)
        try flush()
    }

    private mutating func put(_ bytes: Span<UInt8>) throws(EntryStreamError) {
        if buffer.count + bytes.count > Self.bufferBytes { try flush() }
        if bytes.count >= Self.bufferBytes { return try send(bytes) }
        // SAFETY: the array copies the span's own bytes.
        unsafe bytes.withUnsafeBufferPointer { unsafe buffer.append(contentsOf: $0) }
    }

    private mutating func flush() throws(EntryStreamError) {
        try send(buffer.span)
        buffer.removeAll(keepingCapacity: true)
    }

    private func send(_ bytes: Span<UInt8>) throws(EntryStreamError) {
        let code = target(bytes)
        if code != 0 { throw .failed(operation: "write", errno: code) }
    }
}

/// Reads a stream.
public struct EntryStreamReader: ~Copyable {
    /// Gives at most so many bytes; empty at the end, an errno when it failed.
    public typealias Source = (Int) -> Result<[UInt8], EntryStreamError>

    private let source: Source
    private var buffer: [UInt8] = []
    private var next = 0
    private var offset = 0
    private var hash: IncrementalHash?
    private var valueLeft = 0
    private var entries = 0
    /// When the stream was written, by the writer's clock.
    public let writtenAt: WallTime

    private static let stepBytes = 256 << 10

    /// Begins to read.
    public init(from source: @escaping Source) throws(EntryStreamError) {
        self.source = source
        var bytes: [UInt8] = []
        while bytes.count < EntryStreamFormat.headBytes {
            let more = try source(EntryStreamFormat.headBytes - bytes.count).get()
            if more.isEmpty { throw .notAStream }
            bytes += more
        }
        writtenAt = try EntryStreamFormat.readHead(bytes)
        offset = bytes.count
    }

    /// The next entry; nil at the end.
    ///
    /// Take its value with `nextPiece`, then ask `endEntry`.
    public mutating func nextEntry() throws(EntryStreamError) -> StreamedEntry? {
        invariant(valueLeft == 0 && hash == nil, "the entry before was not taken")
        let start = offset
        let head = try take(EntryStreamFormat.recordBytes)
        switch EntryStreamFormat.read(head) {
        case nil: throw .damaged(offset: start)
        case .end(let promised, _):
            guard EntryStreamFormat.isWhole(head, rest: []) else { throw .damaged(offset: start) }
            if promised != entries { throw .wrongCount(promised: promised, found: entries) }
            return nil
        case .entry(var entry, let keyBytes, let extendedBytes):
            let rest = try take(keyBytes + extendedBytes)
            guard EntryStreamFormat.isWhole(head, rest: rest) else { throw .damaged(offset: start) }
            entry.key = Array(rest[..<keyBytes])
            entry.extended = Array(rest[keyBytes...])
            valueLeft = entry.valueBytes
            hash = IncrementalHash(seed: EntryStreamFormat.valueSeed(head))
            return entry
        }
    }

    /// Shows `body` the next piece of the value; false when there is none.
    public mutating func nextPiece(_ body: (Span<UInt8>) -> Void) throws(EntryStreamError) -> Bool {
        if valueLeft == 0 { return false }
        if next == buffer.count { try fill() }
        let count = min(valueLeft, buffer.count - next)
        let shown = buffer
        let piece = shown.span.extracting(next..<next + count)
        // SAFETY: the hash reads the span's own bytes and keeps nothing.
        unsafe piece.withUnsafeBytes { unsafe hash?.update($0) }
        body(piece)
        next += count
        offset += count
        valueLeft -= count
        return true
    }

    /// Whether the entry's value, all of which was taken, is sound.
    public mutating func endEntry() throws(EntryStreamError) -> Bool {
        while try nextPiece({ _ in }) {}
        let sum = try take(8)
        let isSound = sum.number(at: 0) == hash?.digest()
        hash = nil
        if isSound { entries += 1 }
        return isSound
    }

    private mutating func take(_ count: Int) throws(EntryStreamError) -> [UInt8] {
        var bytes: [UInt8] = []
        while bytes.count < count {
            if next == buffer.count { try fill() }
            let part = min(count - bytes.count, buffer.count - next)
            bytes += buffer[next..<next + part]
            next += part
            offset += part
        }
        return bytes
    }

    private mutating func fill() throws(EntryStreamError) {
        buffer = try source(Self.stepBytes).get()
        next = 0
        if buffer.isEmpty { throw .truncated(offset: offset) }
    }
}
