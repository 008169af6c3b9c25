// How many TLS handshakes a worker begins in a second, and who waits for a turn.
//
// Beginning a handshake is the dearest thing that a stranger can ask for: a signature, about as much work as a thousand
// requests. A bucket of credit bounds it; whoever finds it empty waits in line, and its socket is not looked at. Knows
// no sockets and reads no clock. Belongs to a worker's thread.

import Primitives

/// Admits handshakes at a bounded rate, in the order in which they came.
struct HandshakeGate {
    /// What one handshake costs: credit is counted in thousandths, so that it can grow by the millisecond.
    private static let price: Int64 = 1000
    /// Handshakes that may begin at once, however slow the rate.
    private static let burstMin: Int64 = 2
    /// Unused credit is kept for so many milliseconds.
    private static let burstMilliseconds: Int64 = 100

    private var credit: Int64 = 0
    private var refilledAt = Instant.never
    /// Connections in line; those before `front` have left it.
    private var line: [UInt32] = []
    private var front = 0

    /// Connections in line, those that have closed meanwhile included.
    var waiting: Int { line.count - front }

    /// Whether a handshake may begin at `now`, when `perSecond` of them may begin in a second.
    ///
    /// Nobody overtakes the line.
    mutating func admits(at now: Instant, perSecond: Int64) -> Bool {
        waiting == 0 && spend(at: now, perSecond: perSecond)
    }

    /// Puts a connection at the end of the line.
    mutating func wait(_ connection: UInt32) { line.append(connection) }

    /// The next connection in line that may begin; nil when nobody may yet.
    ///
    /// Those that are not open leave the line and cost nothing.
    mutating func next(at now: Instant, perSecond: Int64, isOpen: (UInt32) -> Bool) -> UInt32? {
        while front < line.count, !isOpen(line[front]) { front += 1 }
        guard front < line.count else {
            line.removeAll(keepingCapacity: true)
            front = 0
            return nil
        }
        guard spend(at: now, perSecond: perSecond) else { return nil }
        let connection = line[front]
        front += 1
        if front > 1024, front * 2 > line.count {
            line.removeFirst(front)
            front = 0
        }
        return connection
    }

    /// Milliseconds until there is credit for one more, at least 1.
    func millisecondsUntilNext(perSecond: Int64) -> Int64 {
        max(1, (Self.price - credit + perSecond - 1) / perSecond)
    }

    private mutating func spend(at now: Instant, perSecond: Int64) -> Bool {
        let most = max(Self.burstMin * Self.price, perSecond * Self.burstMilliseconds)
        if refilledAt == .never {
            credit = most
            refilledAt = now
        } else {
            // More than a second fills every bucket: the product stays small.
            let elapsed = min(1000, max(0, now.milliseconds - refilledAt.milliseconds))
            credit = min(most, credit + elapsed * perSecond)
            refilledAt = max(refilledAt, now)
        }
        guard credit >= Self.price else { return false }
        credit -= Self.price
        return true
    }
}
