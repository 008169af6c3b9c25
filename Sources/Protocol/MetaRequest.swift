// A parsed meta command (`mn mg ms md ma me`): fixed fields for the flags, and the order of the flags to return.
//
// Numbers keep their raw form and `flags` says which of them were given, so that the value stays small: it is part of
// `Request`, which every classic command passes through too. See memcached's doc/protocol.txt, "Meta Commands".

/// The letters that came with a meta command, one bit each.
public struct MetaFlags: OptionSet, Sendable {
    /// Bit n is the letter with code 64 + n.
    public let rawValue: UInt64

    /// The set with these bits.
    @inline(__always)
    public init(rawValue: UInt64) { self.rawValue = rawValue }

    /// The set with this one letter, an ASCII letter.
    @inline(__always)
    public init(letter: UInt8) { rawValue = letter > 64 && letter < 128 ? 1 << UInt64(letter &- 64) : 0 }

    /// `b`: the key is base64.
    public static var base64Key: MetaFlags { MetaFlags(letter: UInt8(ascii: "b")) }
    /// `c`: return the CAS unique.
    public static var returnUnique: MetaFlags { MetaFlags(letter: UInt8(ascii: "c")) }
    /// `f`: return the client flags.
    public static var returnFlags: MetaFlags { MetaFlags(letter: UInt8(ascii: "f")) }
    /// `h`: return whether the entry was hit before.
    public static var returnHitBefore: MetaFlags { MetaFlags(letter: UInt8(ascii: "h")) }
    /// `k`: return the key.
    public static var returnKey: MetaFlags { MetaFlags(letter: UInt8(ascii: "k")) }
    /// `l`: return the seconds since the last access.
    public static var returnLastAccess: MetaFlags { MetaFlags(letter: UInt8(ascii: "l")) }
    /// `O`: return the opaque token.
    public static var opaque: MetaFlags { MetaFlags(letter: UInt8(ascii: "O")) }
    /// `q`: no reply in the nominal case.
    public static var quiet: MetaFlags { MetaFlags(letter: UInt8(ascii: "q")) }
    /// `s`: return the size of the value.
    public static var returnSize: MetaFlags { MetaFlags(letter: UInt8(ascii: "s")) }
    /// `t`: return the time to live that is left.
    public static var returnTTL: MetaFlags { MetaFlags(letter: UInt8(ascii: "t")) }
    /// `u`: leave recency, hit mark and access time alone.
    public static var noBump: MetaFlags { MetaFlags(letter: UInt8(ascii: "u")) }
    /// `v`: return the value.
    public static var returnValue: MetaFlags { MetaFlags(letter: UInt8(ascii: "v")) }
    /// `x`: replace the value by an empty one instead of deleting the entry.
    public static var removeValue: MetaFlags { MetaFlags(letter: UInt8(ascii: "x")) }
    /// `I`: mark the entry stale.
    public static var invalidate: MetaFlags { MetaFlags(letter: UInt8(ascii: "I")) }
    /// `T`, `N`, `R`, `F`, `C`, `E`, `D`, `J`, `M`: a token was given.
    public static var ttl: MetaFlags { MetaFlags(letter: UInt8(ascii: "T")) }
    /// `N`: create the entry on a miss.
    public static var vivify: MetaFlags { MetaFlags(letter: UInt8(ascii: "N")) }
    /// `R`: win the right to recache when little time is left.
    public static var recache: MetaFlags { MetaFlags(letter: UInt8(ascii: "R")) }
    /// `F`: client flags to store.
    public static var clientFlags: MetaFlags { MetaFlags(letter: UInt8(ascii: "F")) }
    /// `C`: compare the CAS unique first.
    public static var compare: MetaFlags { MetaFlags(letter: UInt8(ascii: "C")) }
    /// `E`: CAS unique to give.
    public static var newUnique: MetaFlags { MetaFlags(letter: UInt8(ascii: "E")) }
    /// `D`: amount of an arithmetic command.
    public static var delta: MetaFlags { MetaFlags(letter: UInt8(ascii: "D")) }
    /// `J`: first value of an arithmetic command on a miss.
    public static var initial: MetaFlags { MetaFlags(letter: UInt8(ascii: "J")) }
    /// `M`: mode switch.
    public static var mode: MetaFlags { MetaFlags(letter: UInt8(ascii: "M")) }
}

/// The letters to return, in the order of the request: at most eight of `c f h k l O s t`, one byte each.
public struct MetaReturnOrder: Equatable, Sendable, Sequence, IteratorProtocol {
    private var letters: UInt64 = 0

    /// Nothing to return.
    public init() {}

    /// Puts `letter` behind the others.
    ///
    /// The eight letters fit; none comes twice.
    @inline(__always)
    mutating func append(_ letter: UInt8) {
        let used = (64 - letters.leadingZeroBitCount + 7) / 8
        letters |= UInt64(letter) << UInt64(used * 8)
    }

    /// Takes the first letter out, as an ASCII code.
    @inline(__always)
    public mutating func next() -> UInt8? {
        guard letters != 0 else { return nil }
        let letter = UInt8(truncatingIfNeeded: letters)
        letters >>= 8
        return letter
    }
}

/// What `ms` does with an existing entry (`M`).
public enum MetaStoreMode: UInt8, Sendable {
    /// `MS`, the default: store in any case.
    case set
    /// `ME`: store if absent.
    case add
    /// `MR`: store if present.
    case replace
    /// `MA`: add to the end.
    case append
    /// `MP`: add to the front.
    case prepend

    /// The mode of the classic command that does the same.
    public var classic: StoreMode {
        switch self {
        case .set: .set
        case .add: .add
        case .replace: .replace
        case .append: .append
        case .prepend: .prepend
        }
    }
}

/// A meta command with its flags.
public struct MetaRequest: Equatable, Sendable {
    /// Which of the six it is.
    public enum Operation: UInt8, Sendable {
        /// `mn`: answer `MN` and send everything queued.
        case noOperation
        /// `mg`
        case get
        /// `ms`: a data block follows.
        case set
        /// `md`
        case delete
        /// `ma`
        case arithmetic
        /// `me`: tell about an entry, for people.
        case inspect
    }

    /// Which command it is.
    public var operation: Operation
    /// `ms`: what to do with an existing entry.
    public internal(set) var storeMode = MetaStoreMode.set
    /// `ma`: whether to take away instead of to add.
    public internal(set) var isDecrement = false
    /// The letters that were given.
    public internal(set) var flags: MetaFlags = []
    /// The letters to return, in order.
    ///
    /// `W X Z` are the server's and come last.
    public internal(set) var returns = MetaReturnOrder()
    /// Whether `t` stands before `T`, and so asks for the time to live before the change.
    public internal(set) var showsOldTTL = false
    /// The key as sent; if `flags` contains `.base64Key`, read it with `withKey`.
    public var key: ByteRange
    /// The opaque token, without its letter.
    public internal(set) var opaque = ByteRange.empty
    /// `ms`: length of the data block, without its CR LF.
    public internal(set) var valueBytes = 0
    /// `F`: client flags, default 0.
    public internal(set) var clientFlags: UInt32 = 0
    /// `D`: default 1.
    public internal(set) var delta: UInt64 = 1
    /// `J`: default 0.
    public internal(set) var initial: UInt64 = 0
    var rawTTL: Int32 = 0
    var rawVivify: Int32 = 0
    var rawRecache: Int32 = 0
    var rawCompare: UInt64 = 0
    var rawNewUnique: UInt64 = 0

    /// A command without flags.
    public init(operation: Operation, key: ByteRange) {
        self.operation = operation
        self.key = key
    }

    /// `q`: hide the nominal reply.
    public var isQuiet: Bool { flags.contains(.quiet) }

    /// `T`: the new expiry, or nil.
    public var expiration: Expiration? { flags.contains(.ttl) ? Expiration(exptime: Int64(rawTTL)) : nil }

    /// `N`: on a miss create the entry with this expiry, or nil.
    public var vivifyExpiration: Expiration? {
        flags.contains(.vivify) ? Expiration(exptime: Int64(rawVivify)) : nil
    }

    /// `R`: win if less than so many seconds are left, or nil.
    ///
    /// 0 and negative never win.
    public var recacheSeconds: Int64? { flags.contains(.recache) ? Int64(rawRecache) : nil }

    /// `C`: only if the entry has this CAS unique, or nil.
    public var compareUnique: UInt64? { flags.contains(.compare) ? rawCompare : nil }

    /// `E`: the CAS unique that the entry gets, or nil.
    public var newUnique: UInt64? { flags.contains(.newUnique) ? rawNewUnique : nil }
}
