// stats explain KEY: where an entry is and what is known about it, without using it.
//
// What memory and the journal cannot tell is looked up by a disk thread, and the session goes on when it has answered.

import CacheEngine
import Primitives
import Protocol

/// A question about a key on its way to the disk and back.
final class Explanation {
    let look = EntryLook()
    var isAnswered = false
}

extension Session {
    /// The same as `requestNumber` for `stats explain`.
    static let lookNumber = UInt32.max - 2

    /// Executes `stats explain <key>`; its lines come after all replies before it.
    mutating func explain(_ key: [UInt8], lineBytes: Int, _ turn: inout Turn) -> Step {
        guard turn.service.allowsDumps else {
            reply(.error(.keyStatsNotAllowed), &turn)
            return .done(lineBytes)
        }
        guard replies.isEmpty else { return .stalled(.slots) }
        let explanation = Explanation()
        phase = .explaining(explanation)
        turn.cache.look(at: key, explanation.look, waiter: waiter(Self.lookNumber, turn))
        return .done(lineBytes)
    }

    /// Writes the answer, when it has come.
    mutating func continueExplanation(_ explanation: Explanation, _ turn: inout Turn) -> Step {
        guard explanation.isAnswered else { return .stalled(.engine) }
        phase = .command
        if let info = explanation.look.info {
            let now = turn.cache.clock.now()
            turn.output.bytes.append(info, requests: turn.service.telemetry.requestsPerSecond(of: info.key, now: now))
        }
        turn.output.append(.end)
        return .done(0)
    }

    /// The answer has come.
    func completeExplanation() -> Bool {
        guard case .explaining(let explanation) = phase else { return false }
        explanation.isAnswered = true
        return true
    }
}

extension ByteBuffer {
    /// Appends what is known about an entry, a line each.
    ///
    /// `requests` is how often its key was requested in a second lately; nil: too seldom to be known.
    fileprivate mutating func append(_ info: EntryInfo, requests: Double?) {
        appendStatistic("tier", info.tier == .memory ? "memory" : "disk")
        appendStatistic("storage", info.storage.rawValue)
        appendStatistic("value_bytes", "\(info.valueBytes)")
        appendStatistic("flags", "\(info.flags)")
        appendStatistic("cas", "\(info.cas)")
        appendStatistic("age_seconds", "\(info.age.components.seconds)")
        appendStatistic("idle_seconds", "\(info.idle.components.seconds)")
        appendStatistic("fetched", info.wasFetched ? "yes" : "no")
        appendStatistic("hits_per_second", fixed(requests ?? 0, places: 2))
        appendStatistic("generation", info.generation.map(Self.hexadecimal) ?? "none")
        appendStatistic("file", info.file ?? "none")
        appendStatistic("ttl_seconds", info.timeToLive.map { "\($0.components.seconds)" } ?? "-1")
    }

    /// A generation as value files are named, so that nobody takes it for a count.
    private static func hexadecimal(_ generation: UInt64) -> String {
        let digits = String(generation, radix: 16)
        return "0x" + String(repeating: "0", count: max(0, 16 - digits.count)) + digits
    }
}
