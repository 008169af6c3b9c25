// The most requested keys, from a sample: the Space-Saving algorithm (Metwally, Agrawal, El Abbadi, 2005).
//
// A fixed number of counters; a key without one takes over the smallest, with its count as the possible error. So a key
// that gets more than 1/`capacity` of the requests is never missed. A count is an estimate, and knows how far chance
// may have led it astray: keys are ranked by what is certain, so that one request which the sample happened to meet
// does not outrank hundreds. Counts fade, so that the list is about the last minute or so. One sketch per worker, used
// by it in the turns that are sampled and by whoever reports.

/// One key of the list.
struct HotKey: Sendable, Equatable {
    var key: [UInt8]
    /// Requests, as far as the sample tells.
    var count: Double
    /// How many of them may have been of other keys.
    var error: Double
    /// The variance of `count` for the sample's chance.
    var variance = 0.0
    /// The turn that noted the key last, and how often it did.
    fileprivate var turn: UInt64 = 0
    fileprivate var notesInTurn = 0.0

    /// A key of `count` requests, `error` of which may have been of others.
    init(key: [UInt8], count: Double, error: Double) {
        self.key = key
        self.count = count
        self.error = error
    }

    /// How much of `count` is doubtful: requests of other keys, and one standard deviation of the sample.
    var doubt: Double { error + variance.squareRoot() }

    /// Counts one request that was met in `turn`, as one of `weight`.
    ///
    /// A turn is met or missed as a whole. The Horvitz-Thompson estimator adds, for a turn with n requests of the key
    /// that is met with a chance of 1/w, nw to the count and n^2 w (w - 1) to its variance.
    fileprivate mutating func add(weight: Double, turn: UInt64) {
        if turn != self.turn {
            self.turn = turn
            notesInTurn = 0
        }
        count += weight
        variance += (2 * notesInTurn + 1) * weight * (weight - 1)
        notesInTurn += 1
    }
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

    /// Counts one request of a key; `turn` is the number of the sampled turn, not 0, that stands for `weight` turns.
    mutating func note(_ key: UnsafeRawBufferPointer, weight: Double, turn: UInt64, now: Int64) {
        fade(now)
        let hash = unsafe Self.hash(key)
        if let index = unsafe find(hash, key) {
            entries[index].add(weight: weight, turn: turn)
            return
        }
        var index = entries.count
        if index < Self.capacity {
            hashes.append(hash)
            entries.append(HotKey(key: unsafe Array(key), count: 0, error: 0))
        } else {
            index = smallest
            hashes[index] = hash
            let floor = entries[index].count
            entries[index] = HotKey(key: unsafe Array(key), count: floor, error: floor)
        }
        entries[index].add(weight: weight, turn: turn)
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
            entries[index].variance *= factor * factor
        }
    }

    /// FNV-1a: the sketch needs no keyed hash, since keys that collide are compared in full.
    private static func hash(_ key: UnsafeRawBufferPointer) -> UInt64 {
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        // SAFETY: the caller keeps the key during the call.
        for index in 0..<key.count { hash = unsafe (hash ^ UInt64(key[index])) &* 0x100_0000_01b3 }
        return hash
    }

    /// The `limit` keys of several sketches that are surest to be requested most, in requests per second.
    static func top(_ reports: [(keys: [HotKey], seconds: Double)], limit: Int) -> [HotKey] {
        var sums: [[UInt8]: HotKey] = [:]
        for report in reports {
            let seconds = max(report.seconds, 1)
            for entry in report.keys {
                var sum = sums[entry.key] ?? HotKey(key: entry.key, count: 0, error: 0)
                sum.count += entry.count / seconds
                sum.error += entry.error / seconds
                sum.variance += entry.variance / (seconds * seconds)
                sums[entry.key] = sum
            }
        }
        // A key whose count may be all error or chance tells nothing.
        let known = sums.values.filter { $0.count > $0.doubt * 1.5 }.map { (certain: $0.count - $0.doubt, entry: $0) }
        let ranked = known.sorted { ($0.certain, $1.entry.key.count) > ($1.certain, $0.entry.key.count) }
        return ranked.prefix(limit).map(\.entry)
    }
}
