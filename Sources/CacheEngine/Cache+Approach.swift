// Looking ahead: who has several requests at hand lets their entries come closer before the first is executed.
//
// In a cache of millions of entries a lookup waits for main memory twice, for its bucket and for its entry, each time
// longer than all that it computes. These waits overlap when they are begun together. Nothing is decided here: what was
// approached may be gone when the request is executed, and what was not only takes longer. Any thread.

import Primitives

/// The hash of a key, as one cache computes it.
public struct KeyHash: Sendable {
    let value: UInt64

    /// No key's, to be replaced.
    public static var none: KeyHash { KeyHash(value: 0) }
}

extension Cache {
    /// The hash of a key.
    @inline(__always)
    public func hash(of key: Span<UInt8>) -> KeyHash {
        // SAFETY: hashing reads the key during the call only.
        KeyHash(value: unsafe key.withUnsafeBytes { unsafe memory.hash($0) })
    }

    /// Whether memory has so many entries that `approach` pays.
    @inline(__always)
    public var isWide: Bool { memory.isWide }

    /// Begins to fetch the buckets, then the entries, of these keys.
    public func approach(_ hashes: Span<KeyHash>) {
        for index in hashes.indices {
            let hash = hashes[index].value
            memory.withShard(hash) { $0.table.approachBucket(hash) }
        }
        for index in hashes.indices {
            let hash = hashes[index].value
            memory.withShard(hash) { $0.table.approachBlock(hash) }
        }
    }
}
