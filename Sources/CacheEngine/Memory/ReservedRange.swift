// A range of addresses that is reserved at once and backed by memory piece by piece.
//
// Reserving costs nothing: the pages have no access rights and do not count against the kernel's overcommit limit.
// What `commit` opens takes memory as it is touched; what `discard` names gives it back and reads as zeroes afterwards.
// Knows nothing of entries. Not thread-safe: its owner is under a lock.

import Glibc
import Primitives

/// Owner of one range of addresses.
@safe
struct ReservedRange: ~Copyable {
    // SAFETY: a private mapping of `bytes` bytes, made in `init`, unmapped in deinit; the first `committed` are
    // readable and writable.
    let base: UnsafeMutableRawPointer
    let bytes: Int
    private(set) var committed = 0

    /// Smaller ranges are not tried.
    private static let bytesMin = 16 << 20

    /// Reserves `wanted` bytes, or less where the process may not have so many (`ulimit -v`).
    init(_ wanted: Int) {
        var bytes = wanted
        while true {
            let made = unsafe mmap(nil, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
            if let made = unsafe made, unsafe made != MAP_FAILED {
                unsafe base = made
                self.bytes = bytes
                break
            }
            if bytes / 2 < Self.bytesMin { outOfMemory(bytes) }
            bytes /= 2
        }
        // A huge page would keep 2 MiB for the sake of one entry, and come back after it was given up.
        _ = unsafe madvise(base, self.bytes, Int32(MADV_NOHUGEPAGE))
    }

    deinit { unsafe munmap(base, bytes) }

    /// Makes `count` more bytes usable; false if the range ends or the kernel refuses.
    mutating func commit(_ count: Int) -> Bool {
        guard count <= bytes - committed else { return false }
        guard unsafe mprotect(base + committed, count, PROT_READ | PROT_WRITE) == 0 else { return false }
        committed += count
        return true
    }

    /// Makes whole pages usable, wherever they lie; not for a range that `commit` is used on.
    ///
    /// False if the kernel refuses.
    mutating func open(at offset: Int, count: Int) -> Bool {
        invariant(committed == 0 && offset >= 0 && count >= 0 && offset <= bytes - count)
        return unsafe mprotect(base + offset, count, PROT_READ | PROT_WRITE) == 0
    }

    /// Gives the memory of whole pages back.
    func discard(at offset: Int, count: Int) {
        invariant(offset >= 0 && count >= 0 && offset <= committed - count)
        _ = unsafe madvise(base + offset, count, Int32(MADV_DONTNEED))
    }
}
