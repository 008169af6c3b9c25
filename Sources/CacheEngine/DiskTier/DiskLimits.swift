// The limits of the disk tier, as options and reloads set them. A value: whoever needs them takes a copy.

/// Limits of the disk tier that may change while it runs; nil is unlimited.
public struct DiskLimits: Sendable, Equatable {
    /// Allocated bytes of the whole directory.
    public var bytesMax: Int
    /// Number of entries.
    public var entriesMax: Int?
    /// Entries older than this are trimmed, in milliseconds.
    public var ageMax: Int64?
    /// What `ageMax` counts from.
    public var ageBase: AgeBase
    /// Bytes to leave free on the file system; nil: no check.
    public var freeBytesMin: Int?
    /// Values up to this many bytes live in the index, larger ones in files.
    public var inlineBytesMax: Int
    /// Time between two trims when nothing else wakes the writer, in milliseconds.
    public var trimInterval: Int64

    init(_ options: DiskOptions) {
        bytesMax = options.bytesMax
        entriesMax = options.entriesMax
        ageMax = options.ageMax
        ageBase = options.ageBase
        freeBytesMin = options.freeBytesMin
        inlineBytesMax = options.inlineBytesMax
        trimInterval = options.trimInterval
    }
}
