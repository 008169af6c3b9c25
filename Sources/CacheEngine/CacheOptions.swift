// How a cache is made. Absent (nil) is unlimited; zero never means unlimited.

/// What a `Cache` is made with.
public struct CacheOptions: Sendable {
    /// Names the cache in logs and statistics.
    public var name = "default"
    /// Limits of the memory tier.
    public var memory = MemoryOptions()
    /// The disk tier; nil keeps everything in memory only.
    public var disk: DiskOptions?
    /// Largest value that is stored at all, in bytes.
    public var entryBytesMax = 64 << 20
    /// Time to live of entries stored without one, in milliseconds; nil: they never expire.
    public var defaultTTL: Int64?
    /// Longest time to live, in milliseconds; longer ones are cut; nil: no limit.
    public var maximumTTL: Int64?
    /// How often the background thread looks for expired and idle entries in memory, in milliseconds.
    public var memoryTrimInterval: Int64 = 1000
    /// Whether malloc is to give holes back whenever the process holds much more than the memory tier explains.
    ///
    /// For programs whose memory is mostly this cache's; others would pay for their own memory.
    public var ownsProcessMemory = false

    /// The defaults: 64 MiB of memory and no disk tier.
    public init() {}
}

/// From what point the age of an entry is counted.
public enum AgeBase: Sendable {
    /// From the last time it was read or written: an idle limit.
    case access
    /// From the time its value was stored.
    case write
}

/// Limits of the memory tier.
public struct MemoryOptions: Sendable {
    /// Bytes of all entries with headers, table and allocator overhead; nil: unlimited.
    public var bytesMax: Int? = 64 << 20
    /// Number of entries; nil: unlimited.
    public var entriesMax: Int?
    /// Entries older than this leave memory, in milliseconds; nil: no age limit.
    public var ageMax: Int64?
    /// What `ageMax` counts from.
    public var ageBase = AgeBase.access
    /// Larger values live on disk alone, in bytes.
    public var valueBytesMax = 1 << 20
    /// Number of shards, a power of two; nil: chosen from the limit and the number of cores.
    public var shards: Int?

    /// Page cache of the disk writer's connection to the index, in bytes: an eighth of the memory limit, 2 to 16 MiB.
    ///
    /// It comes on top of the limit, so a small memory tier has a small one.
    var indexCacheBytes: Int { min(max((bytesMax ?? .max) / 8, 2 << 20), 16 << 20) }

    /// The defaults.
    public init() {}
}

/// What a disk tier promises about acknowledged writes.
public enum Durability: String, Sendable, CaseIterable {
    /// Nothing: after an unclean stop the disk tier is dropped.
    case none
    /// They survive the death of the process.
    case process
    /// They survive a power cut.
    case always
}

/// What happens to a disk tier found after an unclean reboot, at durability `process`.
public enum PowerLossPolicy: String, Sendable, CaseIterable {
    /// It is dropped: cold, never stale.
    case discard
    /// It is kept: old values and deleted keys may come back.
    case keep
}

/// When entries are written to disk.
public enum DiskWriteMode: String, Sendable, CaseIterable {
    /// When they are stored.
    case through
    /// When they leave memory for room, and at a clean stop.
    case onEvict = "on_evict"
}

/// Which entries are written to disk.
public enum DiskAdmission: String, Sendable, CaseIterable {
    /// Every one.
    case all
    /// Those that were read since they were stored, and those whose key was seen before.
    case secondHit = "second_hit"
}

/// Place and limits of the disk tier.
public struct DiskOptions: Sendable {
    /// The directory, made if missing.
    ///
    /// One process at a time.
    public var directory: String
    /// Allocated bytes of the whole directory.
    public var bytesMax = 1 << 30
    /// Number of entries; nil: unlimited.
    public var entriesMax: Int?
    /// Entries older than this are trimmed, in milliseconds; nil: no age limit.
    public var ageMax: Int64?
    /// What `ageMax` counts from.
    public var ageBase = AgeBase.access
    /// Bytes to leave free on the file system; nil: no check.
    public var freeBytesMin: Int?
    /// Values up to this many bytes live in the index, larger ones in files.
    ///
    /// May change at any time.
    public var inlineBytesMax = 20 << 10
    /// When entries are written.
    public var write = DiskWriteMode.through
    /// Which entries are written.
    ///
    /// Values that are too large for memory always are.
    public var admission = DiskAdmission.all
    /// Bytes of entries that may be written in a day; nil: unlimited.
    ///
    /// Given out evenly; what is not used is saved for up to an hour.
    public var writeBudget: Int?
    /// What survives what.
    public var durability = Durability.process
    /// What to do after an unclean reboot.
    public var afterPowerLoss = PowerLossPolicy.discard
    /// Size of the journal file in bytes.
    public var journalBytes = 64 << 20
    /// Disk reader threads.
    public var readers = 2
    /// How often the disk writer trims when nothing else wakes it, in milliseconds.
    public var trimInterval: Int64 = 10_000

    /// Page cache of the writer's connection to the index, in bytes; a reader's is a quarter of that.
    var indexCacheBytes = 16 << 20

    /// How memory is warmed after a start; nil: it is not, and nothing is remembered for it.
    public var warmUp: WarmUpOptions?

    /// The defaults, in `directory`.
    public init(directory: String) { self.directory = directory }
}

/// Why a cache cannot be opened.
public enum CacheError: Error, Sendable, CustomStringConvertible {
    /// Another process holds the directory; its pid, where known.
    case directoryInUse(directory: String, pid: Int32?)
    /// An option has a value that makes no sense: see `CacheOptions.problem`.
    case invalidOption(String)
    /// The directory cannot be used; nothing in it was changed.
    case unusableDirectory(directory: String, reason: String)

    /// One line for people.
    public var description: String {
        switch self {
        case .directoryInUse(let directory, let pid):
            "\(directory) is in use by another cache" + (pid.map { " (pid \($0))" } ?? "")
        case .invalidOption(let problem): problem
        case .unusableDirectory(let directory, let reason): "\(directory): \(reason)"
        }
    }
}
