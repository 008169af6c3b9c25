// Which entries go to disk, and when: at their store or when they leave memory, all or those wanted twice, within a
// budget of bytes per day.
//
// A policy only says whether an entry is worth writing; what must be written so that nothing stale is ever read is the
// business of `Cache+Admission.swift`. Which keys were seen is kept in the shards, under their locks; the budget is one
// number for the whole cache. Any thread.

import Primitives
import Synchronization

/// The rules of one disk tier.
final class AdmissionPolicy: Sendable {
    /// What the rules say about one entry.
    enum Verdict {
        case admitted
        /// Not now; asked again when the entry leaves memory.
        case refused
        case overBudget
    }

    let write: DiskWriteMode
    private let admission: DiskAdmission
    private let budget: WriteBudget?
    /// Whether every entry goes to disk when it is stored: then nobody needs to ask.
    let isOpen: Bool
    /// Slots of each shard's memory of keys; nil: no key needs to be remembered.
    let seenSlots: Int?

    init(_ options: DiskOptions, shards: Int) {
        write = options.write
        admission = options.admission
        budget = options.writeBudget.map(WriteBudget.init)
        isOpen = write == .through && admission == .all && budget == nil
        // A key is remembered for about as many others as the disk may hold entries of 2 KiB: 8 MiB at most.
        seenSlots = admission == .secondHit ? SeenKeys.slots(min(options.bytesMax / 2048, 4 << 20) / shards) : nil
    }

    /// Whether entries reach the disk on their way out of memory.
    var demotes: Bool { !isOpen }

    /// What is to become of an entry that is being stored.
    func verdict(storing hash: UInt64, bytes: Int, _ shard: inout Shard, now: Instant) -> Verdict {
        guard write == .through else { return .refused }
        if admission == .secondHit, !shard.isKnown(hash) { return .refused }
        return spend(bytes, now)
    }

    /// What is to become of an entry that leaves memory and is not on disk.
    func verdict(evicting block: EntryBlock, _ shard: inout Shard, now: Instant) -> Verdict {
        if admission == .secondHit, !block.marks.contains(.fetched) {
            // With `through`, the store itself made the key known: only a read counts.
            guard write == .onEvict, shard.isKnown(shard.hash(block)) else { return .refused }
        }
        return spend(block.diskBytes, now)
    }

    /// Takes what was written whatever the rules say out of the budget.
    func charge(_ bytes: Int, now: Instant) { budget?.charge(bytes, now) }

    private func spend(_ bytes: Int, _ now: Instant) -> Verdict {
        guard let budget else { return .admitted }
        return budget.spend(bytes, now) ? .admitted : .overBudget
    }
}

extension EntryBlock {
    /// Bytes that the entry is counted with when it is written to disk: with about what a row takes besides.
    var diskBytes: Int { keyBytes + extendedBytes + valueBytes + 128 }
}

/// Bytes that may be written in a day, given out evenly; what was not used can be saved for an hour.
final class WriteBudget: Sendable {
    private static let dayMilliseconds = 86_400_000.0
    private static let savedNanoseconds: Int64 = 3_600_000_000_000

    private let nanosecondsPerByte: Double
    /// Up to when, in ns of the boot clock, the bytes spent so far use the budget.
    private let usedUntil = Atomic<Int64>(.min)

    init(bytesPerDay: Int) { nanosecondsPerByte = Self.dayMilliseconds * 1e6 / Double(max(1, bytesPerDay)) }

    /// Takes `bytes` out if anything is left, were it less than that; false if nothing is.
    func spend(_ bytes: Int, _ now: Instant) -> Bool { take(bytes, now, always: false) }

    /// Takes `bytes` out, if need be of what is still to come.
    func charge(_ bytes: Int, _ now: Instant) { _ = take(bytes, now, always: true) }

    private func take(_ bytes: Int, _ now: Instant, always: Bool) -> Bool {
        let (time, overflow) = now.milliseconds.multipliedReportingOverflow(by: 1_000_000)
        let cost = Int64(clamping: Int(min(Double(bytes) * nanosecondsPerByte, 1e18)))
        guard !overflow else { return true }
        while true {
            let used = usedUntil.load(ordering: .relaxed)
            let start = max(used, time - Self.savedNanoseconds)
            if start >= time, !always { return false }
            let (end, isTooFar) = start.addingReportingOverflow(cost)
            let next = isTooFar ? Int64.max : end
            if usedUntil.compareExchange(expected: used, desired: next, ordering: .relaxed).exchanged { return true }
        }
    }
}

/// Which keys were seen lately: one fingerprint for each place, the newest wins.
///
/// Belongs to one shard, under its lock.
struct SeenKeys {
    private var slots: [UInt16]

    /// `count` is a power of two: see `slots`.
    init(count: Int) { slots = [UInt16](repeating: 0, count: count) }

    /// The power of two at or below `wanted`, at least 1024.
    static func slots(_ wanted: Int) -> Int {
        var count = 1024
        while count * 2 <= wanted { count *= 2 }
        return count
    }

    /// Notes a key; whether it was seen before.
    mutating func insert(_ hash: UInt64) -> Bool {
        let place = Int(truncatingIfNeeded: hash) & (slots.count - 1)
        let fingerprint = UInt16(truncatingIfNeeded: hash >> 32) | 1
        if slots[place] == fingerprint { return true }
        slots[place] = fingerprint
        return false
    }
}
