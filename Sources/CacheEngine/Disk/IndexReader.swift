// declarations
import Primitives

enum IndexLookup: Sendable, Equatable { case found, absent, damaged(generation: UInt64) }

final class IndexReader {
    init(location: IndexLocation, cacheBytes: Int = 4 << 20) throws(DiskError) { preconditionFailure() }
    /// inlineValue nil: the value is in a file. The pointers are valid during the call only.
    func read(
        hash: UInt64, key: Span<UInt8>,
        _ body: (EntryMetadata, _ extended: UnsafeRawBufferPointer, _ inlineValue: UnsafeRawBufferPointer?) -> Void
    ) throws(DiskError) -> IndexLookup { preconditionFailure() }
    /// Row order, without values: for enumeration on a reader thread, and to fill the resident filter.
    func scan(after: Int64, limit: Int) throws(DiskError) -> [ScannedEntry] { preconditionFailure() }
    /// Hashes only, in row order, appended to `hashes`; returns the last row examined, nil at the end.
    func hashes(after: Int64, limit: Int, into hashes: inout [UInt64]) throws(DiskError) -> Int64? { preconditionFailure() }
    func close() { preconditionFailure() }
}
