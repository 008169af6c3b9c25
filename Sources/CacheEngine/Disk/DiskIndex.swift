// declarations
import Primitives

struct IndexOptions: Sendable {
    enum Synchronous: Int, Sendable { case off = 0, normal = 1, full = 2 }
    var pageSize = 8192
    var synchronous = Synchronous.off
    var cacheBytes = 16 << 20
}

enum CheckpointMode: Sendable { case passive, truncate }
/// Frames in the WAL and how many of them are in the database now; `complete` when all are.
struct CheckpointResult: Sendable { var walFrames: Int; var copiedFrames: Int; var complete: Bool }

final class DiskIndex {
    init(directory: StoreDirectory, options: IndexOptions) throws(DiskError) { preconditionFailure() }
    /// Also done by deinit. The index cannot be used afterwards.
    func close() { preconditionFailure() }

    func begin() throws(DiskError) { preconditionFailure() }
    func commit() throws(DiskError) { preconditionFailure() }
    func rollback() { preconditionFailure() }

    // Inside begin ... commit.
    /// metadata.valueBytes must be value.count; metadata.valueSum is ignored (computed here).
    func putInline(hash: UInt64, key: Span<UInt8>, metadata: EntryMetadata, extended: Span<UInt8>, value: Span<UInt8>)
        throws(DiskError) -> Replaced? { preconditionFailure() }
    /// metadata.valueBytes and .valueSum are those of ValueFileWriter.finish.
    func putFile(hash: UInt64, key: Span<UInt8>, metadata: EntryMetadata, extended: Span<UInt8>, fileBytes: Int)
        throws(DiskError) -> Replaced? { preconditionFailure() }
    func delete(hash: UInt64, key: Span<UInt8>, ifGeneration: UInt64? = nil) throws(DiskError) -> Replaced?
    { preconditionFailure() }
    /// Deletes whatever row has this hash (damaged rows, whose key cannot be trusted).
    func delete(hash: UInt64, ifGeneration: UInt64) throws(DiskError) -> Replaced? { preconditionFailure() }
    func touch(
        hash: UInt64, key: Span<UInt8>, ifGeneration: UInt64? = nil, deadline: WallTime, marks: EntryMarks, cas: UInt64,
        accessed: WallTime) throws(DiskError) -> Bool { preconditionFailure() }
    func setAccessed(hash: UInt64, _ accessed: WallTime) throws(DiskError) { preconditionFailure() }
    func deleteRow(_ rowID: Int64, ifGeneration: UInt64) throws(DiskError) -> Replaced? { preconditionFailure() }
    func setSequence(_ sequence: UInt64) { preconditionFailure() }
    func setFlush(generation: UInt64, at: WallTime?) { preconditionFailure() }

    var sequence: UInt64 { preconditionFailure() }
    var flushGeneration: UInt64 { preconditionFailure() }
    var flushAt: WallTime? { preconditionFailure() }
    var totals: DiskTotals { preconditionFailure() }
    func recount() throws(DiskError) -> DiskTotals { preconditionFailure() }

    // Trim.
    func leastRecent(limit: Int) throws(DiskError) -> [TrimCandidate] { preconditionFailure() }
    func expired(before: WallTime, limit: Int) throws(DiskError) -> [TrimCandidate] { preconditionFailure() }
    func idle(accessedBefore: WallTime, limit: Int) throws(DiskError) -> [TrimCandidate] { preconditionFailure() }
    /// The following walk the table in row order and examine at most `limit` rows per call. Begin with after: 0.
    func writtenBefore(_ time: WallTime, after: Int64, limit: Int) throws(DiskError) -> TrimPage { preconditionFailure() }
    func flushed(upTo generation: UInt64, after: Int64, limit: Int) throws(DiskError) -> TrimPage { preconditionFailure() }
    func larger(than bytes: Int, after: Int64, limit: Int) throws(DiskError) -> TrimPage { preconditionFailure() }
    func scan(after: Int64, limit: Int) throws(DiskError) -> [ScannedEntry] { preconditionFailure() }

    // Value files.
    func hasFile(generation: UInt64) throws(DiskError) -> Bool { preconditionFailure() }
    func fileGenerations(after: UInt64, limit: Int) throws(DiskError) -> [UInt64] { preconditionFailure() }

    // Space.
    var pageBytes: Int { preconditionFailure() }
    var freePages: Int { preconditionFailure() }
    var walBytes: Int { preconditionFailure() }
    func incrementalVacuum(pages: Int) throws(DiskError) { preconditionFailure() }
    func checkpoint(_ mode: CheckpointMode) throws(DiskError) -> CheckpointResult { preconditionFailure() }
    /// PRAGMA quick_check; throws .corrupt with its first line.
    func quickCheck() throws(DiskError) { preconditionFailure() }
}
