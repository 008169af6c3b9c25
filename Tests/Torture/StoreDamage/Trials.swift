// One trial: a copy of the store, one thing damaged in it, a cache opened on it, every key read.

import CacheEngine
import Foundation
import TestSupport

/// What was read.
struct Tally: CustomStringConvertible {
    var right = 0
    var missed = 0
    /// Cases in which no entry was there: the store was put aside, or empty.
    var cold = 0
    /// Cases in which everything was there.
    var whole = 0
    /// Cases in which the directory was refused.
    var refused = 0
    var wrong: [String] = []

    mutating func add(_ other: Tally) {
        right += other.right
        missed += other.missed
        cold += other.cold
        whole += other.whole
        refused += other.refused
        wrong += other.wrong
    }

    var summary: String {
        "harmless=\(whole) cold=\(cold) refused=\(refused) right=\(right) missed=\(missed) wrong=\(wrong.count)"
    }

    var description: String { "\(summary) \(wrong.prefix(3).joined(separator: "; "))" }
}

/// Damages one thing, and says which.
private typealias Damage = (inout StoreImage, inout SeededRandom) -> String

/// A store and what it holds, to be damaged again and again.
final class Trials {
    private let listing: Listing
    private let keys: [[UInt8]]
    private let work: String
    private let damage: Damage
    private let image: StoreImage
    private var options: CacheOptions

    init(template: String, listing: Listing, work: String, kind: String) throws {
        self.listing = listing
        keys = Array(listing.entries.keys) + listing.absent
        self.work = work
        image = try StoreImage(directory: template)
        damage =
            if kind == "flip" { StoreImage.flip(_:_:) } else { StoreImage.reshape(_:_:) }
        options = CacheOptions()
        options.memory.bytesMax = 32 << 20
        options.memory.shards = 1
        var disk = DiskOptions(directory: work)
        disk.bytesMax = 64 << 20
        disk.journalBytes = 1 << 20
        disk.readers = 1
        options.disk = disk
    }

    /// The store as it is.
    func undamaged() throws -> Tally {
        try image.write(to: work)
        return read(what: "nothing")
    }

    /// Case `number` of `seed`.
    func run(_ number: Int, seed: UInt64) throws -> Tally {
        var numbers = SeededRandom(seed: seed &+ UInt64(number) &* 0x9e37_79b9)
        var image = image
        let what = damage(&image, &numbers)
        try image.write(to: work)
        return read(what: what)
    }

    private func read(what: String) -> Tally {
        var tally = Tally()
        do {
            let cache = try Cache.open(options)
            // All in one batch: the disk reader works through it without a handover for each key.
            for (key, found) in zip(keys, cache.entries(forKeys: keys)) {
                if let entry = listing.entries[key] {
                    check(found, key, entry, what, &tally)
                } else if found != nil {
                    tally.wrong.append("\(what): \(String(decoding: key, as: UTF8.self)) is back")
                }
            }
            cache.close()
        } catch {
            tally.refused = 1
            return tally
        }
        if tally.right == 0 { tally.cold = 1 }
        if tally.missed == 0 { tally.whole = 1 }
        return tally
    }

    private func check(
        _ found: CachedEntry?, _ key: [UInt8], _ expected: Listing.Entry, _ what: String, _ tally: inout Tally
    ) {
        guard let found else {
            tally.missed += 1
            return
        }
        let isMortal = found.timeToLive.map { $0 <= .seconds(Int64(expected.timeToLive)) }
        let keepsTime = expected.timeToLive == 0 ? isMortal == nil : isMortal == true
        if found.value == expected.value, found.flags == expected.flags, keepsTime {
            tally.right += 1
        } else {
            let name = String(decoding: key, as: UTF8.self)
            let value = String(decoding: found.value.prefix(40), as: UTF8.self)
            tally.wrong.append("\(what): \(name) is \(value) \(found.flags) \(String(describing: found.timeToLive))")
        }
    }
}
