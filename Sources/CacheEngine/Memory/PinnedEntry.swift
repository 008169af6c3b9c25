// Ways to look at an entry: `EntryView` under the shard lock, `PinnedEntry` after it.

public import Primitives

/// An entry as shown to the closure of `Cache.withEntry`.
///
/// Not valid after the closure returned.
@safe
public struct EntryView {
    let block: EntryBlock
    // SAFETY: the memory tier keeps its shards for as long as it lives, and it shows this view. Not counted: a view is
    // made for each hit.
    let shard: Unmanaged<Guarded<Shard>>

    /// The client's flags.
    public var flags: UInt32 { block.flags }
    /// The CAS id of this value.
    public var cas: UInt64 { block.cas }
    /// Bytes of the value.
    public var valueBytes: Int { block.valueBytes }
    /// When the entry expires.
    public var deadline: Instant { block.deadline }
    /// The value; valid only inside the closure.
    public var value: UnsafeRawBufferPointer { unsafe block.value }
    /// Data stored beside the value; valid only inside the closure.
    public var extended: UnsafeRawBufferPointer { unsafe block.extended }

    /// Keeps the entry's value readable after the closure, whatever happens to the entry.
    public func pin() -> PinnedEntry { PinnedEntry(pinning: block, shard: unsafe shard.takeUnretainedValue()) }
}

/// A value that stays readable for as long as this object lives.
///
/// The entry may be overwritten, deleted or evicted meanwhile: the block is freed with the last pin.
@safe
public final class PinnedEntry: Sendable {
    let block: EntryBlock
    /// The shard whose lock guards the pin count; nil for a block that was never linked.
    private let shard: Guarded<Shard>?

    /// The client's flags.
    public let flags: UInt32
    /// The CAS id of this value.
    public let cas: UInt64
    /// When the entry expired or will expire, as of the time of pinning.
    public let deadline: Instant
    /// Bytes of the value.
    public var valueBytes: Int { unsafe value.count }

    /// Pins a linked block; call under the lock of its shard.
    ///
    /// Pins are 15 bits: a reader beyond that gets a copy of its own.
    init(pinning linked: EntryBlock, shard: Guarded<Shard>) {
        if linked.pins == EntryBlock.pinsMax, let copy = linked.copyWithValue() {
            block = copy
            self.shard = nil
        } else {
            invariant(linked.pins < EntryBlock.pinsMax, "no memory for a value that 32,767 readers hold")
            linked.pins += 1
            block = linked
            self.shard = shard
        }
        flags = block.flags
        cas = block.cas
        deadline = block.deadline
        unsafe value = block.value
        unsafe extended = block.extended
    }

    // SAFETY: inside the pinned block, whose value never changes once it is linked; taken under the lock, because where
    // they are depends on the header.
    /// The value; valid while this object lives.
    nonisolated(unsafe) public let value: UnsafeRawBufferPointer

    /// Data stored beside the value; valid while this object lives.
    nonisolated(unsafe) public let extended: UnsafeRawBufferPointer

    /// Whether the value takes memory that is no entry's any more.
    public var isDetached: Bool {
        guard let shard else { return true }
        return shard.withLock { [block] _ in block.marks.contains(.unlinked) }
    }

    deinit {
        guard let shard else { return block.free() }
        var garbage = Garbage()
        shard.withLock { [block] shard in
            block.pins -= 1
            if block.pins == 0, block.marks.contains(.unlinked) { shard.freeDetached(block, into: &garbage) }
        }
        garbage.free()
    }
}
