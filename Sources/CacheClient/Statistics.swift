// What a server's `stats` said: names and values in the server's order. Values stay text until somebody asks for a
// number; names that a server does not send are nil, never zero.

/// The reply to one `stats` command.
public struct Statistics: Equatable, Sendable {
    /// One line.
    public struct Entry: Equatable, Sendable {
        /// As the server wrote it.
        public let name: String
        /// As the server wrote it; may be empty.
        public let value: String
    }

    /// All lines, in order.
    public let entries: [Entry]
    private let values: [String: String]

    /// Makes statistics from lines; of several with one name the last counts.
    public init(_ lines: [(name: String, value: String)]) {
        entries = lines.map { Entry(name: $0.name, value: $0.value) }
        values = Dictionary(lines.map { ($0.name, $0.value) }) { $1 }
    }

    /// The value as text, or nil if the server did not send it.
    public subscript(name: String) -> String? { values[name] }

    /// The value as a whole number, or nil if it is absent or none.
    public func integer(_ name: String) -> Int? { values[name].flatMap { Int($0) } }

    /// The value as a number, or nil if it is absent or none.
    public func number(_ name: String) -> Double? { values[name].flatMap { Double($0) } }
}
