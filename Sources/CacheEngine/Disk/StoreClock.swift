// The time of a store: the clock of everything that is written in it.
//
// It goes as the boot clock goes, also from one process to the next, so nobody who sets the civil clock moves a
// deadline. After a boot it goes on from the civil clock, but never from before what the anchor has seen: a civil clock
// that was set back, or that a machine without a battery lost, gives no entry more time. Fixed at each start. What
// clients say and are told is civil time, see `MemoryTier`. Pure but for the reading of its source; any thread.

import Primitives

/// Reads the time of one store.
struct StoreClock: Sendable {
    let source: any TimeSource
    /// Store time minus boot time, in ms.
    let offset: Int64

    /// The clock of a store that holds nothing yet: civil time.
    init(_ source: any TimeSource) {
        self.source = source
        offset = source.wall().milliseconds - source.now().milliseconds
    }

    /// The clock of a store that is used as it is.
    ///
    /// `bootID` is the kernel's; an empty one equals none.
    init(_ source: any TimeSource, resuming anchor: StoreAnchor?, bootID: String) {
        self.init(source, resuming: anchor?.moment, isSameBoot: !bootID.isEmpty && anchor?.bootID == bootID)
    }

    private init(_ source: any TimeSource, resuming moment: StoreMoment?, isSameBoot: Bool) {
        let (boot, civil) = (source.now(), source.wall())
        var time = civil.milliseconds
        #if DEBUG
            let isTrusted = SeededBug.isActive(.clockTrusted)
        #else
            let isTrusted = false
        #endif
        if let moment, !isTrusted {
            // A boot clock behind the anchor's is another one, whatever the boot id says (time_namespaces(7)).
            let goesOn = isSameBoot && boot >= moment.boot
            time =
                goesOn
                ? moment.time.milliseconds + (boot.milliseconds - moment.boot.milliseconds)
                : max(time, moment.time.milliseconds)
        }
        self.source = source
        offset = time - boot.milliseconds
    }

    /// Now, on both clocks.
    func moment() -> StoreMoment {
        let boot = source.now()
        return StoreMoment(boot: boot, time: WallTime(milliseconds: boot.milliseconds + offset))
    }
}

/// One point in time, by the boot clock and by the store's.
struct StoreMoment: Equatable, Sendable {
    var boot: Instant
    var time: WallTime

    /// Later than any machine runs, early enough for arithmetic: an anchor with more is not believed in this.
    static let millisecondsMax: Int64 = 1 << 53
}
