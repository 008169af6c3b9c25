// Replies as values, and their bytes.
//
// One-line replies are a `Reply`; replies with parts (VALUE, STAT, meta) are appended piece by piece, so that a value is
// copied once, from the entry into the output. Nothing here knows of connections or of when bytes are sent.

public import Primitives

/// A reply of one line.
public enum Reply: Equatable, Sendable {
    /// `STORED`
    case stored
    /// `NOT_STORED`
    case notStored
    /// `EXISTS`: the CAS unique differs.
    case exists
    /// `NOT_FOUND`
    case notFound
    /// `DELETED`
    case deleted
    /// `TOUCHED`
    case touched
    /// `OK`
    case ok
    /// `END`, after values, statistics and help.
    case end
    /// `RESET`, to `stats reset`.
    case reset
    /// `MN`, to `mn`.
    case metaNoOperation
    /// The new value of `incr` or `decr`.
    case number(UInt64)
    /// A refusal.
    ///
    /// `binaryProtocol` has no line and adds nothing.
    case error(RequestError)
}

extension ByteBuffer {
    /// Appends a one-line reply with its CR LF.
    public mutating func append(_ reply: Reply) {
        switch reply {
        case .stored: append("STORED\r\n")
        case .notStored: append("NOT_STORED\r\n")
        case .exists: append("EXISTS\r\n")
        case .notFound: append("NOT_FOUND\r\n")
        case .deleted: append("DELETED\r\n")
        case .touched: append("TOUCHED\r\n")
        case .ok: append("OK\r\n")
        case .end: append("END\r\n")
        case .reset: append("RESET\r\n")
        case .metaNoOperation: append("MN\r\n")
        case .number(let number):
            append(decimal: number)
            append("\r\n")
        case .error(let error):
            if error.replyLine.utf8CodeUnitCount > 0 {
                append(error.replyLine)
                append("\r\n")
            }
        }
    }

    /// Appends `VALUE <key> <flags> <count>[ <cas>]` and CR LF.
    ///
    /// The value and another CR LF are the caller's to append.
    public mutating func appendValueHeader(key: UnsafeRawBufferPointer, flags: UInt32, count: Int, cas: UInt64?) {
        append("VALUE ")
        unsafe append(key)
        append(byte: UInt8(ascii: " "))
        append(decimal: UInt64(flags))
        append(byte: UInt8(ascii: " "))
        append(decimal: UInt64(count))
        if let cas {
            append(byte: UInt8(ascii: " "))
            append(decimal: cas)
        }
        append("\r\n")
    }

    /// Appends `STAT <name> <value>` and CR LF.
    public mutating func appendStatistic(_ name: StaticString, _ value: UInt64) {
        append("STAT ")
        append(name)
        append(byte: UInt8(ascii: " "))
        append(decimal: value)
        append("\r\n")
    }

    /// Appends `STAT <name> <value>` and CR LF.
    ///
    /// Not for the request path.
    public mutating func appendStatistic(_ name: String, _ value: String) {
        append("STAT ")
        append(name)
        append(byte: UInt8(ascii: " "))
        append(value)
        append("\r\n")
    }

    /// Appends `VERSION <text>` and CR LF.
    ///
    /// Clients parse three numbers with dots from the front of `text`.
    public mutating func appendVersion(_ text: StaticString) {
        append("VERSION ")
        append(text)
        append("\r\n")
    }

    /// Appends the command table for people, a line for each command, and `END`.
    public mutating func appendHelp() {
        for command in Command.allCases {
            let spec = command.spec
            append(spec.name)
            append(byte: UInt8(ascii: " "))
            append(spec.arguments)
            append(" - ")
            append(spec.summary)
            append("\r\n")
        }
        append(.end)
    }
}
