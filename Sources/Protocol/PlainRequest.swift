// The two requests of which a cache's day is made, in the form in which nearly all clients send them:
//
//     get <key> CR LF                set <key> <flags> <exptime> <bytes> CR LF
//
// One look at each byte of the line, no search for its end first. It accepts only what has exactly this form - single
// spaces, one key, plain numbers of up to nine digits, no `noreply`, the line end at hand - and means the same as
// `RequestParser.parse` for it; everything else it leaves to that, mistakes included. No I/O, no allocation.

/// A plain `get` or `set`; its key begins at `keyStart`.
public struct PlainRequest: Sendable {
    /// Length of the line with its line end; 0: the request is not plain, or its line has not come whole.
    public var lineBytes: UInt32 = 0
    /// Length of the key.
    public var keyBytes: UInt32 = 0
    /// The client's flags of a store.
    public var flags: UInt32 = 0
    /// The number that a store has for its expiry, below 10^9.
    public var exptime: UInt32 = 0
    /// Length of the value of a store, below 10^9.
    public var valueBytes: UInt32 = 0
    /// Whether this is a `set`.
    public var isStore = false

    /// Where the key of a plain request begins.
    public static var keyStart: Int { 4 }

    /// No request.
    public static var none: PlainRequest { PlainRequest() }
}

extension RequestParser {
    /// Parses the request at the front of `input` if it is plain.
    ///
    /// Nothing has happened if it is not: call `parse` then.
    public mutating func parsePlain(_ input: UnsafeRawBufferPointer) -> PlainRequest {
        // SAFETY: the view is used during this call only, and checks every access.
        let input = unsafe Input(input)
        guard input.count >= 8 else { return .none }
        let name = input.packed(from: 0, count: 4)
        let isStore = name == packed("set ")
        guard isStore || name == packed("get ") else { return .none }
        var position = input.endOfWord(from: PlainRequest.keyStart)
        let keyBytes = position &- PlainRequest.keyStart
        guard keyBytes > 0, keyBytes <= limits.keyBytesMax else { return .none }
        var request = PlainRequest()
        if isStore {
            guard let flags = input.plainNumber(&position), let exptime = input.plainNumber(&position),
                let valueBytes = input.plainNumber(&position)
            else { return .none }
            request.flags = flags
            request.exptime = exptime
            request.valueBytes = valueBytes
            request.isStore = true
        }
        guard position &+ 2 <= input.count, input[position] == UInt8(ascii: "\r"),
            input[position &+ 1] == UInt8(ascii: "\n")
        else { return .none }
        request.keyBytes = UInt32(truncatingIfNeeded: keyBytes)
        request.lineBytes = UInt32(truncatingIfNeeded: position &+ 2)
        noteLine()
        return request
    }
}

extension Input {
    /// A space and a number of one to nine digits at `position`, which moves behind them; nil if it is not there.
    @inline(__always)
    fileprivate func plainNumber(_ position: inout Int) -> UInt32? {
        guard position < count, self[position] == UInt8(ascii: " ") else { return nil }
        let start = position &+ 1
        let end = min(start &+ 9, count)
        var number: UInt32 = 0
        var next = start
        while next < end {
            let digit = self[next] &- UInt8(ascii: "0")
            if digit > 9 { break }
            number = number &* 10 &+ UInt32(digit)
            next &+= 1
        }
        if next == start { return nil }
        position = next
        return number
    }
}
