// Replies as values, and their bytes.
//
// One-line replies are a `Reply`; replies with parts (VALUE, STAT, meta) are appended piece by piece, so that a value
// is copied once, from the entry into the output. Nothing here knows of connections or of when bytes are sent.

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
    /// One without a line adds nothing.
    case error(RequestError)
}

extension Reply {
    /// The bytes of a reply that is always the same; empty for the others.
    fileprivate var literal: StaticString {
        switch self {
        case .stored: "STORED\r\n"
        case .notStored: "NOT_STORED\r\n"
        case .exists: "EXISTS\r\n"
        case .notFound: "NOT_FOUND\r\n"
        case .deleted: "DELETED\r\n"
        case .touched: "TOUCHED\r\n"
        case .ok: "OK\r\n"
        case .end: "END\r\n"
        case .reset: "RESET\r\n"
        case .metaNoOperation: "MN\r\n"
        case .number, .error: ""
        }
    }
}

extension ByteBuffer {
    /// Appends a one-line reply with its CR LF.
    public mutating func append(_ reply: Reply) {
        switch reply {
        case .end: append(line: Self.endLinePacked, bytes: 5)
        case .stored: append(line: Self.storedLinePacked, bytes: 8)
        case .number(let number):
            append(decimal: number)
            append("\r\n")
        case .error(let error):
            guard error.replyLine.utf8CodeUnitCount > 0 else { return }
            append(error.replyLine)
            append("\r\n")
        default:
            append(reply.literal)
        }
    }

    /// Appends the first of eight bytes.
    @inline(__always)
    private mutating func append(line: UInt64, bytes: Int) {
        // SAFETY: the room holds all eight.
        unsafe reserve(8).baseAddress?.storeBytes(of: line, as: UInt64.self)
        commit(bytes)
    }

    /// Appends `VALUE <key> <flags> <count>[ <cas>]` and CR LF.
    ///
    /// The value and another CR LF are the caller's to append.
    public mutating func appendValueHeader(key: UnsafeRawBufferPointer, flags: UInt32, count: Int, cas: UInt64?) {
        // SAFETY: the room holds the key and every number at its longest; all positions stay below that sum.
        let room = unsafe reserve(key.count &+ Self.valueHeaderBytesMax)
        unsafe room.copyBytes(from: UnsafeRawBufferPointer(start: Self.valueWord.utf8Start, count: 6))
        unsafe UnsafeMutableRawBufferPointer(rebasing: room[6...]).copyBytes(from: key)
        var position = 6 &+ key.count
        unsafe position.write(UInt64(flags), to: room)
        unsafe position.write(UInt64(count), to: room)
        if let cas { unsafe position.write(cas, to: room) }
        unsafe room[position] = UInt8(ascii: "\r")
        unsafe room[position &+ 1] = UInt8(ascii: "\n")
        commit(position &+ 2)
    }

    /// Appends `VALUE <key> <flags> <count>`, the value, and if it `isLast` the `END` of the retrieval, with one look
    /// for room.
    public mutating func appendValueBlock(
        key: UnsafeRawBufferPointer, flags: UInt32, value: UnsafeRawBufferPointer, isLast: Bool
    ) {
        // SAFETY: the room holds key, value, every number at its longest, and END; all positions stay below that sum.
        let room = unsafe reserve(key.count &+ value.count &+ Self.valueHeaderBytesMax &+ 7)
        guard let base = room.baseAddress else { return }
        unsafe base.storeBytes(of: Self.valueWordPacked, as: UInt64.self)
        unsafe UnsafeMutableRawBufferPointer(rebasing: room[6...]).copyMemory(from: key)
        var position = 6 &+ key.count
        unsafe position.write(UInt64(flags), to: room)
        unsafe position.write(UInt64(value.count), to: room)
        unsafe (base + position).storeBytes(of: Self.lineEndPacked, as: UInt16.self)
        position &+= 2
        unsafe UnsafeMutableRawBufferPointer(rebasing: room[position...]).copyMemory(from: value)
        position &+= value.count
        unsafe (base + position).storeBytes(of: Self.lineEndPacked, as: UInt16.self)
        position &+= 2
        if isLast {
            // Five bytes; the three behind them are overwritten later.
            unsafe (base + position).storeBytes(of: Self.endLinePacked, as: UInt64.self)
            position &+= 5
        }
        commit(position)
    }

    /// `VALUE ` and two bytes that the key overwrites.
    private static var valueWordPacked: UInt64 { packed("VALUE ").littleEndian }
    private static var lineEndPacked: UInt16 { UInt16(0x0A0D).littleEndian }
    private static var storedLinePacked: UInt64 { packed("STORED\r\n").littleEndian }
    private static var endLinePacked: UInt64 { packed("END\r\n").littleEndian }

    private static var valueWord: StaticString { "VALUE " }

    /// `VALUE `, three numbers of up to twenty digits with a space before each, and CR LF.
    private static var valueHeaderBytesMax: Int { 6 + 3 * 21 + 2 }

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
            if spec.arguments.utf8CodeUnitCount > 0 { append(byte: UInt8(ascii: " ")) }
            append(spec.arguments)
            append(" - ")
            append(spec.summary)
            append("\r\n")
        }
        append(.end)
    }
}

extension Int {
    /// Writes a space and `number` at this position of `room`, and moves the position behind them.
    @inline(__always)
    fileprivate mutating func write(_ number: UInt64, to room: UnsafeMutableRawBufferPointer) {
        // SAFETY: the caller has left 21 bytes.
        unsafe room[self] = UInt8(ascii: " ")
        let digits = unsafe writeDecimal(number, to: UnsafeMutableRawBufferPointer(rebasing: room[(self &+ 1)...]))
        self &+= 1 &+ digits
    }
}
