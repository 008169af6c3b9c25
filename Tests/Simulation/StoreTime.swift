// The time of the store, as it must be: by the boot clock as long as a boot lasts; after another boot by the civil
// clock, but not before what the store had surely seen. All in ms ahead of the true clock, which nobody sets.

import TestSupport

/// What a start may take for the time.
struct StoreTimeModel {
    /// How far the civil clock is ahead, by all that was done to it.
    var civil: Int64 = 0
    /// How far the store's is.
    var store: Int64 = 0
    /// The true time that the anchor has surely seen, and the boot in which the store's time was taken.
    var seen: Int64 = 0
    var boot = 1
    /// Starts since the last one that succeeded.
    var attempts = 0

    /// What a start in `boot` at the true time `now` may take for a store that was there.
    func allowed(boot: Int, now: Int64) -> ClosedRange<Int64> {
        if self.boot == boot { return store...store }
        return max(civil, store - (now - seen))...max(civil, store)
    }
}

extension Run {
    /// Takes the time that a start, which began at the true time `begin`, has begun with, if it may.
    func checkClock(_ begin: Int64) throws {
        guard let daemon, plan.options.disk != nil else { return }
        let ahead = daemon.time.milliseconds - Self.civilBegin - trueClock
        let isResumed = daemon.report.hasPrefix("resumed")
        let allowed = storeTime.allowed(boot: boots, now: trueClock)
        trace("the store's clock is ahead by \(ahead)")
        // A new store begins with civil time, also in place of one that was given up, unless that was noticed late; one
        // that a start has made which failed is resumed. A bit that flips in a slot of the anchor leaves an older one.
        let isNew = ahead == storeTime.civil && (!isResumed || storeTime.attempts > 1)
        let mayBeOld = plan.faults == .damage && ahead <= allowed.upperBound
        guard isNew || mayBeOld || allowed.contains(ahead) else {
            throw Wrong(description: "the store's clock is ahead by \(ahead), not by \(allowed)")
        }
        if isResumed, ahead != storeTime.store {
            for key in keys { key.postpone(storeTime.store - ahead) }
            postponeFlushes(storeTime.store - ahead)
        }
        storeTime.attempts = 0
        storeTime.store = ahead
        storeTime.boot = boots
        storeTime.seen = begin
    }
}
