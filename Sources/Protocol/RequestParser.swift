// Bytes in, requests out: framing, and the choice of who reads the words of a line.
//
//     input:  s e t   k   0   0   5 \r \n h e l l o \r \n g e t ...
//             |------ line, lineBytes ---|-- the caller's --|-- the next call begins here
//
// A line ends at the first LF; one CR before it is dropped. Data blocks are not read here: the caller takes them off
// the input by the length that the line names. The parser keeps nothing but how far it has searched for a line end, so
// a line that trickles in byte by byte costs one look at each byte. It does no I/O, knows no clock and allocates
// nothing.

/// Parses the requests of one connection.
///
/// Owned by that connection; not thread-safe.
public struct RequestParser: Sendable {
    let limits: ProtocolLimits
    /// Bytes at the front of the input that are known to hold no LF.
    private var searchedBytes = 0
    /// Whether the connection has begun, so that its first byte no longer chooses the protocol.
    private var hasBegun = false

    /// A parser for a connection that begins.
    public init(limits: ProtocolLimits) { self.limits = limits }

    /// Parses the request at the front of `input`, which begins at the next unparsed byte.
    ///
    /// After `.incomplete` the next call must bring the same bytes with more behind them; after anything else, what
    /// follows the line and its data block. Ranges in the result count from the first byte of `input`. The cost is
    /// linear in the line's length.
    public mutating func parse(_ input: UnsafeRawBufferPointer) -> ParseResult {
        // SAFETY: the view is used during this call only, and checks every access.
        let input = unsafe Input(input)
        guard input.count > 0 else { return .incomplete }
        if beginsBinary(input) { return .fatal(.binaryProtocol) }
        let searchMax = min(input.count, max(limits.lineBytesMax, limits.retrievalLineBytesMax))
        let start = searchedBytes <= searchMax ? searchedBytes : 0
        guard let lineFeed = input.first(UInt8(ascii: "\n"), from: start, to: searchMax) else {
            return incomplete(input, searched: searchMax)
        }
        searchedBytes = 0
        let hasCarriageReturn = lineFeed > 0 && input[lineFeed &- 1] == UInt8(ascii: "\r")
        let line = CommandLine(
            input, textEnd: hasCarriageReturn ? lineFeed &- 1 : lineFeed, lineBytes: lineFeed &+ 1, limits: limits)
        return line.parse()
    }

    /// A whole line was found without a search.
    @inline(__always)
    mutating func noteLine() {
        searchedBytes = 0
        hasBegun = true
    }

    /// Whether this is a connection's first byte, and the binary protocol's.
    @inline(__always)
    mutating func beginsBinary(_ input: Input) -> Bool {
        if hasBegun { return false }
        hasBegun = input[0] != Self.binaryMagic
        return !hasBegun
    }

    /// First byte of every request of the binary protocol.
    private static let binaryMagic: UInt8 = 0x80

    /// No line end yet: wait, unless the line is longer than a line may be.
    private mutating func incomplete(_ input: Input, searched: Int) -> ParseResult {
        searchedBytes = searched
        guard input.count > limits.lineBytesMax else { return .incomplete }
        let isRetrieval =
            input.matches("get ", at: 0) || input.matches("gets ", at: 0)
            || input.matches("gat ", at: 0) || input.matches("gats ", at: 0)
        if isRetrieval, input.count < limits.retrievalLineBytesMax { return .incomplete }
        return .fatal(.lineTooLong)
    }
}
