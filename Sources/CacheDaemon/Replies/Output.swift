// Replies on their way to one socket: bytes, and between them large values that are sent from where they lie.
//
//     bytes:       VALUE a 0 5\r\nhello\r\nVALUE b 0 100000\r\n|\r\nEND\r\n
//     references:                                              ^ 100000 bytes of a pinned entry go here
//
// Each worker has one that its connections take turns to fill; what a socket does not take at once moves into one of
// the connection's own. Not thread-safe.

import CacheEngine
import Glibc
import Primitives
import Protocol

/// Bytes to be sent, in order.
@safe
struct Output: ~Copyable {
    /// Values up to this size are copied under the shard's lock; larger ones are pinned and sent by reference.
    static let copiedBytesMax = 16 << 10
    /// A connection stops executing requests when so much waits to be sent.
    static let bytesMax = 256 << 10
    /// The same for values by reference: one more may start below this.
    static let referencedBytesMax = 1 << 20
    /// And for their number.
    static let referencesMax = 64
    /// The first bound, while memory for clients is scarce; values by reference come singly then.
    static let narrowBytesMax = 16 << 10

    /// A value between the bytes.
    struct Reference {
        /// How many unsent bytes of `bytes` go before it.
        var offset: Int
        let source: Source
        /// How much of it was sent already.
        var sentBytes = 0

        // SAFETY: the source keeps its memory alive and unchanged while it is held here.
        var rest: UnsafeRawBufferPointer { unsafe UnsafeRawBufferPointer(rebasing: source.bytes[sentBytes...]) }
    }

    /// What keeps a referenced value alive.
    enum Source {
        case entry(PinnedEntry)
        /// The stream's present chunk; the next may be requested only after this one was sent.
        case chunk(ValueStream)

        var bytes: UnsafeRawBufferPointer {
            switch self {
            case .entry(let entry): unsafe entry.value
            case .chunk(let stream): unsafe stream.chunk
            }
        }
    }

    /// The bytes that are not references.
    var bytes = ByteBuffer()
    private(set) var references: [Reference] = []
    /// Bytes of the values by reference, those included that were sent in part.
    private(set) var referencedBytes = 0
    private var bytesRoom = Output.bytesMax
    private var referencedBytesRoom = Output.referencedBytesMax
    /// Whether less may wait here than usual.
    var isNarrow = false {
        didSet {
            bytesRoom = isNarrow ? Self.narrowBytesMax : Self.bytesMax
            referencedBytesRoom = isNarrow ? 1 : Self.referencedBytesMax
        }
    }

    var isEmpty: Bool { bytes.isEmpty && references.isEmpty }

    /// Whether a connection must let this drain before it executes more.
    var isFull: Bool {
        bytes.count >= bytesRoom || referencedBytes >= referencedBytesRoom || references.count >= Self.referencesMax
    }

    /// Bytes of memory that are held beside entries.
    var heldBytes: Int {
        var total = bytes.allocatedBytes
        for reference in references {
            if case .chunk(let stream) = reference.source { total += stream.chunkBytesMax }
        }
        return total
    }

    /// Bytes of values by reference that are no entries any more.
    var detachedBytes: Int {
        references.reduce(0) { total, reference in
            guard case .entry(let entry) = reference.source, entry.isDetached else { return total }
            return total + entry.valueBytes
        }
    }

    // MARK: Appending

    /// Appends a one-line reply.
    @inline(__always)
    mutating func append(_ reply: Reply) { bytes.append(reply) }

    /// Appends the VALUE block of an entry that is shown under its shard's lock.
    @inline(__always)
    mutating func appendValue(key: UnsafeRawBufferPointer, _ entry: EntryView, includesCAS: Bool) {
        unsafe bytes.appendValueHeader(
            key: key, flags: entry.flags, count: entry.valueBytes, cas: includesCAS ? entry.cas : nil)
        if entry.valueBytes <= Self.copiedBytesMax {
            unsafe bytes.append(entry.value)
        } else {
            appendReference(.entry(entry.pin()), bytes: entry.valueBytes)
        }
        bytes.append("\r\n")
    }

    /// Appends the whole reply to a `get` of one key, whose entry is shown under its shard's lock.
    @inline(__always)
    mutating func appendOnlyValue(key: UnsafeRawBufferPointer, _ entry: EntryView) {
        if entry.valueBytes <= Self.copiedBytesMax {
            return unsafe bytes.appendValueBlock(key: key, flags: entry.flags, value: entry.value, isLast: true)
        }
        unsafe appendValue(key: key, entry, includesCAS: false)
        bytes.append(.end)
    }

    /// Appends the value of an entry that is being edited, and CR LF.
    mutating func appendValue(_ edit: borrowing EntryEdit) {
        if edit.valueBytes > Self.copiedBytesMax, let entry = edit.pin() {
            appendReference(.entry(entry), bytes: edit.valueBytes)
        } else {
            unsafe bytes.append(edit.value)
        }
        bytes.append("\r\n")
    }

    /// Appends the VALUE block of a pinned entry.
    mutating func appendValue(key: UnsafeRawBufferPointer, _ entry: PinnedEntry, includesCAS: Bool) {
        unsafe bytes.appendValueHeader(
            key: key, flags: entry.flags, count: entry.valueBytes, cas: includesCAS ? entry.cas : nil)
        if entry.valueBytes <= Self.copiedBytesMax {
            unsafe bytes.append(entry.value)
        } else {
            appendReference(.entry(entry), bytes: entry.valueBytes)
        }
        bytes.append("\r\n")
    }

    /// Appends the present chunk of a stream by reference.
    mutating func appendChunk(_ stream: ValueStream) {
        appendReference(.chunk(stream), bytes: unsafe stream.chunk.count)
    }

    private mutating func appendReference(_ source: Source, bytes count: Int) {
        references.append(Reference(offset: bytes.count, source: source))
        referencedBytes += count
    }

    /// Moves everything from `other` behind what is here.
    mutating func take(_ other: inout Output) {
        for reference in other.references {
            var reference = reference
            reference.offset += bytes.count
            references.append(reference)
        }
        referencedBytes += other.referencedBytes
        unsafe bytes.append(other.bytes.readable)
        other.removeAll()
    }

    /// The present end, to come back to.
    var mark: OutputMark { OutputMark(bytes: bytes.count, references: references.count) }

    /// Drops what was appended since `mark` was taken.
    mutating func rewind(to mark: OutputMark) {
        bytes.truncate(to: mark.bytes)
        for reference in references[mark.references...] { referencedBytes -= unsafe reference.source.bytes.count }
        references.removeLast(references.count - mark.references)
    }

    /// Moves the bytes that were appended since `mark` was taken; there are no references among them.
    mutating func moveTail(from mark: OutputMark, to other: inout Output) {
        let readable = unsafe bytes.readable
        unsafe other.bytes.append(UnsafeRawBufferPointer(rebasing: readable[mark.bytes...]))
        rewind(to: mark)
    }

    /// Forgets everything.
    mutating func removeAll() {
        bytes.consume(bytes.count)
        guard !references.isEmpty else { return }
        references.removeAll()
        referencedBytes = 0
    }

    /// Gives memory back when nothing is left to send.
    mutating func releaseIfEmpty() {
        guard isEmpty else { return }
        bytes.releaseIfEmpty()
        references = []
    }

    // MARK: Sending

    /// Sends what the socket takes in one call.
    mutating func send(to fd: Int32, _ vectors: borrowing SendVectors) -> SendOutcome {
        let sent: Int
        if references.isEmpty {
            let readable = unsafe bytes.readable
            sent = unsafe Glibc.send(fd, readable.baseAddress, readable.count, Int32(MSG_NOSIGNAL))
        } else {
            sent = unsafe vectors.send(to: fd, count: fill(vectors.memory))
        }
        guard sent >= 0 else { return errno == EAGAIN || errno == EINTR ? .full : .failed }
        consume(sent)
        return .sent(sent)
    }

    /// Lists what is to be sent, from the front, as far as it fits; returns the number of vectors.
    func fill(_ vectors: UnsafeMutableBufferPointer<iovec>) -> Int {
        let readable = unsafe bytes.readable
        var count = 0
        var position = 0
        func add(_ part: UnsafeRawBufferPointer) {
            guard part.count > 0 else { return }
            unsafe vectors[count] = iovec(
                iov_base: UnsafeMutableRawPointer(mutating: part.baseAddress), iov_len: part.count)
            count += 1
        }
        for reference in references {
            guard count + 3 <= vectors.count else { return count }
            unsafe add(UnsafeRawBufferPointer(rebasing: readable[position..<reference.offset]))
            unsafe add(reference.rest)
            position = reference.offset
        }
        unsafe add(UnsafeRawBufferPointer(rebasing: readable[position...]))
        return count
    }

    /// Drops the first `count` bytes of the whole.
    mutating func consume(_ count: Int) {
        if references.isEmpty { return bytes.consume(count) }
        var left = count
        var plain = 0
        var done = 0
        for index in references.indices {
            let before = min(left, references[index].offset - plain)
            plain += before
            left -= before
            guard plain == references[index].offset else { break }
            let part = min(left, unsafe references[index].rest.count)
            left -= part
            references[index].sentBytes += part
            guard unsafe references[index].rest.isEmpty else { break }
            done += 1
        }
        if done == references.count {
            plain += left
            left = 0
        }
        invariant(left == 0, "more was sent than there was")
        for reference in references.prefix(done) { referencedBytes -= unsafe reference.source.bytes.count }
        references.removeFirst(done)
        for index in references.indices { references[index].offset -= plain }
        bytes.consume(plain)
    }
}

/// A place in an output.
struct OutputMark {
    fileprivate let bytes: Int
    fileprivate let references: Int
}

/// What became of sending.
enum SendOutcome {
    /// So many bytes went out; not all, if some are left.
    case sent(Int)
    /// The socket takes nothing now.
    case full
    /// The connection is dead.
    case failed
}

/// Memory for one writev(2), shared by the connections of a worker.
@safe
struct SendVectors: ~Copyable {
    // SAFETY: allocated here, freed in deinit, filled and used within one call of `Output.send`.
    let memory: UnsafeMutableBufferPointer<iovec>
    /// Where small parts are put together to one TLS record.
    // SAFETY: as `memory`, by `Output.send(through:)`.
    let record: UnsafeMutableRawBufferPointer

    /// A vector before and after every reference, and one more.
    init() {
        unsafe memory = .allocate(capacity: 2 * (Output.referencesMax + 64) + 1)
        unsafe record = .allocate(byteCount: Output.recordBytes, alignment: 64)
    }

    deinit {
        unsafe memory.deallocate()
        unsafe record.deallocate()
    }

    /// Sends the first `count` vectors; negative with `errno` set when that failed.
    fileprivate func send(to fd: Int32, count: Int) -> Int {
        var message = unsafe msghdr()
        unsafe message.msg_iov = memory.baseAddress
        unsafe message.msg_iovlen = count
        return unsafe sendmsg(fd, &message, Int32(MSG_NOSIGNAL))
    }
}
