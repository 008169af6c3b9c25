// The state behind `lru_crawler`: whether it may be used, and who uses it now.
//
// The crawler is memcached's name for a thread that walks through all entries. Here dumps are steps of the client's own
// session, and crawls are done by the engine's background thread; what is left is what operators can see and set.
// Thread-safe.

import Synchronization

/// Switches and counts of the crawler.
final class Crawler: Sendable {
    private let enabled = Atomic<Bool>(true)
    private let dumping = Atomic<Bool>(false)
    private let startCount = Atomic<UInt64>(0)
    private let sleep = Atomic<UInt32>(100)
    private let count = Atomic<UInt32>(0)

    /// Whether crawls and dumps are allowed.
    var isEnabled: Bool {
        get { enabled.load(ordering: .relaxed) }
        set { enabled.store(newValue, ordering: .relaxed) }
    }

    /// Whether a client's dump is under way.
    var isDumping: Bool { dumping.load(ordering: .relaxed) }

    /// How many crawls and dumps began.
    var starts: UInt64 { startCount.load(ordering: .relaxed) }

    /// `lru_crawler sleep`, in microseconds: kept, without effect.
    var sleepMicroseconds: UInt32 {
        get { sleep.load(ordering: .relaxed) }
        set { sleep.store(newValue, ordering: .relaxed) }
    }

    /// `lru_crawler tocrawl`, in entries; 0 is all: kept, without effect.
    var entriesMax: UInt32 {
        get { count.load(ordering: .relaxed) }
        set { count.store(newValue, ordering: .relaxed) }
    }

    /// Begins a dump; false while another one is under way.
    func beginDump() -> Bool {
        guard !dumping.exchange(true, ordering: .acquiring) else { return false }
        noteStart()
        return true
    }

    /// Ends the dump that was begun.
    func endDump() { dumping.store(false, ordering: .releasing) }

    /// Counts a crawl.
    func noteStart() { startCount.add(1, ordering: .relaxed) }
}
