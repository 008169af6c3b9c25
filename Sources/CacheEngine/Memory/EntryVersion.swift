// Which written version of an entry something was made from.
//
// A CAS id does not tell: clients may give two versions the same one (`StoreTerms.explicitCAS`). A version in memory is
// told by its block, which a pin keeps from being freed and used again; one in a file by the file's generation, which
// never repeats. Values without locks of their own; comparing needs the lock of the key's shard.

import Primitives

/// One version of an entry, told from all others.
public struct EntryVersion: Sendable {
    private enum Identity {
        case block(PinnedEntry)
        case file(generation: UInt64)
    }

    private let identity: Identity

    /// The version whose value is pinned.
    init(_ pinned: PinnedEntry) { identity = .block(pinned) }

    /// The version whose value is in the file of that generation only.
    init(fileGeneration: UInt64) { identity = .file(generation: fileGeneration) }

    /// The version that a linked block is; call under the lock of its shard.
    init(of block: EntryBlock, shard: Guarded<Shard>) {
        self =
            block.isStub
            ? EntryVersion(fileGeneration: block.file.generation)
            : EntryVersion(PinnedEntry(pinning: block, shard: shard))
    }

    /// Whether a linked block is this version; call under the lock of its shard.
    ///
    /// The same version brought to memory once more counts as another: whoever asks looks again then.
    func isVersion(of block: EntryBlock) -> Bool {
        switch identity {
        case .block(let pinned): pinned.block == block
        case .file(let generation): block.isStub && block.file.generation == generation
        }
    }
}

extension PinnedEntry {
    /// The version of the entry that this is the value of.
    public var version: EntryVersion { EntryVersion(self) }
}
