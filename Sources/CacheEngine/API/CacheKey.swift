// What programs may use as a key, and the refusals that the blocking and async operations share.

/// A key: 1 to 250 bytes, compared byte by byte.
///
/// The cache itself knows nothing of text: a `String` counts and compares as its UTF-8.
public protocol CacheKey: Sendable {
    /// Shows the key's bytes to `body`, once.
    func withKeyBytes<Result: ~Copyable>(_ body: (Span<UInt8>) -> Result) -> Result
}

extension Array: CacheKey where Element == UInt8 {
    /// Shows the array's bytes to `body`.
    public func withKeyBytes<Result: ~Copyable>(_ body: (Span<UInt8>) -> Result) -> Result { body(span) }
}

extension String: CacheKey {
    /// Shows the string's UTF-8 to `body`.
    public func withKeyBytes<Result: ~Copyable>(_ body: (Span<UInt8>) -> Result) -> Result {
        body(utf8Span.span)
    }
}

extension CacheKey {
    /// A copy of the key's bytes.
    // SAFETY: the bytes are copied during the call.
    var keyBytes: [UInt8] { withKeyBytes { unsafe $0.withUnsafeBufferPointer { unsafe Array($0) } } }
}

/// Why something was not stored.
public enum StorageError: Error, Sendable, Equatable, CustomStringConvertible {
    /// Keys have 1 to `Cache.keyBytesMax` bytes; this one has another number. Nothing changed.
    case keyLength(Int)
    /// The data beside the value is longer than `Cache.extendedBytesMax`. Nothing changed.
    case extendedTooLong(bytes: Int)
    /// This cache takes no values of that size, now. The key holds nothing any more: an old value would be stale.
    case valueTooLarge(bytes: Int)
    /// There is neither memory nor disk space for the value. The key holds nothing any more.
    case noRoom
    /// The key's value is not a decimal number below 2^64. Nothing changed.
    case notNumeric
    /// At durability `always`: the disk tier gave its store up before the write was durable. Memory has the value.
    case notDurable

    /// One line for people.
    public var description: String {
        switch self {
        case .keyLength(let bytes): "a key has 1 to \(Cache.keyBytesMax) bytes, not \(bytes)"
        case .extendedTooLong(let bytes): "data beside a value has up to \(Cache.extendedBytesMax) bytes, not \(bytes)"
        case .valueTooLarge(let bytes): "a value of \(bytes) bytes is too large for this cache"
        case .noRoom: "there is no room for the value"
        case .notNumeric: "the value is not a decimal number"
        case .notDurable: "the write did not become durable"
        }
    }
}
