// How far the disk writer's background work is, for whoever shows it.
//
// Only what can take long after a start or a flush: the sweep for value files without a row, and the removal of flushed
// rows. Plain data, kept under a lock of rank leaf in `DiskTier.chores`; the writer's thread changes it.

/// How far the removal of leftovers is.
public struct DiskChores: Sendable, Equatable {
    /// Whether value files that no row refers to are being looked for; nothing is removed before that.
    public var isSweeping = true
    /// Subdirectories that were looked through, of 256.
    public var sweptDirectories = 0
    /// Value files without a row that were removed.
    public var orphansRemoved = 0
    /// Whether rows of a flush are being removed.
    public var isRemovingFlushed = false
    /// Rows of the last flush that were removed.
    public var flushedRowsRemoved = 0

    /// Nothing done.
    public init() {}
}
