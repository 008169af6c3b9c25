// What this run knows of each key, so that a reply can be called stale.
//
// A value of version v is stale if some set w was sent after v's set was answered, and w was answered before the get
// was sent. Sets of one key overlap on many connections and the server may apply those in any order, so for each w only
// the versions are known to be older that were answered when w was sent: all of them if no set of the key was on its
// way then, and else nothing is concluded. Each key is written by one thread only (key mod threads), so its counts need
// no lock; other threads read the floor.

import Synchronization

/// Version counts of all keys.
@safe
final class KeyStates: Sendable {
    private struct State: ~Copyable {
        /// Versions given out; the last one's number.
        var issued: UInt32 = 0
        /// Sets answered, whatever the answer.
        var answered: UInt32 = 0
        /// No value below this version may be seen any more.
        let floor = Atomic<UInt32>(0)
    }

    /// What a set has to remember until its answer.
    struct Ticket: Equatable, Sendable {
        /// The version that was sent.
        var version: UInt32
        /// All versions up to this one were answered before; `unknown` if some set was on its way.
        var settled: UInt32
        static let unknown = UInt32.max
    }

    // SAFETY: allocated and initialized in `init`, freed in deinit. `issued` and `answered` of a key are touched by its
    // one writing thread only, `floor` is atomic.
    nonisolated(unsafe) private let states: UnsafeMutablePointer<State>
    private let count: Int

    /// Knows nothing of `count` keys.
    init(count: Int) {
        self.count = count
        unsafe states = .allocate(capacity: count)
        for index in 0..<count { unsafe (states + index).initialize(to: State()) }
    }

    deinit {
        unsafe states.deinitialize(count: count)
        unsafe states.deallocate()
    }

    /// A set of `key` is about to be sent.
    ///
    /// The key's writing thread only.
    @inline(__always)
    func issue(_ key: UInt32) -> Ticket {
        let index = Int(key)
        precondition(index < count)
        let issued = unsafe states[index].issued
        let settled = unsafe states[index].answered == issued ? issued : Ticket.unknown
        unsafe states[index].issued = issued &+ 1
        return Ticket(version: issued &+ 1, settled: settled)
    }

    /// The set was answered.
    ///
    /// The key's writing thread only. A set that never is must not be reported.
    @inline(__always)
    func answer(_ key: UInt32, _ ticket: Ticket, stored: Bool) {
        let index = Int(key)
        precondition(index < count)
        unsafe states[index].answered &+= 1
        guard stored, ticket.settled != Ticket.unknown else { return }
        let floor = ticket.settled &+ 1
        if unsafe floor > states[index].floor.load(ordering: .relaxed) {
            unsafe states[index].floor.store(floor, ordering: .releasing)
        }
    }

    /// The oldest version that a get of `key` which is sent from now on may bring.
    ///
    /// Any thread.
    @inline(__always)
    func floor(_ key: UInt32) -> UInt32 {
        let index = Int(key)
        precondition(index < count)
        return unsafe states[index].floor.load(ordering: .acquiring)
    }
}
