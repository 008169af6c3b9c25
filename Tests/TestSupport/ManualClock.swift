// A clock that moves only when a test moves it.

import Primitives
import Synchronization

/// Boot clock and civil clock in the hand of a test.
///
/// Thread-safe.
public final class ManualClock: TimeSource {
    private let boot: Atomic<Int64>
    private let civil: Atomic<Int64>

    /// Starts `boot` milliseconds after boot, at `civil` milliseconds since 1970.
    public init(boot: Int64 = 1_000_000_000, civil: Int64 = 1_700_000_000_000) {
        self.boot = Atomic(boot)
        self.civil = Atomic(civil)
    }

    /// The boot clock as set.
    public func now() -> Instant { Instant(milliseconds: boot.load(ordering: .sequentiallyConsistent)) }

    /// The civil clock as set.
    public func wall() -> WallTime { WallTime(milliseconds: civil.load(ordering: .sequentiallyConsistent)) }

    /// Lets `milliseconds` pass on both clocks.
    public func advance(milliseconds: Int64) {
        boot.wrappingAdd(milliseconds, ordering: .sequentiallyConsistent)
        civil.wrappingAdd(milliseconds, ordering: .sequentiallyConsistent)
    }

    /// Lets `seconds` pass on both clocks.
    public func advance(seconds: Int64) { advance(milliseconds: seconds * 1000) }

    /// Somebody set the civil clock: it jumps, the boot clock does not.
    public func jump(civilMilliseconds: Int64) {
        civil.wrappingAdd(civilMilliseconds, ordering: .sequentiallyConsistent)
    }

    /// The machine was booted anew: the boot clock begins again while civil time goes on.
    public func reboot(boot: Int64 = 10_000) {
        self.boot.store(boot, ordering: .sequentiallyConsistent)
    }
}
