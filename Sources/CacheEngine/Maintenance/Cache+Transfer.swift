// Export and import: all entries of a cache as a stream, and back, in memory of one value at most.
//
// For programs and for the daemon's `--export` and `--import`. An export shows each entry that is there all the while
// exactly once; it counts as a use, so it brings entries to memory. An import adds what the cache does not hold: what
// is there already is newer. The calling thread waits for the disk.

import Primitives

/// How far a transfer is.
public struct TransferProgress: Sendable, Equatable {
    /// Entries that were written, or stored.
    public var entries = 0
    /// Bytes of their values.
    public var valueBytes = 0
    /// Entries that were there already, had expired, or were marked as out of date.
    public var skipped = 0
    /// Entries that were damaged, or that the cache refused.
    public var failed = 0

    /// Nothing yet.
    public init() {}
}

extension Cache {
    /// Writes all live entries, but for those that are marked as out of date.
    ///
    /// `progress` is called after each entry.
    public func export(
        to writer: inout EntryStreamWriter, progress: (TransferProgress) -> Void = { _ in }
    ) throws(EntryStreamError) -> TransferProgress {
        var done = TransferProgress()
        var failure: EntryStreamError?
        forEachEntry { info, stop in
            do throws(EntryStreamError) {
                if info.isStale { done.skipped += 1 } else { try export(info, to: &writer, &done) }
                progress(done)
            } catch {
                failure = error
                stop = true
            }
        }
        if let failure { throw failure }
        try writer.finish()
        return done
    }

    private func export(
        _ info: EntryInfo, to writer: inout EntryStreamWriter, _ done: inout TransferProgress
    ) throws(EntryStreamError) {
        let begun = memory.instant(civil: writer.writtenAt)
        func entry(_ flags: UInt32, _ extended: [UInt8], _ deadline: Instant, _ valueBytes: Int) -> StreamedEntry {
            StreamedEntry(
                key: info.key, flags: flags, extended: extended,
                timeToLive: deadline.timeLeft(at: begun).map { max(0, $0.milliseconds) },
                age: info.age.milliseconds, hasBinaryKey: info.hasBinaryKey, valueBytes: valueBytes)
        }
        var isWhole = true
        switch fetch(info.key.span) {
        case .absent: return done.skipped += 1
        case .pinned(let pinned):
            // SAFETY: the pin keeps both until the end of this case; the bytes are copied.
            let extended = unsafe Array(pinned.extended)
            try writer.begin(entry(pinned.flags, extended, pinned.deadline, pinned.valueBytes))
            try pinned.withValue { value throws(EntryStreamError) in try writer.append(value) }
        case .stream(let stream, let box):
            try writer.begin(entry(stream.flags, stream.extended, stream.deadline, stream.valueBytes))
            while !stream.isComplete {
                stream.requestNext(box.waiter())
                guard case .chunk = box.next().outcome else {
                    isWhole = false
                    break
                }
                // SAFETY: the chunk is valid until the next request.
                try writer.append(unsafe Span(_unsafeBytes: stream.chunk))
            }
        }
        try writer.endEntry(isWhole: isWhole)
        if isWhole {
            done.entries += 1
            done.valueBytes += info.valueBytes
        } else {
            done.failed += 1
        }
    }

    /// Stores the entries of a stream that the cache does not hold; returns when all of them are durable, where the
    /// cache promises so.
    ///
    /// A time to live goes on while an entry is in a file: what has passed since the stream was written, by the clocks
    /// of both machines, is taken off. What came before an error is stored.
    public func importEntries(
        from reader: inout EntryStreamReader, progress: (TransferProgress) -> Void = { _ in }
    ) throws(EntryStreamError) -> TransferProgress {
        var done = TransferProgress()
        defer { isCommitted() }
        while let entry = try reader.nextEntry() {
            try store(entry, from: &reader, &done)
            progress(done)
        }
        return done
    }

    private func store(
        _ entry: StreamedEntry, from reader: inout EntryStreamReader, _ done: inout TransferProgress
    ) throws(EntryStreamError) {
        let now = clock.now()
        var attributes = StoredAttributes(flags: entry.flags, timeToLive: nil, extended: entry.extended)
        if let left = entry.timeToLive {
            let passed = max(0, clock.wall().milliseconds.subtractingReportingOverflow(reader.writtenAt.milliseconds).0)
            attributes.timeToLive = .milliseconds(left - min(left, passed))
            if passed >= left {
                _ = try reader.endEntry()
                return done.skipped += 1
            }
        }
        guard var draft = makeDraft(entry, attributes, now) else {
            _ = try reader.endEntry()
            return done.failed += 1
        }
        draft.terms.hasBinaryKey = entry.hasBinaryKey
        let box = Mailbox()
        if draft.isStreamed { draft.setStreamWaiter(box.waiter(WaitToken.room)) }
        var isFull = false
        repeat {
            isFull = try reader.nextPiece { piece in
                var filled = 0
                while filled < piece.count {
                    filled += Self.fill(&draft, with: piece, from: filled)
                    if filled < piece.count { _ = box.next(WaitToken.room) }
                }
            }
        } while isFull
        guard try reader.endEntry() else { return done.failed += 1 }
        switch finishStore(&draft, box) {
        case .stored:
            done.entries += 1
            done.valueBytes += entry.valueBytes
        case .notStored: done.skipped += 1
        default: done.failed += 1
        }
    }

    private func makeDraft(_ entry: StreamedEntry, _ attributes: StoredAttributes, _ now: Instant) -> EntryDraft? {
        do throws(StorageError) {
            return try draft(entry.key.span, valueBytes: entry.valueBytes, attributes, now: now)
        } catch {
            return nil
        }
    }

    private func finishStore(_ draft: inout EntryDraft, _ box: Mailbox) -> StoreOutcome {
        var flight: Flight?
        while true {
            let outcome = store(&draft, .add, now: clock.now(), flight: flight)
            if let used = flight { finish(used) }
            guard case .unresolved(let obstacle) = outcome else { return outcome }
            overcome(obstacle, draft: &draft, waiter: box.waiter(WaitToken.obstacle))
            flight = box.next(WaitToken.obstacle).flight
        }
    }
}
