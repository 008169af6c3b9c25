// What one thread counts: plain increments by the owner, relaxed reads by whoever reports.
//
// Each worker has its own, so counting costs no shared cache line and no locked instruction. Sums over all threads are
// taken by StatsReport.swift; `stats reset` remembers the sums of that moment and subtracts them from then on.

import Synchronization

/// Everything that sessions, connections and listeners count.
enum Counter: Int, CaseIterable, Sendable {
    case getCommands, getHits, getMisses
    case setCommands, flushCommands, touchCommands, metaCommands
    case deleteHits, deleteMisses
    case incrementHits, incrementMisses, decrementHits, decrementMisses
    case casHits, casMisses, casMismatches
    case touchHits, touchMisses
    case valuesTooLarge, valuesWithoutMemory
    case bytesRead, bytesWritten
    case connectionsOpened, connectionsClosed, connectionsRejected, binaryRejected
    case idleKicks, requestTimeouts, sendTimeouts, memoryKicks, yields
    case tlsHandshakes, tlsHandshakeErrors, handshakeTimeouts, handshakesDelayed, tlsProtocolErrors
    case listenPauses
    case loginCommands, loginFailures, loginTimeouts, requestsNotPermitted
}

/// The counters of one thread.
final class Counters: Sendable {
    private let cells = InlineArray<64, Atomic<UInt64>> { _ in Atomic(0) }

    /// Adds to a counter; only its owner's thread may.
    @inline(__always)
    func add(_ counter: Counter, _ amount: Int = 1) {
        let before = cells[counter.rawValue].load(ordering: .relaxed)
        cells[counter.rawValue].store(before &+ UInt64(truncatingIfNeeded: amount), ordering: .relaxed)
    }

    /// The counter's value, from any thread; may lag behind the owner.
    func read(_ counter: Counter) -> UInt64 { cells[counter.rawValue].load(ordering: .relaxed) }
}

/// Sums of counters at one moment.
struct CounterTotals: Sendable {
    private var values = [UInt64](repeating: 0, count: Counter.allCases.count)

    /// The sums over `threads`.
    init(_ threads: [Counters] = []) {
        for counter in Counter.allCases {
            for thread in threads { values[counter.rawValue] &+= thread.read(counter) }
        }
    }

    /// One sum.
    subscript(counter: Counter) -> UInt64 { values[counter.rawValue] }

    /// What was counted since `earlier`.
    func since(_ earlier: CounterTotals) -> CounterTotals {
        var totals = self
        for index in values.indices { totals.values[index] &-= earlier.values[index] }
        return totals
    }
}
