// Memory that was taken out of use under a shard's lock, to be freed after it was let go.
//
// Loose blocks and values that lie apart; slots of a shard's heap are given back under its lock. Each piece links the
// next in its first bytes, so collecting takes no memory. Owned by one thread at a time.

import Glibc
import Primitives

/// Two chains of pieces: of malloc's, and of values that lay apart.
///
/// `@unchecked Sendable`: nobody else knows the pieces.
@safe
struct MemoryChain: @unchecked Sendable {
    // SAFETY: each piece is of at least 8 bytes, holds the next one's address, and is reached from here only.
    private var first: UnsafeMutableRawPointer?
    private var firstValue: UnsafeMutableRawPointer?

    init() {
        unsafe first = nil
        unsafe firstValue = nil
    }

    var isEmpty: Bool { unsafe first == nil && firstValue == nil }

    mutating func add(_ piece: UnsafeMutableRawPointer) {
        unsafe piece.storeBytes(of: first, as: UnsafeMutableRawPointer?.self)
        unsafe first = piece
    }

    mutating func add(value: UnsafeMutableRawPointer) {
        unsafe value.storeBytes(of: firstValue, as: UnsafeMutableRawPointer?.self)
        unsafe firstValue = value
    }

    /// Frees all pieces.
    consuming func free() {
        var piece = unsafe first
        while let current = unsafe piece {
            unsafe piece = current.load(as: UnsafeMutableRawPointer?.self)
            unsafe Glibc.free(current)
        }
        var value = unsafe firstValue
        while let current = unsafe value {
            unsafe value = current.load(as: UnsafeMutableRawPointer?.self)
            unsafe ValueMemory.free(current)
        }
    }
}

/// What one operation has to free.
struct Garbage: ~Copyable, Sendable {
    private var chain = MemoryChain()
    /// Who frees large values instead of the caller, if a value that lay apart was collected.
    private var release: DeferredRelease?
    /// Bytes of what is large.
    private var largeBytes = 0

    init() {}

    /// Adds a loose block.
    mutating func add(_ block: EntryBlock) {
        if let value = unsafe block.valueApart { unsafe chain.add(value: value) }
        unsafe chain.add(UnsafeMutableRawPointer(block.raw))
    }

    /// Adds a piece that malloc gave.
    mutating func add(piece: UnsafeMutableRawPointer) { unsafe chain.add(piece) }

    /// Adds a value of `bytes` that lay apart.
    ///
    /// If it is large, all that was collected is freed in the background, as far as that has room.
    mutating func add(value: UnsafeMutableRawPointer, bytes: Int, to release: DeferredRelease) {
        unsafe chain.add(value: value)
        self.release = release
        if bytes >= DeferredRelease.blockBytesMin { largeBytes += bytes }
    }

    /// Frees all that was collected.
    consuming func free() {
        if chain.isEmpty { return }
        guard let release, largeBytes > 0, release.take(chain, bytes: largeBytes) else { return chain.free() }
    }
}
