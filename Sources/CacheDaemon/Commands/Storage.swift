// set, add, replace, append, prepend, cas: from the line and its data block to the entry.
//
// The value is read, or copied, once: into the memory that will be the entry's. A data block that has come whole is
// stored at once; of a larger one the connection reads the rest straight into the draft (`bodyRoom`).

import CacheEngine
import Primitives
import Protocol

/// How a draft is to be stored, and whether the client is told.
struct StoreTarget {
    let mode: WriteMode
    let isQuiet: Bool
    /// For `ms`: what its answer needs.
    var meta: KeptMetaRequest?
}

extension Session {
    /// Begins a store; `input` begins with its line.
    @inline(__always)
    mutating func store(
        _ header: StoreHeader, lineBytes: Int, _ input: UnsafeRawBufferPointer, _ turn: inout Turn
    ) -> Step {
        guard replies.openReads == 0 else { return .stalled(.slots) }
        guard mayReceive(header.valueBytes, turn) else { return .stalled(.engine) }
        // SAFETY: the span does not outlive this call, and the input stays in place during it.
        let key = unsafe Span<UInt8>(_unsafeBytes: input[header.key])
        if proof == nil, let step = unsafe storeWhole(header, key, lineBytes: lineBytes, input, &turn) { return step }
        if header.valueBytes >= BigEntries.valueBytesMin { unsafe turn.noteBig(input[header.key], header.valueBytes) }
        let draft = turn.cache.makeDraft(
            key: key, valueBytes: header.valueBytes, flags: header.flags, deadline: turn.deadline(header.expiration))
        guard let draft else {
            return unsafe refuse(
                key: input[header.key], deletes: header.mode == .set, lineBytes: lineBytes,
                valueBytes: header.valueBytes, isQuiet: header.isQuiet, &turn)
        }
        let target = StoreTarget(mode: WriteMode(header.mode), isQuiet: header.isQuiet, meta: nil)
        return unsafe take(draft, target, lineBytes: lineBytes, valueBytes: header.valueBytes, input, &turn)
    }

    /// Stores a small value that came with its line, without a draft; nil if it takes one.
    private mutating func storeWhole(
        _ header: StoreHeader, _ key: Span<UInt8>, lineBytes: Int, _ input: UnsafeRawBufferPointer, _ turn: inout Turn
    ) -> Step? {
        let end = lineBytes &+ header.valueBytes
        guard header.valueBytes < BigEntries.valueBytesMin, end &+ 2 <= input.count, unsafe input[end] == 0x0D,
            unsafe input[end &+ 1] == 0x0A
        else { return nil }
        let mode = WriteMode(header.mode)
        // SAFETY: as for `key`.
        let outcome = turn.cache.storeWhole(
            key, unsafe Span(_unsafeBytes: UnsafeRawBufferPointer(rebasing: input[lineBytes..<end])),
            flags: header.flags, deadline: turn.deadline(header.expiration), mode, now: turn.now)
        guard let outcome else { return nil }
        turn.counters.add(.setCommands)
        answer(
            outcome, StoreTarget(mode: mode, isQuiet: header.isQuiet, meta: nil), storedBytes: header.valueBytes, &turn)
        return .done(end &+ 2)
    }

    /// Whether a data block may be received now; if not, the engine will tell when to try again.
    @inline(__always)
    func mayReceive(_ valueBytes: Int, _ turn: borrowing Turn) -> Bool {
        if valueBytes < Cache.smallBodyBytes { return true }
        return turn.cache.mayReceive(valueBytes: valueBytes, waiter: waiter(Self.requestNumber, turn))
    }

    /// Fills a draft with what `input` holds behind the line; stores it if that is all.
    @inline(__always)
    mutating func take(
        _ draft: consuming EntryDraft, _ target: StoreTarget, lineBytes: Int, valueBytes: Int,
        _ input: UnsafeRawBufferPointer, _ turn: inout Turn
    ) -> Step {
        settle(turn)
        turn.counters.add(.setCommands)
        let blockEnd = lineBytes &+ valueBytes &+ 2
        if blockEnd <= input.count, !draft.isStreamed {
            _ = unsafe draft.fill(UnsafeRawBufferPointer(rebasing: input[lineBytes..<blockEnd &- 2]))
            guard unsafe input[blockEnd &- 2] == 0x0D, unsafe input[blockEnd &- 1] == 0x0A else {
                return badDataChunk(target, consumed: blockEnd, &turn)
            }
            return Step(consumed: blockEnd, stall: finish(draft, target, &turn))
        }
        if draft.isStreamed { draft.setStreamWaiter(waiter(Self.streamNumber, turn)) }
        self.draft = consume draft
        phase = .body(target)
        return .done(lineBytes)
    }

    /// Too large for this cache: says so, drops the data block, and if `deletes` the old value too.
    mutating func refuse(
        key: UnsafeRawBufferPointer, deletes: Bool, lineBytes: Int, valueBytes: Int, isQuiet: Bool, _ turn: inout Turn
    ) -> Step {
        if deletes {
            let outcome = turn.cache.delete(unsafe Span(_unsafeBytes: key), isBlind: true, now: turn.now, flight: proof)
            if case .unresolved(let obstacle) = outcome { return unsafe overcome(obstacle, key: key, turn) }
        }
        settle(turn)
        turn.counters.add(.valuesTooLarge)
        noteStore(.tooLarge, turn)
        if !isQuiet { reply(.error(.valueTooLarge), &turn) }
        phase = .swallow(bytes: valueBytes + 2)
        return .done(lineBytes)
    }

    // MARK: The data block

    /// Where the connection may read bytes of the data block directly; empty when it has to read as usual.
    mutating func bodyRoom() -> UnsafeMutableRawBufferPointer {
        guard case .body = phase else { return unsafe UnsafeMutableRawBufferPointer(start: nil, count: 0) }
        return unsafe draft?.unfilled ?? UnsafeMutableRawBufferPointer(start: nil, count: 0)
    }

    /// Says that `count` bytes were read into `bodyRoom`.
    mutating func receiveDirectly(_ count: Int) { draft?.fill(count) }

    /// Takes what `input` holds of the data block.
    mutating func receive(_ target: StoreTarget, _ input: UnsafeRawBufferPointer, _ turn: inout Turn) -> Step {
        guard var draft = draft.take() else { preconditionFailure("a body without a draft") }
        let taken = unsafe draft.fill(input)
        let (isComplete, isBlocked) = (draft.isComplete, draft.isBlocked)
        self.draft = consume draft
        guard isComplete else { return Step(consumed: taken, stall: isBlocked ? .engine : .input) }
        guard input.count - taken >= 2 else { return Step(consumed: taken, stall: .input) }
        guard unsafe input[taken] == 0x0D, unsafe input[taken + 1] == 0x0A else {
            return badDataChunk(target, consumed: taken + 2, &turn)
        }
        phase = .storing(target)
        return .done(taken + 2)
    }

    /// The two bytes after the value are not CR LF: nothing is stored, and the next request begins right after them.
    private mutating func badDataChunk(_ target: StoreTarget, consumed: Int, _ turn: inout Turn) -> Step {
        draft = nil
        phase = .command
        // A quiet `ms` hides only its nominal answer.
        if !target.isQuiet || target.meta != nil { reply(.error(.badDataChunk), &turn) }
        return .done(consumed)
    }

    // MARK: Storing

    /// Stores the draft whose data block is complete.
    mutating func storeDraft(_ target: StoreTarget, _ turn: inout Turn) -> Step {
        guard let draft = draft.take() else { preconditionFailure("nothing to store") }
        return Step(consumed: 0, stall: finish(draft, target, &turn))
    }

    /// Stores a complete draft and answers, or waits for what stands in its way.
    @inline(__always)
    private mutating func finish(_ draft: consuming EntryDraft, _ target: StoreTarget, _ turn: inout Turn) -> Stall? {
        let outcome = turn.cache.store(&draft, target.mode, now: turn.now, flight: proof)
        settle(turn)
        if case .unresolved(let obstacle) = outcome {
            turn.cache.overcome(obstacle, draft: &draft, waiter: waiter(Self.requestNumber, turn))
            waiting = WaitingChange(since: turn.began, key: [])
            self.draft = consume draft
            phase = .storing(target)
            return .engine
        }
        phase = .command
        answer(outcome, target, storedBytes: draft.storedBytes, &turn)
        return nil
    }

    @inline(__always)
    mutating func answer(
        _ outcome: StoreOutcome, _ target: StoreTarget, storedBytes: Int, _ turn: inout Turn
    ) {
        if let meta = target.meta {
            if meta.request.comparesLikeCAS { countComparison(outcome, turn) }
            return answer(outcome, meta, storedBytes: storedBytes, isQuiet: target.isQuiet, &turn)
        }
        if case .compare = target.mode { countComparison(outcome, turn) }
        noteStore(StoreStatus(outcome), turn)
        switch outcome {
        case .stored: acknowledge(.stored, isQuiet: target.isQuiet, &turn)
        case .notStored: if !target.isQuiet { reply(.notStored, &turn) }
        case .exists: if !target.isQuiet { reply(.exists, &turn) }
        case .notFound: if !target.isQuiet { reply(.notFound, &turn) }
        case .noRoom:
            turn.counters.add(.valuesWithoutMemory)
            if !target.isQuiet { reply(.error(.outOfMemory), &turn) }
        case .unresolved: invariant(false, "handled by storeDraft")
        }
    }

    private func countComparison(_ outcome: StoreOutcome, _ turn: borrowing Turn) {
        switch outcome {
        case .stored: turn.counters.add(.casHits)
        case .exists: turn.counters.add(.casMismatches)
        case .notFound: turn.counters.add(.casMisses)
        case .notStored, .noRoom, .unresolved: break
        }
    }
}

extension WriteMode {
    /// The engine's word for the protocol's.
    @inline(__always)
    init(_ mode: StoreMode) {
        self =
            switch mode {
            case .set: .set
            case .add: .add
            case .replace: .replace
            case .append: .append
            case .prepend: .prepend
            case .compare(let unique): .compare(cas: unique)
            }
    }
}
