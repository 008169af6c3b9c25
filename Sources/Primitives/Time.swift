// Two clocks, two types: they cannot be mixed up.
//
// `Instant` counts milliseconds of CLOCK_BOOTTIME: it never jumps, and it counts suspended time, so TTLs held in memory
// end when people expect. `WallTime` is milliseconds since 1970: by the civil clock, which may jump, for what comes
// from clients and goes to people; by a clock of the store's own for what outlives the process (deadlines on disk).

import Glibc

/// A point on the boot clock, in milliseconds; meaningless in another boot.
public struct Instant: Comparable, Hashable, Sendable {
    /// Milliseconds since boot.
    public var milliseconds: Int64

    /// The instant `milliseconds` after boot.
    @inlinable
    public init(milliseconds: Int64) { self.milliseconds = milliseconds }

    /// Later than every instant: the deadline of what never expires.
    @inlinable
    public static var never: Instant { Instant(milliseconds: .max) }

    /// Order in time.
    @inlinable
    public static func < (left: Instant, right: Instant) -> Bool { left.milliseconds < right.milliseconds }

    /// This instant moved by `milliseconds`; saturates at both ends, `.never` stays `.never`.
    @inlinable
    public func advanced(byMilliseconds milliseconds: Int64) -> Instant {
        if self.milliseconds == .max { return self }
        let (sum, overflow) = self.milliseconds.addingReportingOverflow(milliseconds)
        return Instant(milliseconds: overflow ? (milliseconds > 0 ? .max : .min) : sum)
    }
}

/// A point in civil time, in milliseconds since 1970-01-01T00:00:00Z.
public struct WallTime: Comparable, Hashable, Sendable {
    /// Milliseconds since the epoch.
    public var milliseconds: Int64

    /// The time `milliseconds` after the epoch.
    @inlinable
    public init(milliseconds: Int64) { self.milliseconds = milliseconds }

    /// Later than every time: the deadline of what never expires.
    @inlinable
    public static var never: WallTime { WallTime(milliseconds: .max) }

    /// Order in time.
    @inlinable
    public static func < (left: WallTime, right: WallTime) -> Bool { left.milliseconds < right.milliseconds }

    /// Whole seconds since the epoch.
    public var seconds: Int64 { milliseconds / 1000 }
}

/// Where time comes from: the system's clocks in production, a hand-moved one in tests.
public protocol TimeSource: Sendable {
    /// Now, on the boot clock.
    func now() -> Instant
    /// Now, in civil time.
    func wall() -> WallTime
    /// Now, on the boot clock, in nanoseconds: for measuring short times.
    func nanoseconds() -> Int64
}

extension TimeSource {
    /// As exact as `now`.
    public func nanoseconds() -> Int64 { now().milliseconds &* 1_000_000 }
}

/// The kernel's clocks; see clock_gettime(2).
public struct SystemClock: TimeSource {
    /// Makes the system's time source.
    public init() {}

    /// CLOCK_BOOTTIME.
    public func now() -> Instant { Instant(milliseconds: Self.read(CLOCK_BOOTTIME)) }

    /// CLOCK_REALTIME.
    public func wall() -> WallTime { WallTime(milliseconds: Self.read(CLOCK_REALTIME)) }

    /// Microseconds of CLOCK_MONOTONIC, the clock of service managers.
    public static func monotonicMicroseconds() -> Int64 {
        let time = time(CLOCK_MONOTONIC)
        return Int64(time.tv_sec) &* 1_000_000 &+ Int64(time.tv_nsec) / 1000
    }

    /// CLOCK_BOOTTIME, unrounded.
    public func nanoseconds() -> Int64 {
        let time = Self.time(CLOCK_BOOTTIME)
        return Int64(time.tv_sec) &* 1_000_000_000 &+ Int64(time.tv_nsec)
    }

    private static func read(_ clock: clockid_t) -> Int64 {
        let time = time(clock)
        return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
    }

    private static func time(_ clock: clockid_t) -> timespec {
        var time = timespec()
        // SAFETY: the kernel fills `time`, which lives until the call returns.
        let result = unsafe clock_gettime(clock, &time)
        invariant(result == 0, "clock_gettime: errno \(errno)")
        return time
    }
}
