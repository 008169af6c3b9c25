// The most requested keys, from a sample: the Space-Saving algorithm (Metwally, Agrawal, El Abbadi, 2005).
//
// A fixed number of counters; a key without one takes over the smallest, with its count as the possible error. So a key
// that gets more than 1/`capacity` of the requests is never missed. Counts fade, so that the list is about the last
// minute or so. One sketch per worker, used by it in the turns that are sampled and by whoever reports.

/// One key of the list.
struct HotKey: Sendable, Equatable {
    var key: [UInt8]
    /// Requests, as far as the sample tells.
    var count: Double
    /// How many of them may have been of other keys.
    var error: Double
}

/// A sketch of how often keys are requested.
struct HotKeys: Sendable {
    static let capacity = 128
    /// Every so often all counts are cut to `fading` of what they were.
    static let fadeMilliseconds: Int64 = 10_000
    static let fading = 0.875

    private var hashes: [UInt64] = []
    private var entries: [HotKey] = []
    private var fadedAt: Int64
    /// Seconds that the counts stand for, before the time since `fadedAt`.
    private var seconds = 0.0

    /// An empty sketch; `now` in ms.
    init(now: Int64) {
        fadedAt = now
        hashes.reserveCapacity(Self.capacity)
        entries.reserveCapacity(Self.capacity)
    }

    /// Counts one sampled request of a key, which stands for `weight` requests.
    mutating func note(_ key: UnsafeRawBufferPointer, weight: Double, now: Int64) {
        fade(now)
        let hash = unsafe Self.hash(key)
        if let index = unsafe find(hash, key) {
            entries[index].count += weight
        } else if entries.count < Self.capacity {
            hashes.append(hash)
            entries.append(HotKey(key: unsafe Array(key), count: weight, error: 0))
        } else {
            let index = smallest
            hashes[index] = hash
            let floor = entries[index].count
            entries[index] = HotKey(key: unsafe Array(key), count: floor + weight, error: floor)
        }
    }

    /// All counters, and the seconds that they stand for.
    mutating func report(now: Int64) -> (keys: [HotKey], seconds: Double) {
        fade(now)
        return (entries, seconds + Double(now - fadedAt) / 1000)
    }

    private func find(_ hash: UInt64, _ key: UnsafeRawBufferPointer) -> Int? {
        for index in hashes.indices where hashes[index] == hash {
            // SAFETY: compared during the call; the caller keeps the key.
            if unsafe key.elementsEqual(entries[index].key) { return index }
        }
        return nil
    }

    private var smallest: Int {
        var best = 0
        for index in entries.indices where entries[index].count < entries[best].count { best = index }
        return best
    }

    private mutating func fade(_ now: Int64) {
        guard now - fadedAt >= Self.fadeMilliseconds else { return }
        // After a long silence nothing is left; one pass says the same as a hundred.
        let steps = min((now - fadedAt) / Self.fadeMilliseconds, 100)
        var factor = 1.0
        for _ in 0..<steps {
            seconds = (seconds + Double(Self.fadeMilliseconds) / 1000) * Self.fading
            factor *= Self.fading
        }
        fadedAt = now
        for index in entries.indices {
            entries[index].count *= factor
            entries[index].error *= factor
        }
    }

    /// FNV-1a: the sketch needs no keyed hash, since keys that collide are compared in full.
    private static func hash(_ key: UnsafeRawBufferPointer) -> UInt64 {
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        // SAFETY: the caller keeps the key during the call.
        for index in 0..<key.count { hash = unsafe (hash ^ UInt64(key[index])) &* 0x100_0000_01b3 }
        return hash
    }

    /// The `limit` most requested keys of several sketches, in requests per second.
    static func top(_ reports: [(keys: [HotKey], seconds: Double)], limit: Int) -> [HotKey] {
        var sums: [[UInt8]: HotKey] = [:]
        for report in reports {
            let seconds = max(report.seconds, 1)
            for entry in report.keys {
                var sum = sums[entry.key] ?? HotKey(key: entry.key, count: 0, error: 0)
                sum.count += entry.count / seconds
                sum.error += entry.error / seconds
                sums[entry.key] = sum
            }
        }
        // A key whose count may be all error tells nothing.
        let known = sums.values.filter { $0.count > $0.error * 1.5 }
        return Array(known.sorted { ($0.count, $1.key.count) > ($1.count, $0.key.count) }.prefix(limit))
    }
}
