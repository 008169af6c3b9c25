// Marks that exist only in memory, in the bits that the disk format leaves free.

extension EntryMarks {
    /// The block holds a `FileReference` instead of the value.
    static let stub = EntryMarks(rawValue: 1 << 7)
    /// The block was unlinked while pinned: the last pin frees it.
    static let unlinked = EntryMarks(rawValue: 1 << 6)

    /// The index knows that the entry was read since it was stored.
    static let readMarkOnDisk = EntryMarks(rawValue: 1 << 5)

    /// Index or journal hold just this entry for the key.
    static let onDisk = EntryMarks(rawValue: 1 << 4)

    /// What of the marks goes to disk.
    var persistent: EntryMarks { subtracting([.stub, .unlinked, .readMarkOnDisk, .onDisk]) }
}
