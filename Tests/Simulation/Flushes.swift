// Delayed flushes: an absence of all keys that begins when the clock has come to the earliest time that it may be due,
// and has happened when the clock has come to the latest. The daemon performs it before whatever comes then.

/// One `flush_all` with a delay.
final class DelayedFlush {
    /// Between which times of the true clock it happens; `.max` while there is no answer.
    private(set) var earliest: Int64
    let life: Int64
    var latest = Int64.max
    /// Whether nothing can have come in between.
    var isSure = false
    fileprivate var writes: [(key: KeyModel, write: Write)] = []

    init(_ clock: Int64, seconds: Int) {
        life = Int64(seconds) * 1000
        earliest = clock + life
    }

    fileprivate func postpone(_ milliseconds: Int64) {
        earliest += milliseconds
        if latest != .max { latest += milliseconds }
    }
}

extension Run {
    /// A flush takes the place of one that is to come: now, or soon.
    func doubtFlushes() { for flush in flushes { flush.isSure = false } }

    /// The answer to one: it is the only one.
    func answer(_ flush: DelayedFlush, _ end: Int) {
        endFlushes(end, but: flush)
        flush.latest = trueClock + flush.life + 2
        flush.isSure = true
        passFlush()
    }

    /// A boot has set the store's clock.
    func postponeFlushes(_ milliseconds: Int64) { for flush in flushes { flush.postpone(milliseconds) } }

    /// No answer came: it may be due until then, or never.
    func forget(_ flush: DelayedFlush) { flush.latest = trueClock + flush.life + 2 }

    /// Another flush took their place.
    func endFlushes(_ end: Int, but flush: DelayedFlush? = nil) {
        for other in flushes where other !== flush {
            for (_, write) in other.writes { write.end(end, trueClock) }
        }
        flushes.removeAll { $0 !== flush }
    }

    /// What is due by now.
    func passFlush() {
        for flush in flushes where trueClock >= flush.earliest {
            if flush.writes.isEmpty {
                let began = tick()
                flush.writes = keys.map { ($0, $0.add(Write("delayed flush", nil, began: began))) }
            }
            guard trueClock >= flush.latest else { continue }
            let end = tick()
            for (key, write) in flush.writes {
                key.note("\(end) @\(trueClock) delayed flush, since \(write.began), sure \(flush.isSure)")
                write.end(end, trueClock)
                if flush.isSure {
                    write.confirm(end)
                    write.isAnswered = true
                }
            }
        }
        flushes.removeAll { trueClock >= $0.latest }
    }
}
