// declarations
import Primitives

enum UncleanRebootPolicy: Sendable { case discard, keep }

enum StoreDurability: UInt8, Sendable { case none = 0, process = 1, always = 2 }

enum StartVerdict: Sendable, Equatable {
    /// There was no store; a new one was made.
    case fresh
    /// The store is used as it is.
    case resumed(afterCrash: Bool)
    /// The store could not be trusted and was renamed to quarantine-<epoch>; a new one was made.
    case quarantined(String)
    /// The store was dropped by policy (durability); a new one was made.
    case discarded(String)

    /// Whether the journal belongs to the store and its tail may be replayed.
    var journalIsValid: Bool {
        if case .resumed = self { true } else { false }
    }
}

final class StoreDirectory {
    static func open(path: String) throws(StoreError) -> StoreDirectory { preconditionFailure() }
    /// Names the index for reader threads (Sendable).
    var location: IndexLocation { preconditionFailure() }
    /// Seed of the keyed key hash; lives as long as the directory.
    var hashSeed: UInt64 { preconditionFailure() }
    var epoch: UInt32 { preconditionFailure() }
    /// Sequence in the anchor that start() found (0 after a new store).
    var anchorSequence: UInt64 { preconditionFailure() }
    func start(policy: UncleanRebootPolicy, durability: StoreDurability, bootID: String) throws(StoreError) -> StartVerdict
    { preconditionFailure() }
    func writeAnchor(sequence: UInt64, clean: Bool, sync: Bool) throws(StoreError) { preconditionFailure() }
    /// Renames store/ away, makes a new one, raises the epoch. Close DiskIndex and IndexReaders first.
    func quarantine(_ reason: String) throws(StoreError) { preconditionFailure() }
    var journalPath: String { preconditionFailure() }
    /// A new descriptor of the journal (created if missing), owned by the caller.
    func openJournal() throws(StoreError) -> Int32 { preconditionFailure() }
    func valueFiles() throws(StoreError) -> ValueFiles { preconditionFailure() }
    /// Throws if the directory was removed, renamed or unmounted under us.
    func checkIntact() throws(StoreError) { preconditionFailure() }
    /// Free bytes for us on the file system.
    func availableBytes() throws(StoreError) -> Int { preconditionFailure() }
    /// Removes old quarantine-* (all, or all but the newest) and discarded-* trees, at most `budget` files per call.
    func removeOldStores(keepNewestQuarantine: Bool, budget: Int) throws(StoreError) -> RemovalProgress { preconditionFailure() }
}

struct RemovalProgress: Sendable, Equatable {
    var removedFiles = 0
    var removedBytes = 0
    var done = false
}

/// Where the index is. Sendable: reader threads open their own connection with it.
struct IndexLocation: Sendable { var path: String }
