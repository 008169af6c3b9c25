// `stats detail`: gets, hits, stores and deletions by key prefix.
//
// A prefix is what stands before the first colon of a key; keys without one are not counted. Kept only while an
// operator has switched it on, and bounded: prefixes beyond the bound are counted under none. Thread-safe.

import Primitives

/// Counts by key prefix.
final class PrefixTally: Sendable {
    /// Different prefixes that are kept.
    static let prefixesMax = 10_000

    private struct Counts {
        var gets: UInt64 = 0
        var hits: UInt64 = 0
        var sets: UInt64 = 0
        var deletes: UInt64 = 0
    }

    /// What happened to a key.
    enum Event {
        case get(isHit: Bool)
        case set
        case delete
    }

    /// Guards the counts by prefix.
    private let counts = Guarded([[UInt8]: Counts](), rank: .leaf)

    /// Counts what happened to `key`.
    func note(_ event: Event, key: UnsafeRawBufferPointer) {
        guard let colon = unsafe key.firstIndex(of: UInt8(ascii: ":")) else { return }
        // SAFETY: the bytes are copied.
        let prefix = unsafe Array(key[..<colon])
        counts.withLock { counts in
            guard counts[prefix] != nil || counts.count < Self.prefixesMax else { return }
            switch event {
            case .get(let isHit):
                counts[prefix, default: Counts()].gets += 1
                counts[prefix, default: Counts()].hits += isHit ? 1 : 0
            case .set: counts[prefix, default: Counts()].sets += 1
            case .delete: counts[prefix, default: Counts()].deletes += 1
            }
        }
    }

    /// Forgets everything.
    func reset() { counts.withLock { $0 = [:] } }

    /// Appends a line for each prefix, in no order.
    func append(to reply: inout ByteBuffer) {
        for (prefix, counts) in counts.withLock({ $0 }) {
            reply.append("PREFIX ")
            unsafe prefix.withUnsafeBytes { unsafe reply.append($0) }
            for (name, count) in Self.columns(counts) {
                reply.append(name)
                reply.append(decimal: count)
            }
            reply.append("\r\n")
        }
    }

    private static func columns(_ counts: Counts) -> [(StaticString, UInt64)] {
        [(" get ", counts.gets), (" hit ", counts.hits), (" set ", counts.sets), (" del ", counts.deletes)]
    }
}
