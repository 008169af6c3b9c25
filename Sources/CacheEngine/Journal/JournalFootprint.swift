// Which pages of the journal count as the process's: few, however many changes wait.
//
// The ring is a mapped file, tens of megabytes long, and each page that was touched is resident until it is let go.
// Nothing is lost by that: the page cache keeps the page, and who comes back maps it again for the price of a fault. So
// pages are let go of when the writer is far behind those who append, after the writer has read them, and when the
// index has their records. Any thread.

import Glibc

/// What a walk over records has passed.
struct JournalPassage {
    /// Pages up to here were let go.
    private var from: UInt64
    private let journal: Journal

    static let stepBytes: UInt64 = 1 << 20

    init(_ journal: Journal, from: UInt64) {
        self.journal = journal
        self.from = from
    }

    /// The walk has come to `position`.
    mutating func reach(_ position: UInt64) {
        guard position >= from + Self.stepBytes else { return }
        journal.unmapPages(from: from, to: position)
        from = position
    }
}

extension Journal {
    /// Bytes between tail and head from which on appending lets go of pages.
    static let residentBytesMax = 2 << 20

    /// Lets go of what waits for the writer, if that is much and an append has completed a step.
    ///
    /// All of it, not only the step: lookups of entries that have left memory come back to their records. `start` and
    /// `end` are those of the record. Not under the lock: the call takes some microseconds.
    @inline(__always)
    func passAppended(from start: UInt64, to end: UInt64, waiting: Int) {
        let step = JournalPassage.stepBytes
        if waiting <= Self.residentBytesMax || start / step == end / step { return }
        let complete = end / step * step
        unmapPages(from: complete - min(complete, UInt64(waiting)), to: complete)
    }
}
