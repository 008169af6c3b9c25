// Handing a value that is not Sendable from one thread to another.

/// A value that one thread makes and another uses: the owner says which, and when it passes over.
///
/// `@unchecked Sendable` because the hand-over is a promise of the owner's, not something the type can check. The owner
/// writes beside each use which thread may touch the value.
public struct Confined<Value>: @unchecked Sendable {
    /// The value.
    ///
    /// Only for the thread that owns it now.
    public let value: Value

    /// Wraps `value` for the hand-over.
    public init(_ value: Value) { self.value = value }
}
