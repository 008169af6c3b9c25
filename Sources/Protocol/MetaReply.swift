// The replies of meta commands.
//
//     HD t30 c5 kfoo O77 W          a status, what was asked for in the order of the request, then the server's marks
//     VA 5 t30<CRLF>hello<CRLF>     the same with a value; the value and its CR LF are the caller's to append
//
// What a reply lacks is left out: on a miss only the key and the opaque come back.

public import Primitives

/// How a meta reply begins.
public enum MetaStatus: Equatable, Sendable {
    /// `HD`: done, or a hit without value.
    case done
    /// `VA <bytes>`: a value follows the line.
    case value(bytes: Int)
    /// `EN`: `mg` or `me` missed.
    case miss
    /// `NF`: there is no such entry.
    case notFound
    /// `NS`: not stored.
    case notStored
    /// `EX`: the CAS unique differs.
    case exists
}

/// What is known of an entry, for the letters that a client asked for.
///
/// What is nil is left out.
public struct MetaAttributes: Equatable, Sendable {
    /// `c`: the CAS unique.
    public var unique: UInt64?
    /// `f`: the client flags.
    public var clientFlags: UInt32?
    /// `h`: whether it was hit before this request.
    public var wasHit: Bool?
    /// `l`: seconds since the last access before this one.
    public var lastAccessSeconds: UInt64?
    /// `s`: bytes of the value.
    public var valueBytes: Int?
    /// `t`: the time to live that is left.
    public var ttl: MetaTTL?
    /// `Z`: another client has won the right to recache.
    public var isWonByOther = false
    /// `X`: the entry is stale.
    public var isStale = false
    /// `W`: this client has won the right to recache.
    public var isWon = false

    /// Nothing known: a miss.
    public init() {}
}

/// The time to live that a meta reply tells.
public enum MetaTTL: Equatable, Sendable {
    /// Does not expire; sent as -1.
    case unlimited
    /// Seconds left, 0 if it has just ended.
    case seconds(UInt64)
}

/// A key as it goes into a meta reply.
@safe
public struct MetaReplyKey {
    // SAFETY: used only while the caller's `append` call runs.
    let bytes: UnsafeRawBufferPointer
    let isBinary: Bool

    /// The key `bytes`, decoded if it came as base64; `isBinary` if it must be sent as base64.
    public init(_ bytes: UnsafeRawBufferPointer, isBinary: Bool) {
        unsafe self.bytes = unsafe bytes
        self.isBinary = isBinary
    }
}

extension ByteBuffer {
    /// Appends the line of a meta reply with its CR LF.
    ///
    /// - Parameters:
    ///   - status: How the line begins.
    ///   - returns: The letters to return, in order.
    ///   - key: The key, for `k`.
    ///   - opaque: The client's token without its letter, for `O`.
    ///   - attributes: What is known of the entry.
    public mutating func appendMeta(
        _ status: MetaStatus, returns: MetaReturnOrder, key: MetaReplyKey, opaque: UnsafeRawBufferPointer,
        _ attributes: MetaAttributes
    ) {
        appendMetaStatus(status)
        for letter in returns {
            switch letter {
            case UInt8(ascii: "k"):
                append(" k")
                appendMetaKey(key)
                if key.isBinary { append(" b") }
            case UInt8(ascii: "O"):
                append(" O")
                unsafe append(opaque)
            default: appendMetaAttribute(letter, attributes)
            }
        }
        // memcached's order.
        if attributes.isWonByOther { append(" Z") }
        if attributes.isStale { append(" X") }
        if attributes.isWon { append(" W") }
        append("\r\n")
    }

    /// Appends the reply to `me` for an entry.
    ///
    /// `totalBytes` is what the entry takes in memory; `cls` is always 1, because there are no slab classes here.
    public mutating func appendMetaInspection(key: MetaReplyKey, _ attributes: MetaAttributes, totalBytes: Int) {
        append("ME ")
        appendMetaKey(key)
        append(" exp=")
        append(attributes.ttl ?? .unlimited)
        append(" la=")
        append(decimal: attributes.lastAccessSeconds ?? 0)
        append(" cas=")
        append(decimal: attributes.unique ?? 0)
        append(attributes.wasHit == true ? " fetch=yes" : " fetch=no")
        append(" cls=1 size=")
        append(decimal: UInt64(totalBytes))
        append("\r\n")
    }

    private mutating func appendMetaStatus(_ status: MetaStatus) {
        switch status {
        case .done: append("HD")
        case .miss: append("EN")
        case .notFound: append("NF")
        case .notStored: append("NS")
        case .exists: append("EX")
        case .value(let bytes):
            append("VA ")
            append(decimal: UInt64(bytes))
        }
    }

    private mutating func appendMetaAttribute(_ letter: UInt8, _ attributes: MetaAttributes) {
        let number: UInt64? =
            switch letter {
            case UInt8(ascii: "c"): attributes.unique
            case UInt8(ascii: "f"): attributes.clientFlags.map { UInt64($0) }
            case UInt8(ascii: "h"): attributes.wasHit.map { $0 ? 1 : 0 }
            case UInt8(ascii: "l"): attributes.lastAccessSeconds
            case UInt8(ascii: "s"): attributes.valueBytes.map { UInt64($0) }
            default: nil
            }
        if let number {
            append(byte: UInt8(ascii: " "))
            append(byte: letter)
            append(decimal: number)
        } else if letter == UInt8(ascii: "t"), let ttl = attributes.ttl {
            append(" t")
            append(ttl)
        }
    }

    private mutating func append(_ ttl: MetaTTL) {
        switch ttl {
        case .unlimited: append("-1")
        case .seconds(let seconds): append(decimal: seconds)
        }
    }

    private mutating func appendMetaKey(_ key: MetaReplyKey) {
        if key.isBinary {
            unsafe append(base64: key.bytes)
        } else {
            unsafe append(key.bytes)
        }
    }
}
