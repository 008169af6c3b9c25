// The conversation before authentication: `set <any> <any> <any> <bytes>`, then a block `name password`.
//
// Only that, and `quit`, is understood; everything else is memcached's `CLIENT_ERROR unauthenticated`, whatever it is,
// so that nothing can be learnt or made to work. See try_read_command_asciiauth in memcached's proto_text.c. Pure, as
// the rest of this module: what a right name and password is, others know.

/// What the front of the input is before authentication.
public enum LoginResult: Equatable, Sendable {
    /// No whole line yet.
    case incomplete
    /// The line that announces a block of so many bytes and CR LF.
    case announced(bytes: Int, lineBytes: Int)
    /// `quit`.
    case quit(lineBytes: Int)
    /// Another line: drop it, answer the error, then drop the next `swallowBytes` of input.
    case refused(RequestError, lineBytes: Int, swallowBytes: Int)
    /// Answer the error's line, if it has one, and close.
    case fatal(RequestError)
}

/// The parts of a block with name and password.
public struct LoginToken: Equatable, Sendable {
    /// The bytes before the first space.
    public let name: [UInt8]
    /// The bytes after it, spaces included.
    public let password: [UInt8]

    /// Splits a block, without its CR LF; nil if it has no space.
    public init?(_ block: some Collection<UInt8>) {
        guard let space = block.firstIndex(of: UInt8(ascii: " ")) else { return nil }
        name = Array(block[..<space])
        password = Array(block[block.index(after: space)...])
    }
}

extension RequestParser {
    /// Parses the line at the front of `input`, of a client that has not authenticated itself.
    ///
    /// The cost is linear in the bytes that wait, of which there are at most `lineBytesMax`.
    public mutating func parseLogin(_ input: UnsafeRawBufferPointer) -> LoginResult {
        // SAFETY: the view is used during this call only, and checks every access.
        let input = unsafe Input(input)
        guard input.count > 0 else { return .incomplete }
        if beginsBinary(input) { return .fatal(.binaryProtocol) }
        let searchMax = min(input.count, limits.lineBytesMax)
        guard let lineFeed = input.first(UInt8(ascii: "\n"), from: 0, to: searchMax) else {
            return input.count > limits.lineBytesMax ? .fatal(.lineTooLong) : .incomplete
        }
        let hasCarriageReturn = lineFeed > 0 && input[lineFeed &- 1] == UInt8(ascii: "\r")
        return Self.login(input, textEnd: hasCarriageReturn ? lineFeed &- 1 : lineFeed, lineBytes: lineFeed &+ 1)
    }

    private static func login(_ input: Input, textEnd: Int, lineBytes: Int) -> LoginResult {
        var words = Words(input, from: 0, to: textEnd)
        guard let command = words.next() else {
            return .refused(.unauthenticated, lineBytes: lineBytes, swallowBytes: 0)
        }
        if command.count == 4, input.matches("quit", at: command.start) { return .quit(lineBytes: lineBytes) }
        guard command.start == 0, command.count == 3, input.matches("set", at: 0), words.next() != nil,
            words.next() != nil, words.next() != nil, let bytesWord = words.next(),
            let bytes = input.unsigned32(bytesWord)
        else { return .refused(.unauthenticated, lineBytes: lineBytes, swallowBytes: 0) }
        if bytes <= ProtocolLimits.loginBytesMax { return .announced(bytes: Int(bytes), lineBytes: lineBytes) }
        let swallowBytes = bytes <= ProtocolLimits.loginBytesSkipped ? Int(bytes) + 2 : 0
        return .refused(.authenticationTokenTooLong, lineBytes: lineBytes, swallowBytes: swallowBytes)
    }
}
