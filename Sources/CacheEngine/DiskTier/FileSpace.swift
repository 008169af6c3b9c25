// Room for value files: what they take on disk, and what of `disk.limit` is left for them.
//
// The limit holds when a file is written, not only when it is trimmed: its bytes are set aside here first. Until the
// record of a file reaches the index they are held under the file's generation; from then on the index's totals have
// them. A job that finds no room waits here, and with it its client, until the writer has trimmed; one that waits too
// long, or is larger than the limit leaves at all, goes on without a file: its entry is not admitted. Any thread.

import Primitives

/// The bytes of value files, written and to be written.
final class FileSpace: Sendable {
    /// A job that waits for room.
    struct Waiting: Sendable {
        let job: DiskJob
        let file: DraftFile
        let bytes: Int
        let since: Instant
    }

    private struct State {
        /// What all value files together may take.
        var capacity: Int
        /// What those take that the index knows.
        var committedBytes: Int
        /// Files that the index does not know: being written, waiting in the journal, or about to be removed.
        var underWay: [UInt64: Int] = [:]
        var underWayBytes = 0
        /// The first is the next to go on.
        var waiting: [Waiting] = []
        var waitingBytes = 0
        /// Bytes for which there was no room, since the last trim.
        var missedBytes = 0

        var freeBytes: Int { capacity - committedBytes - underWayBytes }

        mutating func hold(_ generation: UInt64, _ bytes: Int) {
            guard underWay.updateValue(bytes, forKey: generation) == nil else { return }
            underWayBytes += bytes
        }

        mutating func release(_ generation: UInt64) {
            if let bytes = underWay.removeValue(forKey: generation) { underWayBytes -= bytes }
        }
    }

    /// Guards the counts and the waiting jobs; held for a few dictionary operations.
    private let state: Guarded<State>

    /// How long a job waits for room, in ms.
    private static let patience: Int64 = 2000
    /// What a trim makes room for beyond what is asked for at the time, at most.
    private static let wantedBytesMax = 8 << 20

    init(capacity: Int, committedBytes: Int) {
        state = Guarded(State(capacity: capacity, committedBytes: committedBytes), rank: .diskQueue)
    }

    // MARK: Who writes files

    /// What becomes of a job that is to write a file.
    enum Verdict {
        /// It goes on: its bytes are set aside, or it will find that there is no room.
        case goesOn
        /// It was kept, and is given to the readers again when there is room, or none is to be expected.
        case waits
    }

    /// Sets aside room for `file`, or keeps `job` until there is some.
    func admit(_ file: DraftFile, bytes: Int, job: DiskJob, now: Instant) -> Verdict {
        if file.isRefused { return .goesOn }
        return state.withLock { state in
            if state.underWay[file.generation] != nil { return .goesOn }
            if bytes > state.capacity { return .goesOn }
            if state.waiting.isEmpty, bytes <= state.freeBytes {
                state.hold(file.generation, bytes)
                return .goesOn
            }
            state.waiting.append(Waiting(job: job, file: file, bytes: bytes, since: now))
            state.waitingBytes += bytes
            return .waits
        }
    }

    /// Whether the file may be written: its bytes are set aside, now if they were not before.
    func take(_ generation: UInt64, bytes: Int) -> Bool {
        state.withLock { state in
            if state.underWay[generation] != nil { return true }
            guard state.waiting.isEmpty, bytes <= state.freeBytes else {
                // What can never fit is nothing to make room for.
                if bytes <= state.capacity { state.missedBytes = min(state.missedBytes + bytes, Self.wantedBytesMax) }
                return false
            }
            state.hold(generation, bytes)
            return true
        }
    }

    /// Counts a file that is there already, and that the index does not know.
    func hold(_ generation: UInt64, bytes: Int) { state.withLock { $0.hold(generation, bytes) } }

    /// The file is not there, or not any more.
    func release(_ generation: UInt64) { state.withLock { $0.release(generation) } }

    // MARK: The writer's side

    /// Bytes of files that the index does not know.
    var underWayBytes: Int { state.withLock { $0.underWayBytes } }

    /// Whether somebody waits for room.
    var hasWaiting: Bool { state.withLock { !$0.waiting.isEmpty } }

    /// Bytes that a trim is to make room for; forgets what was missed.
    func takeWanted() -> Int {
        state.withLock { state in
            let wanted = state.waitingBytes + state.missedBytes
            state.missedBytes = 0
            return min(wanted, Self.wantedBytesMax)
        }
    }

    /// The index knows these files now.
    func settle(_ generations: [UInt64], committedBytes: Int) {
        state.withLock { state in
            for generation in generations { state.release(generation) }
            state.committedBytes = committedBytes
        }
    }

    /// Sets what files may take, and what those take that the index knows.
    func update(capacity: Int, committedBytes: Int) {
        state.withLock { state in
            state.capacity = capacity
            state.committedBytes = committedBytes
        }
    }

    /// Takes out the jobs that can go on: there is room for them, or they have waited for too long.
    func takeReady(now: Instant) -> [DiskJob] {
        let ready: [(waiting: Waiting, isRefused: Bool)] = state.withLock { state in
            var ready: [(Waiting, Bool)] = []
            for waiting in state.waiting {
                if waiting.bytes <= state.freeBytes {
                    state.hold(waiting.file.generation, waiting.bytes)
                    ready.append((waiting, false))
                } else if waiting.bytes > state.capacity
                    || now >= waiting.since.advanced(byMilliseconds: Self.patience)
                {
                    ready.append((waiting, true))
                } else {
                    break
                }
                state.waitingBytes -= waiting.bytes
            }
            state.waiting.removeFirst(ready.count)
            return ready
        }
        for (waiting, isRefused) in ready where isRefused { waiting.file.refuse() }
        return ready.map(\.waiting.job)
    }

    /// Takes out all jobs that wait: no room is to be expected.
    func refuseWaiting() -> [DiskJob] {
        let waiting = state.withLock { state in
            let waiting = state.waiting
            state.waiting = []
            state.waitingBytes = 0
            return waiting
        }
        for waiting in waiting { waiting.file.refuse() }
        return waiting.map(\.job)
    }

    /// A new store has no files.
    func reset(capacity: Int) {
        state.withLock { state in
            state.capacity = capacity
            state.committedBytes = 0
            state.underWay = [:]
            state.underWayBytes = 0
        }
    }
}

extension DiskTier {
    /// Begins the file of a value of `valueBytes`.
    ///
    /// - Throws: `.noRoom` if the tier's limit leaves none.
    func createFile(_ file: DraftFile, valueBytes: Int) throws(ValueFileError) -> ValueFileWriter {
        guard !file.isRefused, space.take(file.generation, bytes: fileBytes(of: file, valueBytes)) else {
            throw .noRoom
        }
        #if DEBUG
            if let fault = injected.withLock({ $0.fileFault }) { throw fault }
        #endif
        let files = store.withLock { $0.files }
        let key = file.key
        return try files.create(generation: file.generation, key: key.span)
    }

    private func fileBytes(of file: DraftFile, _ valueBytes: Int) -> Int {
        ValueFiles.allocatedBytes(keyBytes: file.key.count, valueBytes: valueBytes)
    }

    /// Whether a job that is to write `file` may go on; else it was kept until there is room.
    func hasRoom(for file: DraftFile, valueBytes: Int, _ job: DiskJob) -> Bool {
        guard isServing else { return true }
        let bytes = fileBytes(of: file, valueBytes)
        let verdict = space.admit(file, bytes: bytes, job: job, now: memory.clock.now())
        guard case .waits = verdict else { return true }
        counters.add(to: .fileWaits)
        inbox.update { $0.isUrgent = true }
        return false
    }
}
