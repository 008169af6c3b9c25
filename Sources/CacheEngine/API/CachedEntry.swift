// An entry as the blocking and async operations hand it out: a copy, independent of the cache.

import Primitives

/// A copy of an entry: its value and what belongs to it.
public struct CachedEntry: Sendable, Equatable {
    /// The value.
    public var value: [UInt8]
    /// The number that was stored with it.
    public var flags: UInt32
    /// The id of this version of the value, for `compareAndSet`; it never repeats.
    public var cas: UInt64
    /// The data that was stored beside it.
    public var extended: [UInt8]
    /// What was left of its time to live when it was read; nil: it does not expire.
    public var timeToLive: Duration?

    init(_ view: EntryView, now: Instant) {
        // SAFETY: view, pin and stream keep their bytes during these initialisers, which copy them.
        value = unsafe Array(view.value)
        flags = view.flags
        cas = view.cas
        extended = unsafe Array(view.extended)
        timeToLive = view.deadline.timeLeft(at: now)
    }

    init(_ pinned: PinnedEntry, now: Instant) {
        value = unsafe Array(pinned.value)
        flags = pinned.flags
        cas = pinned.cas
        extended = unsafe Array(pinned.extended)
        timeToLive = pinned.deadline.timeLeft(at: now)
    }

    /// An entry whose value is still to be read from `stream`.
    init(_ stream: ValueStream, now: Instant) {
        value = []
        value.reserveCapacity(stream.valueBytes)
        flags = stream.flags
        cas = stream.cas
        extended = stream.extended
        timeToLive = stream.deadline.timeLeft(at: now)
    }
}

extension Instant {
    /// The deadline of what lives for `time` from now on, rounded up to a whole millisecond; `.never` for nil.
    func advanced(by time: Duration?) -> Instant {
        guard let time else { return .never }
        return advanced(byMilliseconds: time.milliseconds)
    }

    /// The time from `now` to this deadline; nil for `.never`.
    func timeLeft(at now: Instant) -> Duration? {
        self == .never ? nil : .milliseconds(milliseconds &- now.milliseconds)
    }
}

extension Duration {
    /// Whole milliseconds, rounded up; saturates.
    var milliseconds: Int64 {
        let (seconds, attoseconds) = components
        let (whole, overflow) = seconds.multipliedReportingOverflow(by: 1000)
        if overflow { return seconds > 0 ? .max : .min }
        let attosecondsPerMillisecond: Int64 = 1_000_000_000_000_000
        let (quotient, rest) = attoseconds.quotientAndRemainder(dividingBy: attosecondsPerMillisecond)
        let (sum, carry) = whole.addingReportingOverflow(quotient + (rest > 0 ? 1 : 0))
        return carry ? (whole > 0 ? .max : .min) : sum
    }
}
