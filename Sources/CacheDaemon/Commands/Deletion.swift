// delete, touch, incr, decr, flush_all: changes without a data block.
//
// Each is executed only when no read of this connection is open, so that a client's commands take effect in order. When
// the engine cannot tell from memory, the line stays in the input, and the request is parsed and executed again once
// the engine has found out; `proof` carries what it found.

import CacheEngine
import Primitives
import Protocol

/// What incr or decr does.
struct NumberChange {
    let delta: UInt64
    let isIncrement: Bool
}

extension Session {
    /// Executes `delete <key>`.
    mutating func delete(_ key: UnsafeRawBufferPointer, isQuiet: Bool, _ turn: inout Turn) -> Step {
        guard replies.openReads == 0 else { return .stalled(.slots) }
        let observedBytes = unsafe bytesBeforeDeletion(of: key, turn)
        // A client that wants no reply does not ask whether there was an entry: no disk read is needed.
        // SAFETY: the span does not outlive the call, and the input stays in place during it. The same below.
        let outcome = turn.cache.delete(
            unsafe Span(_unsafeBytes: key), isBlind: isQuiet, now: turn.now, flight: proof)
        switch outcome {
        case .deleted:
            turn.counters.add(.deleteHits)
            if let observedBytes { unsafe noteDeletion(key, command: "delete", valueBytes: observedBytes, turn) }
            acknowledge(.deleted, isQuiet: isQuiet, &turn)
        case .notFound, .exists:
            turn.counters.add(.deleteMisses)
            // The key may be absent by a change that is not durable yet.
            acknowledge(.notFound, isQuiet: isQuiet, &turn)
        case .unresolved(let obstacle):
            return unsafe overcome(obstacle, key: key, turn)
        }
        settle(turn)
        return .done(0)
    }

    /// Executes `touch <key> <exptime>`.
    mutating func touch(
        _ key: UnsafeRawBufferPointer, _ expiration: Expiration, isQuiet: Bool, _ turn: inout Turn
    ) -> Step {
        guard replies.openReads == 0 else { return .stalled(.slots) }
        let outcome = turn.cache.touch(
            unsafe Span(_unsafeBytes: key), deadline: turn.deadline(expiration), now: turn.now, flight: proof)
        switch outcome {
        case .touched:
            turn.counters.add(.touchHits)
            acknowledge(.touched, isQuiet: isQuiet, &turn)
        case .notFound, .exists:
            turn.counters.add(.touchMisses)
            if !isQuiet { reply(.notFound, &turn) }
        case .unresolved(let obstacle):
            return unsafe overcome(obstacle, key: key, turn)
        }
        turn.counters.add(.touchCommands)
        settle(turn)
        return .done(0)
    }

    /// Executes `incr <key> <delta>` or `decr <key> <delta>`.
    mutating func arithmetic(
        _ key: UnsafeRawBufferPointer, _ change: NumberChange, isQuiet: Bool, _ turn: inout Turn
    ) -> Step {
        guard replies.openReads == 0 else { return .stalled(.slots) }
        let outcome = turn.cache.arithmetic(
            unsafe Span(_unsafeBytes: key), delta: change.delta, isIncrement: change.isIncrement, now: turn.now,
            flight: proof)
        switch outcome {
        case .value(let number):
            acknowledge(.number(number), isQuiet: isQuiet, &turn)
        case .notFound:
            if !isQuiet { reply(.notFound, &turn) }
        case .notNumeric, .exists:
            if !isQuiet { reply(.error(.nonNumericValue), &turn) }
        case .unresolved(let obstacle):
            return unsafe overcome(obstacle, key: key, turn)
        }
        count(outcome, isIncrement: change.isIncrement, turn)
        settle(turn)
        return .done(0)
    }

    /// Executes `flush_all [delay]`.
    mutating func flushAll(_ delay: Expiration?, isQuiet: Bool, _ turn: inout Turn) -> Step {
        guard replies.openReads == 0 else { return .stalled(.slots) }
        turn.counters.add(.flushCommands)
        guard turn.service.allowsFlush else {
            if !isQuiet { reply(.error(.flushNotAllowed), &turn) }
            return .done(0)
        }
        turn.endShare()
        turn.cache.flushAll(at: delay.map { turn.deadline($0) }, now: turn.now)
        turn.service.log.write(.notice, "flush_all", ["delayed": delay == nil ? "no" : "yes"])
        acknowledge(.ok, isQuiet: isQuiet, &turn)
        return .done(0)
    }
}
