// declarations
import Primitives

enum ValueFileError: Error, Sendable, Equatable {
    case missing
    /// Wrong size, header, key or sum, or not a plain file of ours.
    case damaged(String)
    case io(operation: String, errno: Int32)
}

struct FinishedValueFile: Sendable, Equatable {
    var valueBytes: Int
    var valueSum: UInt64
    /// Allocated bytes, rounded up to 4 KiB: `fileBytes` of putFile.
    var fileBytes: Int
}

struct SweepProgress: Sendable, Equatable {
    var examined = 0
    var removed = 0
    var removedBytes = 0
    /// Names that are not ours; never touched.
    var foreign = 0
    var done = false
}

/// The value files of one store. Sendable; any disk thread may use it.
struct ValueFiles: Sendable {
    static func allocatedBytes(keyBytes: Int, valueBytes: Int) -> Int { preconditionFailure() }
    func create(generation: UInt64, key: Span<UInt8>) throws(ValueFileError) -> ValueFileWriter { preconditionFailure() }
    func open(key: Span<UInt8>, expecting metadata: EntryMetadata) throws(ValueFileError) -> ValueFileReader
    { preconditionFailure() }
    /// Returns the allocated bytes that are free now; 0 if there was no such file.
    func remove(generation: UInt64) throws(ValueFileError) -> Int { preconditionFailure() }
    /// A new sweep of files of earlier epochs that no row refers to. Begin it after the journal was replayed.
    func sweep(epochsBefore epoch: UInt32) -> OrphanSweep { preconditionFailure() }
}

struct OrphanSweep {
    /// Examines at most `budget` names. `isReferenced` asks the index (DiskIndex.hasFile).
    mutating func step(budget: Int, isReferenced: (UInt64) throws(DiskError) -> Bool) throws(DiskError) -> SweepProgress
    { preconditionFailure() }
}

/// Deinit without finish() unlinks the file.
struct ValueFileWriter: ~Copyable {
    mutating func append(_ bytes: UnsafeRawBufferPointer) throws(ValueFileError) { preconditionFailure() }
    mutating func finish(sync: Bool) throws(ValueFileError) -> FinishedValueFile { preconditionFailure() }
    mutating func abandon() { preconditionFailure() }
}

struct ValueFileReader: ~Copyable {
    /// For sendfile(2); owned by the reader.
    var descriptor: Int32 { preconditionFailure() }
    var valueOffset: Int { preconditionFailure() }
    var valueBytes: Int { preconditionFailure() }
    /// Reads the whole value into `destination` (exactly valueBytes) and checks its sum.
    func load(into destination: UnsafeMutableRawBufferPointer) throws(ValueFileError) { preconditionFailure() }
    /// Reads all in steps of 256 KiB and checks the sum.
    func verify() throws(ValueFileError) { preconditionFailure() }
    /// Unchecked read after verify(); fills `destination` completely.
    func read(at offset: Int, into destination: UnsafeMutableRawBufferPointer) throws(ValueFileError) { preconditionFailure() }
}
