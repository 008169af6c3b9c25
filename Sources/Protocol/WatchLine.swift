// The lines that `watch` sends, in memcached's format: names and order of fields as its logger.c has them.
//
// A line is `ts=<seconds>.<microseconds> gid=<number> type=<kind> ...` and a bare LF. The hub that numbers lines writes
// the beginning; here is what follows it. Keys are URI-encoded, so that no key can forge a line. All entries are of
// size class 1.

public import Primitives

/// What a look at a key found.
public enum FetchStatus: Sendable {
    /// No entry.
    case notFound
    /// An entry.
    case found
}

/// What became of an attempt to store.
public enum StoreStatus: Sendable {
    /// The mode's condition did not hold.
    case notStored
    /// Stored.
    case stored
    /// Another CAS unique.
    case exists
    /// No entry to compare with.
    case notFound
    /// The value is over the limit.
    case tooLarge
    /// No room.
    case noMemory

    fileprivate var word: StaticString {
        switch self {
        case .notStored: "not_stored"
        case .stored: "stored"
        case .exists: "exists"
        case .notFound: "not_found"
        case .tooLarge: "too_large"
        case .noMemory: "no_memory"
        }
    }
}

/// Why a connection ended.
public enum CloseReason: Sendable {
    /// The client broke the protocol, or the connection failed.
    case error
    /// The client closed it.
    case normal
    /// It was silent, or took no replies, for too long.
    case idleTimeout
    /// The server stops.
    case shutdown

    fileprivate var word: StaticString {
        switch self {
        case .error: "error"
        case .normal: "normal"
        case .idleTimeout: "idle_timeout"
        case .shutdown: "shutdown"
        }
    }
}

/// The client's end of a connection, as log lines name it.
public struct WatchedPeer: Sendable, Equatable {
    /// The numeric address; `unix` for a Unix socket.
    public var host: String
    /// The TCP port; nil for a Unix socket, and when it is not known any more.
    public var port: Int?
    /// The connection's descriptor.
    public var descriptor: Int32

    /// Makes a peer from its parts.
    public init(host: String, port: Int?, descriptor: Int32) {
        self.host = host
        self.port = port
        self.descriptor = descriptor
    }
}

extension ByteBuffer {
    /// Appends `ts=... gid=... `, the beginning of every line.
    public mutating func appendWatchPrefix(milliseconds: Int64, number: UInt64) {
        let time = UInt64(max(0, milliseconds))
        append("ts=")
        append(decimal: time / 1000)
        append(byte: UInt8(ascii: "."))
        let fraction = time % 1000
        append(byte: UInt8(ascii: "0") + UInt8(fraction / 100))
        append(byte: UInt8(ascii: "0") + UInt8(fraction / 10 % 10))
        append(byte: UInt8(ascii: "0") + UInt8(fraction % 10))
        append("000 gid=")
        append(decimal: number)
        append(byte: UInt8(ascii: " "))
    }

    /// Appends `type=item_get ...`.
    public mutating func appendWatchedFetch(
        key: UnsafeRawBufferPointer, _ status: FetchStatus, descriptor: Int32, valueBytes: Int
    ) {
        append("type=item_get key=")
        unsafe append(uriEncoded: key)
        append(status == .found ? " status=found clsid=1" : " status=not_found clsid=0")
        appendField(" cfd=", Int64(descriptor))
        appendField(" size=", Int64(valueBytes))
    }

    /// Appends `type=item_store ...`; `timeToLive` is in seconds, 0 for never.
    public mutating func appendWatchedStore(
        key: UnsafeRawBufferPointer, _ status: StoreStatus, command: StaticString, timeToLive: Int64,
        descriptor: Int32, valueBytes: Int
    ) {
        append("type=item_store key=")
        unsafe append(uriEncoded: key)
        append(" status=")
        append(status.word)
        append(" cmd=")
        append(command)
        appendField(" ttl=", timeToLive)
        append(" clsid=1")
        appendField(" cfd=", Int64(descriptor))
        appendField(" size=", Int64(valueBytes))
    }

    /// Appends `type=deleted ...`.
    public mutating func appendWatchedDeletion(
        key: UnsafeRawBufferPointer, command: StaticString, valueBytes: Int
    ) {
        append("type=deleted key=")
        unsafe append(uriEncoded: key)
        append(" cmd=")
        append(command)
        append(" clsid=1")
        appendField(" size=", Int64(valueBytes))
    }

    /// Appends `type=eviction ...`; `timeToLive` is in seconds, -1 for never.
    public mutating func appendWatchedEviction(
        key: UnsafeRawBufferPointer, wasFetched: Bool, timeToLive: Int64, idleSeconds: Int64, valueBytes: Int
    ) {
        append("type=eviction key=")
        unsafe append(uriEncoded: key)
        append(wasFetched ? " fetch=yes" : " fetch=no")
        appendField(" ttl=", timeToLive)
        appendField(" la=", idleSeconds)
        append(" clsid=1")
        appendField(" size=", Int64(valueBytes))
    }

    /// Appends `type=conn_new ...` (nil) or `type=conn_close ...`.
    public mutating func appendWatchedConnection(_ peer: WatchedPeer, closed reason: CloseReason?) {
        append(reason == nil ? "type=conn_new rip=" : "type=conn_close rip=")
        append(peer.host)
        appendField(" rport=", Int64(peer.port ?? 0))
        append(peer.host == "unix" ? " transport=local" : " transport=tcp")
        if let reason {
            append(" reason=")
            append(reason.word)
        }
        appendField(" cfd=", Int64(peer.descriptor))
    }

    /// Appends `<<descriptor> <line>`: a request's line as it came, but for bytes that are not printable.
    public mutating func appendWatchedRequest(_ line: UnsafeRawBufferPointer, descriptor: Int32) {
        append(byte: UInt8(ascii: "<"))
        append(decimal: UInt64(max(0, descriptor)))
        append(byte: UInt8(ascii: " "))
        // SAFETY: the buffer's own indices.
        for index in line.indices {
            let byte = unsafe line[index]
            if byte >= 0x20, byte < 0x7F { append(byte: byte) } else { append(uriEscape: byte) }
        }
    }

    private mutating func appendField(_ name: StaticString, _ value: Int64) {
        append(name)
        if value < 0 { append(byte: UInt8(ascii: "-")) }
        append(decimal: value.magnitude)
    }
}

extension ByteBuffer {
    /// Appends bytes as memcached encodes keys for tools: letters, digits and `-._~` as they are, the rest as `%XX`.
    public mutating func append(uriEncoded bytes: UnsafeRawBufferPointer) {
        // SAFETY: the buffer's own indices.
        for index in bytes.indices {
            let byte = unsafe bytes[index]
            if Self.isUnreserved(byte) { append(byte: byte) } else { append(uriEscape: byte) }
        }
    }

    private mutating func append(uriEscape byte: UInt8) {
        append(byte: UInt8(ascii: "%"))
        append(byte: Self.hexadecimal(byte >> 4))
        append(byte: Self.hexadecimal(byte & 15))
    }

    private static func hexadecimal(_ digit: UInt8) -> UInt8 {
        digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "A") + digit - 10
    }

    /// RFC 3986, section 2.3.
    private static func isUnreserved(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
            UInt8(ascii: "~"):
            true
        default: false
        }
    }
}
