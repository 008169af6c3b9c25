// Bytes in, requests out.

/// Parses the requests of one connection.
public struct RequestParser: Sendable {
    private let limits: ProtocolLimits

    /// A parser at the start of a connection.
    public init(limits: ProtocolLimits) { self.limits = limits }

    /// Parses the request at the front of `input`, which begins at the next unparsed byte.
    public mutating func parse(_ input: UnsafeRawBufferPointer) -> ParseResult { .incomplete }
}
