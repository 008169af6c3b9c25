// The engine's answers for slots: values that came from disk, touches of `gat` and meta commands that had to wait, and
// commits.

import CacheEngine
import Primitives
import Protocol

extension Session {
    /// Takes the engine's answer for a slot.
    mutating func complete(_ slot: Slot, _ number: UInt32, _ completion: Completion, _ turn: inout Turn) {
        if let answer = slot.uncommitted {
            slot.uncommitted = nil
            if case .failed = completion.outcome { return breakOff() }
            return replies.answer(slot, answer)
        }
        if mustDefer(slot, completion, turn) {
            slot.answer = .deferred
            return
        }
        switch (completion.outcome, slot.purpose) {
        case (.failed, _):
            breakOff()
        case (.chunk, _):
            if case .stream(let stream, _) = slot.answer { slot.answer = .stream(stream, .chunkReady) }
        case (_, .commit):
            replies.answer(slot, .nothing)
        case (_, .value(let key, let includesCAS, let touch)):
            let wish = ValueWish(key: key, includesCAS: includesCAS, touch: touch)
            complete(slot, number, wish, completion, turn)
        case (_, .meta(let question)):
            complete(slot, number, question, completion, turn)
        }
    }

    // MARK: Large values in line

    /// Whether an answer is to be let go of until the client has taken the replies before it: the values that a client
    /// lets wait are bounded, and of files only one is open.
    private mutating func mustDefer(_ slot: Slot, _ completion: Completion, _ turn: borrowing Turn) -> Bool {
        let isCrowded = turn.isMemoryScarce || replies.referencedBytes >= Output.referencedBytesMax
        switch completion.outcome {
        case .entry(let entry):
            replies.noteSize(entry.valueBytes)
            return isCrowded && entry.valueBytes > Output.copiedBytesMax && mayDefer(slot)
        case .stream(let stream):
            replies.noteSize(stream.valueBytes)
            return mayDefer(slot)
        case .retry:
            // For a classic command, of a value that only its file has, mostly.
            return completion.flight == nil && (isCrowded || slot.isClassic) && mayDefer(slot)
        case .absent, .chunk, .failed:
            return false
        }
    }

    /// Whether a slot's question may be asked later, in its turn: nothing that comes after it changes entries before.
    func mayDefer(_ slot: Slot) -> Bool { slot.isRead && !slot.isChange && !replies.isFront(slot) }

    /// Asks for a value again, whose turn it is.
    mutating func askAgain(_ slot: Slot, _ number: UInt32, _ turn: borrowing Turn) {
        switch slot.purpose {
        case .value(let key, let includesCAS, let touch):
            lookAgain(slot, number, ValueWish(key: key, includesCAS: includesCAS, touch: touch), nil, turn)
        case .meta(let question): lookAgain(slot, number, question, nil, turn)
        case .commit: break
        }
    }

    // MARK: get and gat

    /// What a slot for a value was asked.
    fileprivate struct ValueWish {
        let key: [UInt8]
        let includesCAS: Bool
        let touch: Instant?
    }

    private mutating func complete(
        _ slot: Slot, _ number: UInt32, _ wish: ValueWish, _ completion: Completion, _ turn: borrowing Turn
    ) {
        switch completion.outcome {
        case .absent: settle(slot, number, .nothing, wish, turn)
        case .entry(let entry): found(slot, number, .entry(entry), wish, completion.flight, turn)
        case .stream(let stream):
            // SAFETY: the key outlives the call.
            unsafe wish.key.withUnsafeBytes { key in
                unsafe slot.lead.bytes.appendValueHeader(
                    key: key, flags: stream.flags, count: stream.valueBytes, cas: wish.includesCAS ? stream.cas : nil)
            }
            found(slot, number, .stream(stream, .unstarted), wish, completion.flight, turn)
        case .retry: lookAgain(slot, number, wish, completion.flight, turn)
        case .chunk, .failed: break
        }
    }

    /// A hit on disk; `gat` gives that very version its new deadline before it counts.
    private mutating func found(
        _ slot: Slot, _ number: UInt32, _ answer: Slot.Answer, _ wish: ValueWish, _ flight: Flight?,
        _ turn: borrowing Turn
    ) {
        guard let touch = wish.touch else { return settle(slot, number, answer, wish, turn) }
        let outcome = turn.cache.touch(
            wish.key.span, deadline: touch, version: answer.version, now: turn.now, flight: flight)
        switch outcome {
        case .touched: settle(slot, number, answer, wish, turn)
        case .exists:
            slot.untouched = nil
            lookAgain(slot, number, wish, nil, turn)
        case .notFound: settle(slot, number, .nothing, wish, turn)
        case .unresolved(let obstacle):
            slot.untouched = answer
            turn.cache.overcome(obstacle, key: wish.key.span, waiter: waiter(number, turn))
        }
    }

    /// The engine says that memory may know by now.
    private mutating func lookAgain(
        _ slot: Slot, _ number: UInt32, _ wish: ValueWish, _ flight: Flight?, _ turn: borrowing Turn
    ) {
        if let untouched = slot.untouched { return found(slot, number, untouched, wish, flight, turn) }
        var pinned: PinnedEntry?
        switch turn.cache.withEntry(wish.key.span, now: turn.now, touch: wish.touch, { pinned = $0.pin() }) {
        case .hit: settle(slot, number, pinned.map { .entry($0) } ?? .nothing, wish, turn)
        case .miss: settle(slot, number, .nothing, wish, turn)
        case .unresolved:
            turn.cache.load(wish.key.span, waiter: waiter(number, turn), touches: wish.touch != nil)
        }
    }

    /// Answers a slot for good and counts the key.
    private mutating func settle(
        _ slot: Slot, _ number: UInt32, _ answer: Slot.Answer, _ wish: ValueWish, _ turn: borrowing Turn
    ) {
        slot.untouched = nil
        let isTouch = wish.touch != nil
        if !turn.observation.isEmpty {
            unsafe wish.key.withUnsafeBytes { key in
                unsafe noteLook(at: key, valueBytes: answer.valueBytes, isGet: true, turn)
            }
        }
        if case .nothing = answer {
            turn.noteWait(.getDiskMiss, since: slot.asked, key: wish.key)
            slot.lead.removeAll()
            turn.counters.add(isTouch ? .touchMisses : .getMisses)
            return replies.answer(slot, answer)
        }
        turn.counters.add(isTouch ? .touchHits : .getHits)
        turn.noteWait(.getDisk, since: slot.asked, key: wish.key)
        finish(slot, number, answer, isChange: isTouch, turn)
    }

    /// Answers a slot; at durability `always`, one that stands for a change only when that is durable.
    mutating func finish(
        _ slot: Slot, _ number: UInt32, _ answer: Slot.Answer, isChange: Bool, _ turn: borrowing Turn
    ) {
        guard isChange, turn.waitsForCommit else { return replies.answer(slot, answer) }
        slot.uncommitted = answer
        turn.cache.commitBarrier(waiter(number, turn))
    }
}
