// An entry that is being received: its memory is the entry's final memory.
//
// Three forms: a block that is filled in place; the same, handed to a disk thread that writes its value file; and, for
// values too large for the memory tier, a stub with an upload that streams the value to its file. Owned by one client's
// thread. Dropping a draft frees its memory and removes its file.

import Primitives

/// An entry on its way into the cache.
///
/// Made by `Cache.makeDraft`.
@safe
public struct EntryDraft: ~Copyable {
    enum Body {
        case memory(EntryBlock)
        /// The value file is, or was, written by a disk thread; it owns the block.
        case file(DraftFile)
        /// A stub, and the upload that fills its file.
        case upload(EntryBlock, ValueUpload)
        case spent
    }

    private(set) var body: Body
    let hash: UInt64
    /// Bytes of the whole value.
    public let valueBytes: Int
    /// Bytes of the value that was stored: for append and prepend, of both parts.
    public internal(set) var storedBytes: Int
    private var filled = 0
    /// What is asked beyond the mode.
    ///
    /// To be set before the draft is stored.
    public var terms = StoreTerms()
    var mode = WriteMode.set
    /// For append and prepend: the joining of both values in a file.
    private(set) var splice: SpliceRequest?
    /// Earlier joinings, made from a value that has changed since.
    ///
    /// They hold a pin, so they must not be released under a shard's lock.
    private var retiredSplices: [SpliceRequest] = []

    /// What it takes of the budget for values on their way in.
    private var charge: BodyCharge?

    init(_ block: EntryBlock, hash: UInt64, valueBytes: Int, upload: ValueUpload?, charge: BodyCharge? = nil) {
        self.charge = charge
        self.hash = hash
        self.valueBytes = valueBytes
        storedBytes = valueBytes
        body = upload.map { .upload(block, $0) } ?? .memory(block)
    }

    /// A draft of a joined value whose file is written.
    init(joined file: DraftFile, block: EntryBlock) {
        hash = file.hash
        valueBytes = block.valueBytes
        storedBytes = block.valueBytes
        filled = block.valueBytes
        body = .file(file)
    }

    deinit {
        switch body {
        case .memory(let block), .upload(let block, _): block.free()
        case .file, .spent: break
        }
    }

    // MARK: Filling

    /// Whether the value streams to disk while it is received.
    public var isStreamed: Bool { if case .upload = body { true } else { false } }

    /// Where the next bytes of the value go.
    ///
    /// Empty while `isBlocked`, and when the draft is complete.
    public var unfilled: UnsafeMutableRawBufferPointer {
        // SAFETY: the draft owns the block, or the upload its chunk, until it is stored or dropped: the pointer is
        // valid until then, or the next `fill`. `fill` keeps `filled` at or below the size.
        switch body {
        case .memory(let block): unsafe UnsafeMutableRawBufferPointer(rebasing: block.stored[filled...])
        case .upload(_, let upload): unsafe upload.unfilled
        case .file, .spent: unsafe UnsafeMutableRawBufferPointer(start: nil, count: 0)
        }
    }

    /// Says that `count` bytes were written to `unfilled`.
    public mutating func fill(_ count: Int) {
        invariant(count >= 0 && count <= valueBytes - filled)
        if case .upload(_, let upload) = body { upload.fill(count) }
        filled += count
    }

    /// Copies as many of `bytes` as fit into `unfilled`; returns how many.
    public mutating func fill(_ bytes: UnsafeRawBufferPointer) -> Int {
        var total = 0
        while total < bytes.count {
            // SAFETY: `count` is at most what is left of either side.
            let room = unsafe unfilled
            let count = min(room.count, bytes.count - total)
            if count == 0 { break }
            unsafe room.copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[total..<total + count]))
            fill(count)
            total += count
        }
        return total
    }

    /// Whether every byte of the value is there.
    public var isComplete: Bool { filled == valueBytes }

    /// Whether the disk has to catch up before more bytes are taken; the stream's waiter gets `.retry` then.
    public var isBlocked: Bool {
        guard isStreamed, !isComplete else { return false }
        // SAFETY: only the size is looked at.
        return unsafe unfilled.isEmpty
    }

    /// Who is told when a blocked stream may go on.
    ///
    /// To be set before a streamed draft is filled.
    public mutating func setStreamWaiter(_ waiter: Waiter) {
        // SAFETY: the upload's waiter belongs to the client's thread, which owns this draft.
        if case .upload(_, let upload) = body { unsafe upload.waiter = waiter }
    }

    // MARK: For the engine

    /// The entry's block, or stub.
    var block: EntryBlock {
        switch body {
        case .memory(let block), .upload(let block, _): return block
        case .file(let file):
            if let block = file.state.withLock({ $0.block }) { return block }
        case .spent: break
        }
        preconditionFailure("a spent draft has no block")
    }

    /// The file of the value, in any state; nil for a value that goes into the index or stays in memory.
    var file: DraftFile? {
        switch body {
        case .file(let file): file
        case .upload(_, let upload): upload.file
        case .memory, .spent: nil
        }
    }

    /// Names the value file, if there is one that was written.
    var generation: UInt64? { finishedFile == nil ? nil : file?.generation }

    /// What is known of the written file.
    var finishedFile: FinishedValueFile? { file?.finished }

    /// Whether the value belongs into a file that is not written yet.
    ///
    /// `disk` is nil while values stay in memory.
    func waitsForFile(_ disk: DiskTier?) -> Bool {
        if let file { return file.finished == nil && !file.hasFailed }
        guard let disk else { return false }
        return valueBytes > disk.inlineBytesMax
    }

    /// Hands the block to the file that a disk thread will write.
    mutating func hand(to file: DraftFile) {
        guard case .memory(let block) = body else { return }
        file.state.withLock { $0.block = block }
        body = .file(file)
    }

    /// Takes the block back from its file, which is dropped.
    ///
    /// False for a value that streamed to its file.
    mutating func takeBackBlock() -> Bool {
        guard case .file(let file) = body, let block = file.takeBlock() else { return false }
        body = .memory(block)
        return true
    }

    /// Joins from now on with `request`.
    mutating func renewSplice(_ request: SpliceRequest) {
        if let splice { retiredSplices.append(splice) }
        splice = request
    }

    /// Lets go of joinings that came to nothing: each holds two values, and a key that many append to makes many.
    ///
    /// Not under a shard's lock.
    mutating func dropRetiredSplices() { retiredSplices = [] }

    /// Takes the block out for linking.
    ///
    /// A file that was written belongs to the entry from now on.
    mutating func take() -> EntryBlock {
        let block = block
        if case .file(let file) = body { _ = file.takeBlock() }
        // While the journal takes no writes nothing refers to the file; but a stub's value is nowhere else.
        if block.marks.contains(.onDisk) || block.isStub { file?.adopt() }
        if let finished = finishedFile, let generation = file?.generation, block.isStub {
            block.file = FileReference(generation: generation, sum: finished.valueSum)
        }
        body = .spent
        charge = nil
        return block
    }

    /// Drops what is left after a refusal.
    mutating func spend() {
        switch body {
        case .memory(let block), .upload(let block, _): block.free()
        case .file, .spent: break
        }
        body = .spent
        charge = nil
        splice = nil
        retiredSplices = []
    }
}
