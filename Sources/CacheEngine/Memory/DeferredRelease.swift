// Values that wait to be freed, and holes of malloc's heaps.
//
// Giving a value of a megabyte back takes as long as many requests; whoever removes or replaces one does not pay for
// it: the background thread does. What waits here still takes memory that no limit counts, so it is little: beyond
// that, the caller frees for himself. What else is allocated (buffers of connections, SQLite's pages, entries on their
// way in) is malloc's, and leaves holes between pieces in use: once a second the background thread compares what the
// process holds with what the entries account for, and has the holes given back.

import CMalloc
import Glibc
import Primitives
import Synchronization

/// Memory on its way back.
///
/// Thread-safe.
final class DeferredRelease: Sendable {
    /// Smaller values are freed at once.
    static let blockBytesMin = 256 << 10
    /// At most this much waits.
    static let bytesMax = 2 << 20
    /// What the process may hold beside its entries before holes are looked for.
    private static let othersBytesMax = 8 << 20

    private struct State {
        var chains: [MemoryChain] = []
        var bytes = 0
        /// Wakes the thread that frees.
        var wake: (@Sendable () -> Void)?
    }

    /// Guards what waits.
    private let state = Guarded(State(), rank: .leaf)
    /// Looks for holes that are left out, because the last one took long.
    private let pause = Atomic<Int>(0)
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

    /// Frees what waits.
    func freeAll() {
        let chains = state.withLock { state in
            let taken = state.chains
            state.chains = []
            state.bytes = 0
            return taken
        }
        for chain in chains { chain.free() }
    }

    /// Lets malloc give back holes when the process holds more than the `limit` of its entries explains.
    ///
    /// For the background thread, once a second. malloc's heaps are locked meanwhile, for about a millisecond of 10 MiB
    /// in small holes: of all time, at most a hundredth goes there.
    func giveBackHoles(limit: Int) {
        let left = pause.load(ordering: .relaxed)
        if left > 0 { return pause.store(left - 1, ordering: .relaxed) }
        guard ownBytes() > limit + limit / 32 + Self.othersBytesMax else { return }
        let before = SystemClock().now()
        _ = malloc_trim(0)
        let milliseconds = SystemClock().now().milliseconds - before.milliseconds
        pause.store(Int(milliseconds / 10), ordering: .relaxed)
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
