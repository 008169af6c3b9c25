// Values that lie apart from their entries: how much memory they take, and how it is given back.
//
// Giving a value of a megabyte back takes as long as many requests; whoever removes or replaces one does not pay for
// it: the background thread does. What waits here still takes memory that no limit counts, so it is little: beyond
// that, the caller frees for himself. malloc keeps what is freed for values to come; when values are replaced by
// smaller entries there are none, so the background thread lets malloc give whole pages back whenever these values have
// come to take much less than before. Values of changing sizes leave holes, too: once a second it compares what the
// process holds with what the entries account for, and has the holes given back.

import CMalloc
import Glibc
import Primitives
import Synchronization

/// Memory of large values.
///
/// Thread-safe.
final class DeferredRelease: Sendable {
    /// Smaller values are freed at once.
    static let blockBytesMin = 256 << 10
    /// At most this much waits.
    static let bytesMax = 8 << 20
    /// malloc may keep this much, and a 32nd of what values took at their peak.
    static let keptBytesMax = 8 << 20

    private struct State {
        var chains: [MemoryChain] = []
        var bytes = 0
        /// Wakes the thread that frees.
        var wake: (@Sendable () -> Void)?
    }

    /// Guards what waits.
    private let state = Guarded(State(), rank: .leaf)
    /// What values that lie apart take, and the most that they took since malloc gave something back.
    private let taken = Atomic<Int>(0)
    private let peak = Atomic<Int>(0)
    private let wantsTrim = Atomic<Bool>(false)
    /// Looks for holes that are left out, and how many were left out before, after trims that helped little.
    private let patience = Atomic<Int>(0)
    private let lastPatience = Atomic<Int>(0)
    private static let patienceMax = 63
    /// Values that wait for their last reader.
    let detached = DetachedValues()

    /// Calls `wake` when there is something to do.
    func setWake(_ wake: (@Sendable () -> Void)?) { state.withLock { $0.wake = wake } }

    /// Bytes that wait.
    var waitingBytes: Int { state.withLock { $0.bytes } }

    /// Takes over a chain of pieces, of which `bytes` count; false if too much waits already, or nobody frees.
    func take(_ chain: MemoryChain, bytes: Int) -> Bool {
        let wake = state.withLock { state -> (@Sendable () -> Void)? in
            guard let wake = state.wake, state.bytes + bytes <= Self.bytesMax else { return nil }
            state.chains.append(chain)
            state.bytes += bytes
            return wake
        }
        wake?()
        return wake != nil
    }

    /// A value of so many bytes was linked.
    func noteTaken(_ bytes: Int) {
        let total = taken.add(bytes, ordering: .relaxed).newValue
        if total > peak.load(ordering: .relaxed) { peak.store(total, ordering: .relaxed) }
    }

    /// Values of so many bytes are on their way to be freed.
    func noteFreed(_ bytes: Int) {
        let total = taken.subtract(bytes, ordering: .relaxed).newValue
        let before = peak.load(ordering: .relaxed)
        guard before - total > Self.keptBytesMax + before / 32 else { return }
        if wantsTrim.exchange(true, ordering: .relaxed) { return }
        state.withLock { $0.wake }?()
    }

    /// Frees what waits, and lets malloc give back what it keeps for no use.
    func freeAll() {
        let chains = state.withLock { state in
            let taken = state.chains
            state.chains = []
            state.bytes = 0
            return taken
        }
        for chain in chains { chain.free() }
        guard wantsTrim.load(ordering: .relaxed) else { return }
        peak.store(taken.load(ordering: .relaxed), ordering: .relaxed)
        wantsTrim.store(false, ordering: .relaxed)
        _ = malloc_trim(0)
    }

    /// Lets malloc give back holes when the process holds much more than the `limit` of its entries explains.
    ///
    /// For the background thread, once a second. What helps little is not tried again soon: the memory is a host
    /// program's then, or malloc has no whole pages.
    func giveBackHoles(limit: Int?, isForced: Bool) {
        guard let limit, isForced || taken.load(ordering: .relaxed) > Self.keptBytesMax else { return }
        let left = patience.load(ordering: .relaxed)
        if left > 0 { return patience.store(left - 1, ordering: .relaxed) }
        let before = ownBytes()
        guard before > limit + limit / 32 + Self.keptBytesMax else { return lastPatience.store(0, ordering: .relaxed) }
        _ = malloc_trim(0)
        let helped = before - ownBytes() > Self.keptBytesMax / 8
        let next = helped ? 0 : min(Self.patienceMax, lastPatience.load(ordering: .relaxed) * 2 + 1)
        lastPatience.store(next, ordering: .relaxed)
        patience.store(next, ordering: .relaxed)
    }

    deinit { freeAll() }
}

/// Resident memory of the process that is no file's, in bytes; 0 where /proc does not tell.
///
/// See proc(5), statm.
private func ownBytes() -> Int {
    let fd = unsafe open("/proc/self/statm", O_RDONLY | O_CLOEXEC)
    guard fd >= 0 else { return 0 }
    defer { close(fd) }
    var numbers = [0, 0, 0]
    var place = 0
    unsafe withUnsafeTemporaryAllocation(byteCount: 128, alignment: 1) { room in
        // SAFETY: at most as many bytes are read as there is room, and only those are looked at.
        let count = unsafe read(fd, room.baseAddress, room.count)
        for index in 0..<max(0, count) where place < numbers.count {
            let byte = unsafe room[index]
            if byte == UInt8(ascii: " ") {
                place += 1
            } else if (48...57).contains(byte) {
                numbers[place] = numbers[place] &* 10 &+ Int(byte - 48)
            }
        }
    }
    // Size, resident, shared; in pages.
    return max(0, numbers[1] - numbers[2]) * Int(sysconf(Int32(_SC_PAGESIZE)))
}
