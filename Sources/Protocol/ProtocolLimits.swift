// Every limit that the wire format has, with its unit. Limits of memory and disk are the engine's.

/// What a request may be at most.
///
/// Over a limit there is an error, never a cut.
public struct ProtocolLimits: Equatable, Sendable {
    /// Longest key, in bytes, as sent.
    ///
    /// memcached's clients rely on 250.
    public var keyBytesMax = 250

    /// How many bytes may wait without a line end before the connection is closed.
    public var lineBytesMax = 2048

    /// The same for `get`, `gets`, `gat` and `gats`, whose key list is as long as the client likes.
    public var retrievalLineBytesMax = 1 << 20

    /// Largest value that is stored, in bytes (`max_entry`, `-I`).
    ///
    /// The parser does not refuse larger ones: the session answers, swallows the block and deletes the old value.
    public var valueBytesMax = 64 << 20

    /// Largest length that a storage command may name: 2^31 - 3, memcached's.
    public static let valueBytesNameable = 2_147_483_645

    /// Longest opaque token of a meta command, in bytes, without its letter O.
    public static let opaqueBytesMax = 31

    /// Most words in the line of a meta command, name and key included.
    public static let metaWordsMax = 20

    /// Longest block with name and password, in bytes, without its CR LF.
    ///
    /// Ours: a name of 250 bytes, a space, a password of 511, and some room.
    public static let loginBytesMax = 1024

    /// Longest such block that is read to its end before it is refused; memcached's limit.
    ///
    /// What is longer is not looked at as a block: its bytes are lines without rights.
    public static let loginBytesSkipped = 16_384

    /// memcached's limits, and 64 MiB for a value.
    public init() {}

    /// memcached's limits, with another bound on values.
    public init(valueBytesMax: Int) { self.valueBytesMax = valueBytesMax }
}
