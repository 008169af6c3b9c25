// How the async operations wait: as `Cache+Waiting.swift`, with suspension in place of sleep. A suspended operation
// holds no thread; a disk thread resumes it.

import Primitives

extension Cache {
    /// The key's entry from either tier.
    func retrieve(_ key: [UInt8]) async -> CachedEntry? {
        var mailbox: Mailbox?
        while true {
            let now = clock.now()
            let (lookup, entry) = copyResident(key.span, now: now)
            switch lookup {
            case .hit: return entry
            case .miss: return nil
            case .unresolved: break
            }
            let box = mailbox ?? Mailbox()
            mailbox = box
            load(key.span, waiter: box.waiter())
            switch await box.nextSuspending().outcome {
            case .absent: return nil
            case .entry(let pinned): return CachedEntry(pinned, now: now)
            case .stream(let stream): if let entry = await readWhole(stream, box, now: now) { return entry }
            case .retry, .chunk, .failed: break
            }
        }
    }

    private func readWhole(_ stream: ValueStream, _ box: Mailbox, now: Instant) async -> CachedEntry? {
        var entry = CachedEntry(stream, now: now)
        while !stream.isComplete {
            stream.requestNext(box.waiter())
            guard case .chunk = await box.nextSuspending().outcome else { return nil }
            // SAFETY: the chunk is valid until the next request, and copied here.
            unsafe entry.value.append(contentsOf: stream.chunk)
        }
        return entry
    }

    /// Executes a mutation of one key until it is resolved.
    func mutate<Outcome>(
        _ key: [UInt8], _ attempt: (Span<UInt8>, Instant, Flight?) -> Step<Outcome>
    ) async -> Outcome {
        var mailbox: Mailbox?
        var flight: Flight?
        while true {
            let step = attempt(key.span, clock.now(), flight)
            if let used = flight { finish(used) }
            switch step {
            case .done(let outcome): return outcome
            case .unresolved(let obstacle):
                let box = mailbox ?? Mailbox()
                mailbox = box
                overcome(obstacle, key: key.span, waiter: box.waiter())
                flight = await box.nextSuspending().flight
            }
        }
    }

    /// Stores `value` and waits until that is done, and durable where the cache promises so.
    func put(
        _ value: [UInt8], _ key: [UInt8], _ mode: WriteMode, _ attributes: StoredAttributes
    ) async throws(StorageError) -> StoreOutcome {
        if let outcome = storeWhole(value.span, key.span, mode, attributes) {
            if case .stored = outcome, await !isCommittedSuspending() { throw .notDurable }
            return outcome
        }
        guard var draft = try draft(key.span, valueBytes: value.count, attributes, now: clock.now()) else {
            await mutate(key) { key, now, flight in
                delete(key, isBlind: true, now: now, flight: flight).step { _ in () }
            }
            throw .valueTooLarge(bytes: value.count)
        }
        var mailbox = draft.isStreamed ? Mailbox() : nil
        if let mailbox { draft.setStreamWaiter(mailbox.waiter(WaitToken.room)) }
        var filled = Self.fill(&draft, with: value.span, from: 0)
        while !draft.isComplete {
            _ = await mailbox?.nextSuspending()
            filled += Self.fill(&draft, with: value.span, from: filled)
        }
        var flight: Flight?
        while true {
            let outcome = store(&draft, mode, now: clock.now(), flight: flight)
            if let used = flight { finish(used) }
            guard case .unresolved(let obstacle) = outcome else {
                if case .noRoom = outcome { throw .noRoom }
                if case .stored = outcome, await !isCommittedSuspending() { throw .notDurable }
                return outcome
            }
            let box = mailbox ?? Mailbox()
            mailbox = box
            overcome(obstacle, draft: &draft, waiter: box.waiter(WaitToken.obstacle))
            flight = await box.nextSuspending(WaitToken.obstacle).flight
        }
    }

    /// As `isCommitted`.
    @discardableResult
    func isCommittedSuspending() async -> Bool {
        guard waitsForCommit else { return true }
        let box = Mailbox()
        commitBarrier(box.waiter())
        if case .failed = await box.nextSuspending().outcome { return false }
        return true
    }
}
