// mg, me: meta retrievals.
//
// One look at the entry, under its shard's lock, decides everything: what is shown, who wins the right to renew, the
// new deadline. What only the disk knows becomes a slot, as for get; a slot asks again when the engine has looked it
// up.

import CacheEngine
import Primitives
import Protocol

/// A meta request that outlives its line, because it waits for the engine or for its data block.
final class KeptMetaRequest {
    let request: MetaRequest
    /// Decoded, if it came as base64.
    let key: [UInt8]
    let opaque: [UInt8]

    init(_ request: MetaRequest, key: UnsafeRawBufferPointer, opaque: UnsafeRawBufferPointer) {
        self.request = request
        // SAFETY: both are copied.
        self.key = unsafe Array(key)
        self.opaque = unsafe Array(opaque)
    }
}

/// What became of a look at an entry.
private enum MetaLook {
    /// Answered.
    case hit
    case miss
    /// The line is written, from the mark on; the value has to be streamed from its file.
    case file(StreamedValue, line: OutputMark)
    case unresolved(Obstacle)
}

extension Session {
    /// Executes `mg` or `me`.
    mutating func metaGet(_ request: MetaRequest, _ input: UnsafeRawBufferPointer, _ turn: inout Turn) -> Step {
        if request.changesEntry {
            guard replies.openReads == 0 else { return .stalled(.slots) }
            if turn.waitsForCommit { openCommit() }
        }
        count(request, turn)
        let opaque = unsafe input[request.opaque]
        unsafe request.withKey(in: input) { key in
            let look = unsafe look(request, key: key, opaque: opaque, &turn)
            switch look {
            case .hit, .miss: count(look, of: request, turn)
            case .file(let value, let line):
                openStream(value, line, unsafe KeptMetaRequest(request, key: key, opaque: opaque), &turn)
            case .unresolved(let obstacle):
                let question = unsafe KeptMetaRequest(request, key: key, opaque: opaque)
                let number = replies.append(Slot(.meta(question), asked: turn.began))
                overcome(obstacle, question.key, number, turn)
            }
        }
        return .done(0)
    }

    /// Looks at the entry and writes the answer where the next reply goes.
    private mutating func look(
        _ request: MetaRequest, key: UnsafeRawBufferPointer, opaque: UnsafeRawBufferPointer, _ turn: inout Turn
    ) -> MetaLook {
        let terms = MetaTerms(request, turn)
        let cache = turn.cache
        if let last = replies.last {
            return unsafe terms.look(cache, key: key, opaque: opaque, flight: nil, hasWaited: false, &last.following)
        }
        return unsafe terms.look(cache, key: key, opaque: opaque, flight: nil, hasWaited: false, &turn.output)
    }

    /// Makes the line that was just written the beginning of a slot, and asks for the value that follows it.
    private mutating func openStream(
        _ value: StreamedValue, _ line: OutputMark, _ question: KeptMetaRequest, _ turn: inout Turn
    ) {
        let slot = Slot(.meta(question), asked: turn.began)
        if let last = replies.last {
            last.following.moveTail(from: line, to: &slot.lead)
        } else {
            turn.output.moveTail(from: line, to: &slot.lead)
        }
        let number = replies.append(slot)
        replies.noteSize(value.valueBytes)
        if mayDefer(slot) { slot.answer = .deferred } else { turn.cache.open(value, waiter: waiter(number, turn)) }
    }

    // MARK: Slots

    /// Takes the engine's answer for a meta retrieval.
    mutating func complete(
        _ slot: Slot, _ number: UInt32, _ question: KeptMetaRequest, _ completion: Completion, _ turn: borrowing Turn
    ) {
        let request = question.request
        switch completion.outcome {
        case .stream(let stream):
            turn.counters.add(.getHits)
            turn.noteWait(.getDisk, since: slot.asked, key: question.key)
            finish(slot, number, .stream(stream, .unstarted), isChange: request.changesEntry, turn)
        case .absent:
            // The file is damaged: a miss, whatever was to be said of it.
            slot.lead.removeAll()
            question.appendMiss(to: &slot.lead)
            turn.counters.add(.getMisses)
            turn.noteWait(.getDiskMiss, since: slot.asked, key: question.key)
            replies.answer(slot, .nothing)
        case .retry, .entry, .chunk, .failed: lookAgain(slot, number, question, completion.flight, turn)
        }
    }

    /// The engine says that memory may know by now.
    mutating func lookAgain(
        _ slot: Slot, _ number: UInt32, _ question: KeptMetaRequest, _ flight: Flight?, _ turn: borrowing Turn
    ) {
        // An earlier look may have written a line for a value that has moved since.
        slot.lead.removeAll()
        let terms = MetaTerms(question.request, turn)
        let look = unsafe question.key.withUnsafeBytes { key in
            unsafe question.opaque.withUnsafeBytes { opaque in
                unsafe terms.look(
                    turn.cache, key: key, opaque: opaque, flight: flight, hasWaited: true, &slot.lead)
            }
        }
        switch look {
        case .hit, .miss:
            replies.noteSize(slot.lead.referencedBytes)
            count(look, of: question.request, turn)
            let isHit = if case .hit = look { true } else { false }
            turn.noteWait(isHit ? .getDisk : .getDiskMiss, since: slot.asked, key: question.key)
            observe(look, of: question, turn)
            finish(slot, number, .nothing, isChange: question.request.changesEntry, turn)
        case .file(let value, _):
            replies.noteSize(value.valueBytes)
            if mayDefer(slot) { slot.answer = .deferred } else { turn.cache.open(value, waiter: waiter(number, turn)) }
        case .unresolved(let obstacle):
            overcome(obstacle, question.key, number, turn)
        }
    }

    private func observe(_ look: MetaLook, of question: KeptMetaRequest, _ turn: borrowing Turn) {
        guard !turn.observation.isEmpty, question.request.operation == .get else { return }
        let isHit = if case .hit = look { true } else { false }
        unsafe question.key.withUnsafeBytes { unsafe noteDiskLook(at: $0, isHit: isHit, turn) }
    }

    private func overcome(_ obstacle: Obstacle, _ key: [UInt8], _ number: UInt32, _ turn: borrowing Turn) {
        turn.cache.overcome(obstacle, key: key.span, waiter: waiter(number, turn))
    }

    // MARK: Counting

    private func count(_ request: MetaRequest, _ turn: borrowing Turn) {
        guard request.operation == .get else { return turn.counters.add(.metaCommands) }
        turn.counters.add(request.flags.contains(.ttl) ? .touchCommands : .getCommands)
    }

    private func count(_ look: MetaLook, of request: MetaRequest, _ turn: borrowing Turn) {
        guard request.operation == .get else { return }
        let isTouch = request.flags.contains(.ttl)
        if case .miss = look {
            turn.counters.add(isTouch ? .touchMisses : .getMisses)
        } else {
            turn.counters.add(isTouch ? .touchHits : .getHits)
        }
    }
}

extension MetaRequest {
    /// Whether a retrieval may change its entry, so that it has to keep its place among the client's changes.
    var changesEntry: Bool {
        !flags.isDisjoint(with: [.ttl, .vivify, .recache])
    }
}

extension KeptMetaRequest {
    /// Appends the answer for a key that holds nothing.
    func appendMiss(to output: inout Output) {
        unsafe key.withUnsafeBytes { key in
            unsafe opaque.withUnsafeBytes { opaque in
                unsafe output.appendMetaMiss(request, key: key, opaque: opaque)
            }
        }
    }
}

extension Output {
    /// Appends the answer of `mg` or `me` for a key that holds nothing, unless it is quiet.
    fileprivate mutating func appendMetaMiss(
        _ request: MetaRequest, key: UnsafeRawBufferPointer, opaque: UnsafeRawBufferPointer
    ) {
        if request.isQuiet { return }
        let key = unsafe MetaReplyKey(key, isBinary: request.flags.contains(.base64Key))
        unsafe bytes.appendMeta(
            .miss, returns: request.operation == .get ? request.returns : MetaReturnOrder(), key: key, opaque: opaque,
            MetaAttributes())
    }
}

/// A meta retrieval with its times resolved.
private struct MetaTerms {
    let request: MetaRequest
    let now: Instant
    let deadline: Instant?
    let vivifyDeadline: Instant?

    init(_ request: MetaRequest, _ turn: borrowing Turn) {
        self.request = request
        now = turn.now
        deadline = request.expiration.map { turn.deadline($0) }
        vivifyDeadline = request.vivifyExpiration.map { turn.deadline($0) }
    }

    /// Looks at the entry, decides, and writes the answer to `output`; nothing is written when it is unresolved.
    func look(
        _ cache: Cache, key: UnsafeRawBufferPointer, opaque: UnsafeRawBufferPointer, flight: Flight?,
        hasWaited: Bool, _ output: inout Output
    ) -> MetaLook {
        let mark = output.mark
        var look = MetaLook.miss
        let outcome = cache.edit(unsafe Span(_unsafeBytes: key), now: now, flight: flight) { edit in
            edit.hasWaited = hasWaited
            if request.operation == .inspect {
                look = unsafe inspect(&edit, key: key, opaque: opaque, &output)
            } else {
                look = unsafe retrieve(&edit, cache, key: key, opaque: opaque, &output)
            }
        }
        if case .unresolved(let obstacle) = outcome {
            output.rewind(to: mark)
            return .unresolved(obstacle)
        }
        return look
    }

    private func retrieve(
        _ edit: inout EntryEdit, _ cache: Cache, key: UnsafeRawBufferPointer, opaque: UnsafeRawBufferPointer,
        _ output: inout Output
    ) -> MetaLook {
        let line = output.mark
        edit.isRead = !request.flags.contains(.noBump)
        var attributes = MetaAttributes()
        if edit.isPresent {
            attributes = decide(&edit)
        } else if let vivifyDeadline {
            attributes = vivify(&edit, vivifyDeadline, cache)
        } else {
            unsafe output.appendMetaMiss(request, key: key, opaque: opaque)
            return .miss
        }
        let isUnchanged = edit.isPresent && request.compareUnique == attributes.unique
        let showsValue = request.flags.contains(.returnValue) && !isUnchanged
        unsafe output.bytes.appendMeta(
            showsValue ? .value(bytes: edit.valueBytes) : .done, returns: request.returns,
            key: MetaReplyKey(key, isBinary: edit.hasBinaryKey), opaque: opaque, attributes)
        guard showsValue else { return edit.isPresent ? .hit : .miss }
        if edit.isFileOnly, let value = edit.streamedValue(of: cache) { return .file(value, line: line) }
        output.appendValue(edit)
        return edit.isPresent ? .hit : .miss
    }

    /// What is shown of a present entry, and what changes about it.
    private func decide(_ edit: inout EntryEdit) -> MetaAttributes {
        var attributes = MetaAttributes()
        attributes.unique = edit.cas
        attributes.clientFlags = edit.flags
        attributes.wasHit = edit.wasFetched
        attributes.lastAccessSeconds = UInt64(edit.secondsSinceAccess)
        attributes.valueBytes = edit.valueBytes
        attributes.isStale = edit.isStale
        attributes.isWonByOther = edit.isWon
        if !edit.isWon, edit.isStale || endsSoon(edit.deadline) {
            edit.isWon = true
            attributes.isWon = true
        }
        attributes.ttl = timeLeft(edit.deadline)
        if let deadline {
            edit.deadline = deadline
            if !request.showsOldTTL { attributes.ttl = timeLeft(deadline) }
        }
        return attributes
    }

    /// Creates an empty entry that this client has won.
    private func vivify(_ edit: inout EntryEdit, _ deadline: Instant, _ cache: Cache) -> MetaAttributes {
        edit.action = .vivify(deadline: deadline)
        edit.cas = request.newUnique ?? cache.nextCAS()
        edit.hasBinaryKey = request.flags.contains(.base64Key)
        var attributes = MetaAttributes()
        attributes.unique = edit.cas
        attributes.clientFlags = 0
        attributes.wasHit = false
        attributes.lastAccessSeconds = 0
        attributes.valueBytes = 0
        attributes.ttl = timeLeft(deadline)
        attributes.isWon = true
        return attributes
    }

    private func endsSoon(_ deadline: Instant) -> Bool {
        guard let seconds = request.recacheSeconds, case .seconds(let left) = timeLeft(deadline) else { return false }
        return Int64(left) < seconds
    }

    private func timeLeft(_ deadline: Instant) -> MetaTTL { MetaTTL(until: deadline, now: now) }

    private func inspect(
        _ edit: inout EntryEdit, key: UnsafeRawBufferPointer, opaque: UnsafeRawBufferPointer, _ output: inout Output
    ) -> MetaLook {
        edit.isRead = false
        guard edit.isPresent else {
            unsafe output.appendMetaMiss(request, key: key, opaque: opaque)
            return .miss
        }
        var attributes = MetaAttributes()
        attributes.unique = edit.cas
        attributes.wasHit = edit.wasFetched
        attributes.lastAccessSeconds = UInt64(edit.secondsSinceAccess)
        attributes.ttl = timeLeft(edit.deadline)
        unsafe output.bytes.appendMetaInspection(
            key: MetaReplyKey(key, isBinary: edit.hasBinaryKey), attributes, totalBytes: edit.accountedBytes)
        return .hit
    }
}

extension MetaTTL {
    /// The whole seconds from `now` to `deadline`.
    init(until deadline: Instant, now: Instant) {
        self =
            deadline == .never
            ? .unlimited : .seconds(UInt64(max(0, deadline.milliseconds - now.milliseconds) / 1000))
    }
}
