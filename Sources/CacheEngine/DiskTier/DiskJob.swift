// What the reader threads of the disk tier are asked for. Jobs wait in the tier's queue, or for room for their file.

import Primitives

/// A job for a reader thread.
enum DiskJob: Sendable {
    case lookUp(Flight)
    case openStream(StreamRequest)
    case writeValue(DraftFile, Waiter)
    case splice(SpliceRequest)
    case upload(ValueUpload)
    case readChunk(ValueStream, Waiter)
    case removeFile(UInt64)
    case demote(DraftFile, Flight, Demoter)
    case run(@Sendable (DiskReader) -> Void)

    /// The file that the job is to write, and the bytes of its value.
    var fileToWrite: (file: DraftFile, valueBytes: Int)? {
        switch self {
        case .writeValue(let file, _): file.state.withLock { $0.block?.valueBytes }.map { (file, $0) }
        // The file has the block, or is about to get it.
        case .demote(let file, let flight, _): flight.demoted.map { (file, $0.valueBytes) }
        case .upload(let upload): (upload.file, upload.valueBytes)
        case .splice(let request): (request.file, request.valueBytes)
        case .lookUp, .openStream, .readChunk, .removeFile, .run: nil
        }
    }
}
