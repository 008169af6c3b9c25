// Memory that was taken out of use under a shard's lock, to be freed after it was let go.
//
// Loose blocks and values that lie apart; slots of a shard's heap are given back under its lock. Each piece links the
// next in its first bytes, so collecting takes no memory. Owned by one thread at a time.

import Glibc
import Primitives

/// A chain of malloc'd pieces.
///
/// `@unchecked Sendable`: nobody else knows the pieces.
@safe
struct MemoryChain: @unchecked Sendable {
    // SAFETY: each piece is of at least 8 bytes, holds the next one's address, and is reached from here only.
    private var first: UnsafeMutableRawPointer?

    init() { unsafe first = nil }

    var isEmpty: Bool { unsafe first == nil }

    mutating func add(_ piece: UnsafeMutableRawPointer) {
        unsafe piece.storeBytes(of: first, as: UnsafeMutableRawPointer?.self)
        unsafe first = piece
    }

    /// Frees all pieces.
    consuming func free() {
        var piece = unsafe first
        while let current = unsafe piece {
            unsafe piece = current.load(as: UnsafeMutableRawPointer?.self)
            unsafe Glibc.free(current)
        }
    }
}

/// What one operation has to free.
struct Garbage: ~Copyable, Sendable {
    private var chain = MemoryChain()
    /// Who keeps account of values that lay apart, if one was collected, and frees large ones instead of the caller.
    private var release: DeferredRelease?
    private var valueBytes = 0
    /// Of these, bytes of what is large.
    private var largeBytes = 0

    init() {}

    /// Adds a loose block.
    mutating func add(_ block: EntryBlock) {
        if let value = unsafe block.valueApart { unsafe chain.add(value) }
        unsafe chain.add(UnsafeMutableRawPointer(block.raw))
    }

    /// Adds a piece that malloc gave.
    mutating func add(piece: UnsafeMutableRawPointer) { unsafe chain.add(piece) }

    /// Adds a value of `bytes` that lay apart.
    ///
    /// If it is large, all that was collected is freed in the background, as far as that has room.
    mutating func add(value: UnsafeMutableRawPointer, bytes: Int, to release: DeferredRelease) {
        unsafe chain.add(value)
        self.release = release
        valueBytes += bytes
        if bytes >= DeferredRelease.blockBytesMin { largeBytes += bytes }
    }

    /// Frees all that was collected.
    consuming func free() {
        if chain.isEmpty { return }
        guard let release else { return chain.free() }
        if largeBytes == 0 || !release.take(chain, bytes: largeBytes) { chain.free() }
        release.noteFreed(valueBytes)
    }
}
