// ms, md, ma: meta commands that change entries.
//
// Like their classic relatives they wait for this client's open reads, and are parsed and executed again, or stored
// again, when the engine had to look something up first.

import CacheEngine
import Primitives
import Protocol

extension Session {
    // MARK: ms

    /// Begins `ms`; `input` begins with its line.
    mutating func metaSet(
        _ request: MetaRequest, lineBytes: Int, _ input: UnsafeRawBufferPointer, _ turn: inout Turn
    ) -> Step {
        guard replies.openReads == 0 else { return .stalled(.slots) }
        guard mayReceive(request.valueBytes, turn) else { return .stalled(.engine) }
        // SAFETY: keys and tokens are parts of the input, which stays in place during the call.
        let opaque = unsafe input[request.opaque]
        let meta = unsafe request.withKey(in: input) { unsafe KeptMetaRequest(request, key: $0, opaque: opaque) }
        let deadline = request.expiration.map { turn.deadline($0) } ?? .never
        let key = meta.key
        if request.valueBytes >= BigEntries.valueBytesMin {
            unsafe key.withUnsafeBytes { unsafe turn.noteBig($0, request.valueBytes) }
        }
        let draft = turn.cache.makeDraft(
            key: key.span, valueBytes: request.valueBytes, flags: request.clientFlags, deadline: deadline)
        guard var draft else {
            // Unlike the classic commands, ms removes the old value in every mode.
            return unsafe key.withUnsafeBytes { key in
                unsafe refuse(
                    key: key, deletes: true, lineBytes: lineBytes, valueBytes: request.valueBytes, isQuiet: false,
                    &turn)
            }
        }
        draft.terms = request.storeTerms(turn)
        let target = StoreTarget(mode: WriteMode(request.storeMode.classic), isQuiet: request.isQuiet, meta: meta)
        return unsafe take(
            draft, target, lineBytes: lineBytes, valueBytes: request.valueBytes, input, &turn)
    }

    /// Answers an `ms`.
    mutating func answer(
        _ outcome: StoreOutcome, _ meta: KeptMetaRequest, storedBytes: Int, isQuiet: Bool, _ turn: inout Turn
    ) {
        noteStore(StoreStatus(outcome), turn)
        var attributes = MetaAttributes()
        attributes.unique = 0
        attributes.valueBytes = meta.request.valueBytes
        let status: MetaStatus
        switch outcome {
        case .stored(let cas):
            if isQuiet { return }
            if turn.waitsForCommit { openCommit() }
            attributes.unique = cas
            attributes.valueBytes = storedBytes
            status = .done
        case .notStored: status = .notStored
        case .exists: status = .exists
        case .notFound: status = .notFound
        case .noRoom:
            turn.counters.add(.valuesWithoutMemory)
            return reply(.error(.outOfMemory), &turn)
        case .unresolved: return invariant(false, "handled before")
        }
        unsafe meta.key.withUnsafeBytes { key in
            unsafe meta.opaque.withUnsafeBytes { opaque in
                unsafe replyMeta(status, meta.request, key: key, opaque: opaque, attributes, &turn)
            }
        }
    }

    /// Appends the line of a meta reply to a change.
    private mutating func replyMeta(
        _ status: MetaStatus, _ request: MetaRequest, key: UnsafeRawBufferPointer, opaque: UnsafeRawBufferPointer,
        _ attributes: MetaAttributes, _ turn: inout Turn
    ) {
        let key = unsafe MetaReplyKey(key, isBinary: request.flags.contains(.base64Key))
        reply(&turn) { unsafe $0.appendMeta(status, returns: request.returns, key: key, opaque: opaque, attributes) }
    }

    // MARK: md

    /// Executes `md`.
    mutating func metaDelete(_ request: MetaRequest, _ input: UnsafeRawBufferPointer, _ turn: inout Turn) -> Step {
        guard replies.openReads == 0 else { return .stalled(.slots) }
        let opaque = unsafe input[request.opaque]
        return unsafe request.withKey(in: input) { key in
            let deadline = request.expiration.map { turn.deadline($0) }
            let freshCAS = turn.cache.nextCAS()
            var status = MetaStatus.notFound
            var valueBytes: Int?
            let outcome = turn.cache.edit(unsafe Span(_unsafeBytes: key), now: turn.now, flight: proof) { edit in
                status = request.remove(&edit, deadline: deadline, freshCAS: freshCAS)
                if edit.action == .delete { valueBytes = edit.valueBytes }
            }
            if case .unresolved(let obstacle) = outcome { return unsafe overcome(obstacle, key: key, turn) }
            settle(turn)
            if status != .done {
                turn.counters.add(.deleteMisses)
            } else if !request.flags.contains(.invalidate) {
                turn.counters.add(.deleteHits)
            }
            if let valueBytes { unsafe noteDeletion(key, command: "md", valueBytes: valueBytes, turn) }
            if status == .done, request.isQuiet { return .done(0) }
            // That a key is absent may come of a change that is not durable yet.
            if status != .exists, turn.waitsForCommit { openCommit() }
            unsafe replyMeta(status, request, key: key, opaque: opaque, MetaAttributes(), &turn)
            return .done(0)
        }
    }

    // MARK: ma

    /// Executes `ma`.
    mutating func metaArithmetic(_ request: MetaRequest, _ input: UnsafeRawBufferPointer, _ turn: inout Turn) -> Step {
        guard replies.openReads == 0 else { return .stalled(.slots) }
        let opaque = unsafe input[request.opaque]
        return unsafe request.withKey(in: input) { key in
            var attributes = MetaAttributes()
            let now = turn.now
            let outcome = turn.cache.arithmetic(
                unsafe Span(_unsafeBytes: key), delta: request.delta, isIncrement: !request.isDecrement,
                terms: request.numberTerms(turn), now: now, flight: proof
            ) { entry in
                attributes.unique = entry.cas
                attributes.clientFlags = entry.flags
                attributes.valueBytes = entry.valueBytes
                attributes.ttl = MetaTTL(until: entry.deadline, now: now)
            }
            if case .unresolved(let obstacle) = outcome { return unsafe overcome(obstacle, key: key, turn) }
            settle(turn)
            count(outcome, isIncrement: !request.isDecrement, turn)
            unsafe answer(outcome, request, key: key, opaque: opaque, attributes, &turn)
            return .done(0)
        }
    }

    private mutating func answer(
        _ outcome: ArithmeticOutcome, _ request: MetaRequest, key: UnsafeRawBufferPointer,
        opaque: UnsafeRawBufferPointer, _ attributes: MetaAttributes, _ turn: inout Turn
    ) {
        switch outcome {
        case .value(let number):
            if request.isQuiet { return }
            if turn.waitsForCommit { openCommit() }
            guard request.flags.contains(.returnValue) else {
                return unsafe replyMeta(.done, request, key: key, opaque: opaque, attributes, &turn)
            }
            let digits = String(number)
            let status = MetaStatus.value(bytes: digits.utf8.count)
            unsafe replyMeta(status, request, key: key, opaque: opaque, attributes, &turn)
            reply(&turn) { $0.append(digits + "\r\n") }
        case .notNumeric:
            reply(.error(.nonNumericValue), &turn)
        case .exists:
            unsafe replyMeta(.exists, request, key: key, opaque: opaque, MetaAttributes(), &turn)
        case .notFound, .unresolved:
            unsafe replyMeta(.notFound, request, key: key, opaque: opaque, MetaAttributes(), &turn)
        }
    }

    /// Counts an arithmetic command, classic or meta.
    func count(_ outcome: ArithmeticOutcome, isIncrement: Bool, _ turn: borrowing Turn) {
        switch outcome {
        case .value: turn.counters.add(isIncrement ? .incrementHits : .decrementHits)
        case .notFound: turn.counters.add(isIncrement ? .incrementMisses : .decrementMisses)
        case .exists, .notNumeric, .unresolved: break
        }
    }
}

extension MetaRequest {
    /// Whether an `ms` compares as `cas` does, and is counted with it: set and replace.
    var comparesLikeCAS: Bool {
        compareUnique != nil && storeMode != .add && storeMode != .append && storeMode != .prepend
    }

    /// What `ms` asks for beside its mode.
    fileprivate func storeTerms(_ turn: borrowing Turn) -> StoreTerms {
        var terms = StoreTerms()
        // As in memcached: add never compares, and append and prepend do not compare with 0.
        let compares = storeMode != .add && (comparesLikeCAS || compareUnique != 0)
        terms.compare = compares ? compareUnique : nil
        terms.marksStaleIfOlder = flags.contains(.invalidate)
        terms.explicitCAS = newUnique
        terms.vivify = vivifyExpiration.map { turn.deadline($0) }
        terms.hasBinaryKey = flags.contains(.base64Key)
        return terms
    }

    /// What `ma` asks for beside its delta.
    fileprivate func numberTerms(_ turn: borrowing Turn) -> NumberTerms {
        var terms = NumberTerms()
        terms.compare = compareUnique == 0 ? nil : compareUnique
        terms.explicitCAS = newUnique
        terms.deadline = expiration.map { turn.deadline($0) }
        if let vivifyExpiration {
            terms.initial = initial
            terms.initialDeadline = turn.deadline(vivifyExpiration)
        }
        terms.hasBinaryKey = flags.contains(.base64Key)
        return terms
    }

    /// What `md` does to an entry: delete it, mark it stale (`I`), or take its value away (`x`).
    fileprivate func remove(_ edit: inout EntryEdit, deadline: Instant?, freshCAS: UInt64) -> MetaStatus {
        edit.isRead = false
        guard edit.isPresent else { return .notFound }
        if let compareUnique, compareUnique != edit.cas { return .exists }
        let (marksStale, removesValue) = (flags.contains(.invalidate), flags.contains(.removeValue))
        guard marksStale || removesValue else {
            edit.action = .delete
            return .done
        }
        // An entry without its value is stored anew, and marked afterwards.
        edit.isStale = marksStale
        edit.isWon = false
        if removesValue { edit.action = .empty }
        edit.cas = newUnique ?? (marksStale ? freshCAS : edit.cas)
        if let deadline { edit.deadline = deadline }
        return .done
    }
}
