// Reads that take only what the page cache holds, for threads that must not wait for a device.
//
// SQLite reads by pread(2), which waits. While `run` is at work, all reads of this thread, of whatever connection, are
// preadv2(2) with RWF_NOWAIT instead: what is not in memory fails the statement with SQLITE_IOERR, and the caller asks
// somebody who may wait. Stateless but for two variables of the thread, which the C target keeps.

internal import CSQLite

/// Reads without waiting.
public enum CachedReads {
    /// What came of it.
    public enum Outcome: Sendable {
        /// Nothing had to wait; a failure is a failure.
        case complete
        /// Something was not in memory: the statement that failed must be run by somebody who may wait.
        case wouldWait
        /// The file system knows no such reads.
        case unsupported
    }

    /// Runs `body`, in which no read of a connection waits for the device.
    @inline(__always)
    public static func run(_ body: () -> Void) -> Outcome {
        csqlite_begin_cached_reads()
        body()
        let obstacle = csqlite_end_cached_reads()
        return obstacle == 0 ? .complete : (obstacle > 0 ? .wouldWait : .unsupported)
    }
}
