// What the operations of a cache are asked and answer. Values, no behaviour.

public import Primitives

/// How a draft is to be stored.
public enum WriteMode: Equatable, Sendable {
    /// Whatever the key holds now.
    case set
    /// Only if the key holds nothing.
    case add
    /// Only if the key holds something.
    case replace
    /// The draft's bytes go behind the present value; flags and deadline stay.
    case append
    /// The draft's bytes go before the present value; flags and deadline stay.
    case prepend
    /// Only if the entry's CAS id is still this one.
    case compare(cas: UInt64)
}

/// What else is asked of a store, beyond its mode: the meta commands' wishes.
public struct StoreTerms: Equatable, Sendable {
    /// The CAS id that the present entry must have; an older one is refused, or marks the new value stale.
    public var compare: UInt64?
    /// With a `compare` below the present id: store all the same, marked stale, with the old deadline and win mark.
    public var marksStaleIfOlder = false
    /// The CAS id that the new value gets, instead of the next one.
    public var explicitCAS: UInt64?
    /// Append and prepend: store the bytes as a new entry with this deadline if the key holds nothing.
    public var vivify: Instant?
    /// The key is shown in base64.
    public var hasBinaryKey = false

    /// No wishes.
    public init() {}
}

/// What else is asked of `Cache.arithmetic`.
public struct NumberTerms: Equatable, Sendable {
    /// The CAS id that the present entry must have.
    public var compare: UInt64?
    /// The CAS id that the new value gets, instead of the next one.
    public var explicitCAS: UInt64?
    /// A new deadline.
    public var deadline: Instant?
    /// The number to store, and its deadline, if the key holds nothing.
    public var initial: UInt64?
    /// See `initial`.
    public var initialDeadline = Instant.never
    /// The key is shown in base64, if the entry is made.
    public var hasBinaryKey = false

    /// No wishes.
    public init() {}
}

/// Why an operation could not be finished without waiting.
///
/// See `Cache.overcome`.
public enum Obstacle: Equatable, Sendable {
    /// What the key holds is only known on disk.
    case entryOnDisk
    /// The entry is known, but its value is in a file, and must be in memory.
    case valueOnDisk
    /// The draft's value must first be written to its file.
    case valueFile
    /// The journal has no room until the disk writer has drained some of it.
    case journalFull
}

/// Answer of a retrieval.
public enum Lookup: Equatable, Sendable {
    /// The entry was shown.
    case hit
    /// The key is in neither tier.
    case miss
    /// Only the disk knows: call `Cache.load`.
    case unresolved
}

/// Answer of `Cache.store`.
public enum StoreOutcome: Equatable, Sendable {
    /// Stored; the id is the entry's new CAS id.
    case stored(cas: UInt64)
    /// The mode's condition did not hold.
    case notStored
    /// The entry has another CAS id.
    case exists
    /// Compared, but the key holds nothing.
    case notFound
    /// There is neither memory nor disk space for the value; the key holds nothing now. Also the answer of a condition
    /// on a streamed value that a flush overtook; the key holds what it held then.
    case noRoom
    /// Nothing happened yet; overcome the obstacle and store the same draft again.
    case unresolved(Obstacle)
}

/// Answer of `Cache.delete`.
public enum DeleteOutcome: Equatable, Sendable {
    /// The key held an entry, or the deletion was blind.
    case deleted
    /// The key held nothing.
    case notFound
    /// The entry has another CAS id.
    case exists
    /// Nothing happened yet.
    case unresolved(Obstacle)
}

/// Answer of `Cache.touch`.
public enum TouchOutcome: Equatable, Sendable {
    /// The entry has the new deadline.
    case touched
    /// The entry is another version.
    case exists
    /// The key held nothing.
    case notFound
    /// Nothing happened yet.
    case unresolved(Obstacle)
}

/// Answer of `Cache.arithmetic`.
public enum ArithmeticOutcome: Equatable, Sendable {
    /// The new number.
    case value(UInt64)
    /// The key held nothing.
    case notFound
    /// The entry has another CAS id.
    case exists
    /// The value is not a decimal number below 2^64.
    case notNumeric
    /// Nothing happened yet.
    case unresolved(Obstacle)
}
