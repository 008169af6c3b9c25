// A value too large for the memory tier on its way from a client into its file, in chunks.
//
// The client's thread fills one chunk at a time; full chunks go to a disk job that appends them to the file. At most
// two full chunks wait, so a fast client holds less than 1 MiB here, and is blocked until the disk has caught up.

import Glibc
import Primitives

/// The bytes of one large value, streaming to disk.
@safe
final class ValueUpload: Sendable {
    private struct State: ~Copyable {
        var waiting: [Chunk] = []
        var isRunning = false
        var isLast = false
        var blocked: Waiter?
        var finisher: Waiter?
        var hasFailed = false
    }

    /// A full chunk; owns its memory.
    @safe
    private final class Chunk: Sendable {
        // SAFETY: filled by one thread, then read by another after a hand-over under the upload's lock.
        nonisolated(unsafe) let memory: UnsafeMutableRawBufferPointer
        nonisolated(unsafe) var filled = 0
        init(_ bytes: Int) {
            guard let piece = unsafe ValueMemory.allocate(bytes) else { outOfMemory(bytes) }
            unsafe memory = UnsafeMutableRawBufferPointer(start: piece, count: bytes)
        }
        deinit { if let piece = unsafe memory.baseAddress { unsafe ValueMemory.free(piece) } }
    }

    static let chunkBytes = 256 << 10
    private static let waitingMax = 2
    /// What an upload holds at most: the waiting chunks and the one being filled.
    static let heldBytesMax = (waitingMax + 1) * chunkBytes

    let file: DraftFile
    let valueBytes: Int
    private let disk: DiskTier
    private let state = Guarded(State(), rank: .leaf)
    // SAFETY: the chunk being filled and the count belong to the client's thread alone.
    nonisolated(unsafe) private var current: Chunk?
    nonisolated(unsafe) private(set) var filled = 0
    nonisolated(unsafe) var waiter: Waiter?
    // SAFETY: the writer belongs to the one job that runs at a time (`isRunning`).
    nonisolated(unsafe) private var writer: ValueFileWriter?

    init(file: DraftFile, valueBytes: Int, disk: DiskTier) {
        self.file = file
        self.valueBytes = valueBytes
        self.disk = disk
    }

    // MARK: The client's side

    /// Room for the next bytes; empty while blocked or complete.
    var unfilled: UnsafeMutableRawBufferPointer {
        let left = unsafe valueBytes - filled
        guard left > 0, let chunk = openChunk() else { return unsafe .init(start: nil, count: 0) }
        let room = unsafe UnsafeMutableRawBufferPointer(rebasing: chunk.memory[chunk.filled...])
        return unsafe UnsafeMutableRawBufferPointer(start: room.baseAddress, count: min(room.count, left))
    }

    private func openChunk() -> Chunk? {
        if let chunk = unsafe current { return chunk }
        let isBlocked = state.withLock { state in
            guard state.waiting.count >= Self.waitingMax, !state.hasFailed else { return false }
            state.blocked = unsafe waiter
            return true
        }
        if isBlocked { return nil }
        let chunk = Chunk(min(Self.chunkBytes, unsafe valueBytes - filled))
        unsafe current = chunk
        return chunk
    }

    func fill(_ count: Int) {
        guard let chunk = unsafe current else { return invariant(count == 0) }
        unsafe chunk.filled += count
        unsafe filled += count
        invariant(unsafe chunk.filled <= chunk.memory.count)
        if unsafe chunk.filled == chunk.memory.count { submit(chunk) }
    }

    private func submit(_ chunk: Chunk) {
        unsafe current = nil
        let isLast = unsafe filled == valueBytes
        let starts = state.withLock { state in
            // After a failure the rest is only counted, never kept.
            if !state.hasFailed { state.waiting.append(chunk) }
            state.isLast = isLast
            let starts = !state.isRunning
            state.isRunning = true
            return starts
        }
        if starts { disk.enqueue(.upload(self)) }
    }

    /// Completes `waiter` when the file is finished, or has failed.
    func whenFinished(_ waiter: Waiter) {
        let isFinished = state.withLock { state in
            if !state.isRunning && state.isLast && state.waiting.isEmpty { return true }
            state.finisher = waiter
            return false
        }
        if isFinished { waiter.complete(.retry) }
    }

    // MARK: The disk thread's side

    /// Writes all waiting chunks.
    ///
    /// Runs on a disk thread, one run at a time.
    func run() {
        while let chunk = nextChunk() {
            if !write(chunk) { fail() }
        }
    }

    private func nextChunk() -> Chunk? {
        let next: (chunk: Chunk?, blocked: Waiter?, isEnd: Bool) = state.withLock { state in
            let blocked = state.blocked
            state.blocked = nil
            if state.waiting.isEmpty {
                if !state.isLast { state.isRunning = false }
                return (nil, blocked, state.isLast)
            }
            return (state.waiting.removeFirst(), blocked, false)
        }
        next.blocked?.complete(.retry)
        if next.chunk == nil && next.isEnd { finish() }
        return next.chunk
    }

    private func write(_ chunk: Chunk) -> Bool {
        do {
            if unsafe writer == nil { unsafe writer = try disk.createFile(file, valueBytes: valueBytes) }
            unsafe try writer?.append(UnsafeRawBufferPointer(rebasing: chunk.memory[..<chunk.filled]))
            return true
        } catch {
            disk.noteWriteFailure(error)
            return false
        }
    }

    private func fail() {
        unsafe writer = nil
        file.finish(.failed)
        state.withLock { state in
            state.hasFailed = true
            state.waiting = []
        }
    }

    private func finish() {
        if !file.hasFailed {
            do {
                guard let finished = unsafe try writer?.finish(sync: disk.syncsFiles) else {
                    return invariant(false, "an upload without bytes")
                }
                file.finish(.finished(finished))
            } catch {
                disk.noteWriteFailure(error)
                fail()
            }
            unsafe writer = nil
        }
        let finisher = state.withLock { state in
            state.isRunning = false
            return state.finisher
        }
        finisher?.complete(.retry)
    }
}
