// How malloc treats the process: for programs whose memory is mostly a cache's.
//
// What is left to malloc beside the tiers, whose memory is their own, is little and short-lived: buffers, SQLite's
// pages, entries on their way in. malloc's defaults are made for programs without a bound: a heap for each thread, up
// to eight for each core, of which each keeps what its busiest moment took; and a border between heap and mapping that
// moves up to 32 MiB. A host program's malloc is its own, so nothing here happens by itself.

import CMalloc

/// The process's memory beside that of the tiers.
public enum ProcessMemory {
    /// Memory for which one of malloc's heaps is worth what it keeps.
    private static let limitBytesPerHeap = 64 << 20
    private static let mappedBytesMin: Int32 = 128 << 10

    /// Keeps malloc from holding much more than is used; to be called before the first thread is started.
    ///
    /// One heap for each 64 MiB of `limit`, the cache's memory limit in bytes, up to `threads` and some; and pieces of
    /// 128 KiB and more are mapped one by one. See mallopt(3).
    public static func prepare(limit: Int, threads: Int) {
        let heaps = max(1, min(limit / limitBytesPerHeap, threads + 2))
        // A refusal leaves the defaults, which work.
        _ = mallopt(M_ARENA_MAX, Int32(clamping: heaps))
        _ = mallopt(M_MMAP_THRESHOLD, mappedBytesMin)
    }
}
