// The engine against a naive dictionary: random operations, a clock that the test moves, memory so small that most
// reads come from disk, and a restart now and then. A failure prints the seed and the number of the operation.

import Primitives
import TestSupport
import Testing

@testable import CacheEngine

/// What the dictionary knows about a key.
private struct ModelEntry {
    var value: [UInt8]
    var flags: UInt32
    var deadline: Instant
    var cas: UInt64
    var extended: [UInt8]
}

/// The naive cache: no limits, no tiers.
private struct Model {
    var entries: [String: ModelEntry] = [:]
    var flushAt: Instant?

    mutating func live(_ key: String, now: Instant) -> ModelEntry? {
        guard let entry = entries[key] else { return nil }
        if entry.deadline > now { return entry }
        entries[key] = nil
        return nil
    }

    mutating func pass(to now: Instant) {
        if let due = flushAt, now >= due {
            entries = [:]
            flushAt = nil
        }
    }
}

private struct Mismatch: Error, CustomStringConvertible {
    var description: String
}

/// One run of random operations.
private struct ModelRun {
    let fixture: EngineFixture
    let seed: UInt64
    var random: SeededRandom
    var model = Model()
    var step = 0
    var keys = 400
    var reopens = true
    /// The rules may give entries up that leave memory.
    var mayVanish = false
    var vanished = 0
    /// What was done to each key lately, for the message of a failure.
    var history: [String: [String]] = [:]

    var cache: Cache { fixture.cache }
    var now: Instant { fixture.clock.now() }

    init(seed: UInt64, _ adjust: (inout CacheOptions) -> Void) throws {
        self.seed = seed
        random = SeededRandom(seed: seed)
        fixture = try EngineFixture(adjust)
    }

    mutating func key() -> String {
        // A few hot keys among many.
        let key = "key-\(random.isOne(in: 3) ? random.below(20) : random.below(keys))"
        reconcile(key)
        return key
    }

    /// An entry that was given up is gone for good.
    mutating func reconcile(_ key: String) {
        guard mayVanish, model.live(key, now: now) != nil, !cache.contains(key) else { return }
        model.entries[key] = nil
        vanished += 1
        note(key, "vanished")
    }

    mutating func value() -> [UInt8] {
        switch random.below(100) {
        case 0: random.bytes(40_000 + random.below(60_000))
        case 1: random.bytes(20_470 + random.below(20))
        case 2..<10: random.bytes(1_000 + random.below(4_000))
        case 10..<14: []
        case 14..<40: Array("\(random.below(1_000_000))".utf8)
        default: random.bytes(random.below(300))
        }
    }

    mutating func ttl() -> Duration? {
        switch random.below(4) {
        case 0: .milliseconds(1 + random.below(20_000))
        case 1: .seconds(1 + random.below(3_600))
        default: nil
        }
    }

    func demand(_ condition: Bool, _ message: @autoclosure () -> String) throws {
        if condition { return }
        let message = message()
        let key = message.split(separator: " ").first { $0.hasPrefix("key-") }.map { String($0.prefix { $0 != ":" }) }
        let past = key.flatMap { history[$0] }?.suffix(12).joined(separator: "; ") ?? ""
        throw Mismatch(description: "seed \(seed), operation \(step), \(now): \(message). Before: \(past)")
    }

    /// Remembers an operation for the message of a failure.
    mutating func note(_ key: String, _ operation: String) {
        history[key, default: []].append("\(step) \(operation)")
    }

    mutating func run(_ operations: Int) throws {
        while step < operations {
            step += 1
            model.pass(to: now)
            try operate()
        }
        try compareAll()
        try recount()
    }

    mutating func operate() throws {
        switch random.below(1000) {
        case 0..<400: try get(key())
        case 400..<600: try set(key())
        case 600..<640: try add(key())
        case 640..<670: try replace(key())
        case 670..<700: try join(key())
        case 700..<730: try compare(key())
        case 730..<770: try calculate(key())
        case 770..<810: try touch(key())
        case 810..<830: try getAndTouch(key())
        case 830..<900: try remove(key())
        case 900..<990: fixture.clock.advance(milliseconds: Int64(random.below(200)))
        case 990..<993: fixture.clock.advance(milliseconds: Int64(random.below(30_000)))
        case 993..<995: try reopen()
        case 995..<996: try flush()
        default: if cache.disk != nil { dropMemory() }
        }
    }

    // MARK: Operations on both

    mutating func get(_ key: String) throws {
        let expected = model.live(key, now: now)
        note(key, "get, \(expected?.value.count ?? -1)")
        let found = cache.entry(forKey: key)
        try match(key, found, expected)
    }

    func match(_ key: String, _ found: CachedEntry?, _ expected: ModelEntry?) throws {
        guard let expected else {
            return try demand(
                found == nil, "\(key) came back: \(found?.value.count ?? 0) bytes, cas \(found?.cas ?? 0)")
        }
        guard let found else { return try demand(false, "\(key) is missing: \(expected.value.count) bytes") }
        try demand(found.value == expected.value, "\(key): value differs")
        try demand(found.flags == expected.flags, "\(key): flags \(found.flags), not \(expected.flags)")
        try demand(found.cas == expected.cas, "\(key): cas \(found.cas), not \(expected.cas)")
        try demand(found.extended == expected.extended, "\(key): extended data differs")
        let left = expected.deadline.timeLeft(at: now)
        try demand(
            found.timeToLive == left,
            "\(key): \(String(describing: found.timeToLive)) to live, not \(String(describing: left))")
    }

    mutating func entry() -> (ModelEntry, Duration?) {
        let ttl = ttl()
        let extended = random.isOne(in: 10) ? random.bytes(random.below(50)) : []
        return (
            ModelEntry(
                value: value(), flags: UInt32(truncatingIfNeeded: random.next()), deadline: now.advanced(by: ttl),
                cas: 0,
                extended: extended), ttl
        )
    }

    mutating func set(_ key: String) throws {
        var (entry, ttl) = entry()
        entry.cas = try cache.set(
            entry.value, forKey: key, timeToLive: ttl, flags: entry.flags, extended: entry.extended)
        note(key, "set \(entry.value.count) cas \(entry.cas) until \(entry.deadline.milliseconds)")
        model.entries[key] = entry
    }

    mutating func add(_ key: String) throws {
        var (entry, ttl) = entry()
        let present = model.live(key, now: now)
        let id = try cache.add(entry.value, forKey: key, timeToLive: ttl, flags: entry.flags, extended: entry.extended)
        try demand((id == nil) == (present != nil), "add \(key): \(String(describing: id))")
        note(key, "add \(entry.value.count) \(id ?? 0) until \(entry.deadline.milliseconds)")
        guard let id else { return }
        entry.cas = id
        model.entries[key] = entry
    }

    mutating func replace(_ key: String) throws {
        var (entry, ttl) = entry()
        let present = model.live(key, now: now)
        let id = try cache.replace(
            entry.value, forKey: key, timeToLive: ttl, flags: entry.flags, extended: entry.extended)
        try demand((id != nil) == (present != nil), "replace \(key): \(String(describing: id))")
        note(key, "replace \(entry.value.count) \(id ?? 0) until \(entry.deadline.milliseconds)")
        guard let id else { return }
        entry.cas = id
        model.entries[key] = entry
    }

    mutating func join(_ key: String) throws {
        let addition = value()
        let isAppend = random.isOne(in: 2)
        var present = model.live(key, now: now)
        // Values must not grow without end.
        if let size = present?.value.count, size > 300_000 { return try remove(key) }
        let id =
            isAppend
            ? try cache.append(addition, toValueForKey: key) : try cache.prepend(addition, toValueForKey: key)
        try demand((id != nil) == (present != nil), "append/prepend \(key): \(String(describing: id))")
        note(key, "\(isAppend ? "append" : "prepend") \(addition.count) cas \(id ?? 0)")
        guard let id else { return }
        let before = present?.value ?? []
        present?.value = isAppend ? before + addition : addition + before
        present?.cas = id
        model.entries[key] = present
    }

    mutating func compare(_ key: String) throws {
        var (entry, ttl) = entry()
        let present = model.live(key, now: now)
        let isRight = random.isOne(in: 2)
        let cas = isRight ? present?.cas ?? 5 : 5
        let outcome = try cache.compareAndSet(
            entry.value, forKey: key, cas: cas, timeToLive: ttl, flags: entry.flags, extended: entry.extended)
        note(key, "compare \(entry.value.count) \(outcome) until \(entry.deadline.milliseconds)")
        switch outcome {
        case .absent: try demand(present == nil, "cas \(key): absent")
        case .changed: try demand(present != nil && !isRight, "cas \(key): changed")
        case .stored(let id):
            try demand(present != nil && isRight, "cas \(key): stored")
            entry.cas = id
            model.entries[key] = entry
        }
    }

    mutating func calculate(_ key: String) throws {
        var present = model.live(key, now: now)
        let amount = UInt64(random.below(1000))
        let isIncrement = random.isOne(in: 2)
        note(key, "\(isIncrement ? "increment" : "decrement") \(amount)")
        let number = present.flatMap { entry in entry.value.withUnsafeBytes { DecimalValue.parse($0) } }
        do {
            let result =
                isIncrement ? try cache.increment(key, by: amount) : try cache.decrement(key, by: amount)
            guard let before = number else {
                return try demand(present == nil && result == nil, "arithmetic \(key): \(String(describing: result))")
            }
            let expected = isIncrement ? before &+ amount : (before > amount ? before - amount : 0)
            try demand(result == expected, "arithmetic \(key): \(String(describing: result)), not \(expected)")
            var text = Array("\(expected)".utf8)
            while text.count < present?.value.count ?? 0 { text.append(32) }
            present?.value = text
            present?.cas = cache.entry(forKey: key)?.cas ?? 0
            model.entries[key] = present
        } catch let error as StorageError {
            try demand(error == .notNumeric && present != nil && number == nil, "arithmetic \(key): \(error)")
        }
    }

    mutating func touch(_ key: String) throws {
        let ttl = ttl()
        let present = model.live(key, now: now)
        note(key, "touch until \(now.advanced(by: ttl).milliseconds)")
        let isTouched = cache.touch(key, timeToLive: ttl)
        try demand(isTouched == (present != nil), "touch \(key): \(isTouched)")
        let deadline = now.advanced(by: ttl)
        model.entries[key]?.deadline = deadline
    }

    mutating func getAndTouch(_ key: String) throws {
        let ttl = ttl()
        _ = model.live(key, now: now)
        note(key, "get and touch until \(now.advanced(by: ttl).milliseconds)")
        let deadline = now.advanced(by: ttl)
        model.entries[key]?.deadline = deadline
        try match(key, cache.entry(forKey: key, newTimeToLive: ttl), model.entries[key])
    }

    mutating func remove(_ key: String) throws {
        let present = model.live(key, now: now)
        let isRemoved = cache.remove(key)
        note(key, "remove \(isRemoved)")
        try demand(isRemoved == (present != nil), "remove \(key): \(isRemoved)")
        model.entries[key] = nil
    }

    mutating func dropMemory() {
        for key in history.keys { note(key, "drop memory") }
        fixture.dropMemory()
    }

    mutating func flush() throws {
        for key in history.keys { note(key, "flush") }
        if random.isOne(in: 2) {
            cache.flushAll(now: now)
            model.entries = [:]
            model.flushAt = nil
        } else {
            let at = now.advanced(byMilliseconds: Int64(1 + random.below(5000)))
            cache.flushAll(at: at, now: now)
            model.flushAt = at
        }
    }

    mutating func reopen() throws {
        for key in history.keys { note(key, "reopen at \(now.milliseconds)") }
        guard reopens else { return fixture.settle() }
        try recount()
        try fixture.reopen()
        fixture.clock.advance(milliseconds: Int64(random.below(1000)))
        model.pass(to: now)
    }

    mutating func compareAll() throws {
        model.pass(to: now)
        for number in 0..<keys {
            reconcile("key-\(number)")
            try get("key-\(number)")
        }
    }

    func recount() throws {
        cache.checkMemoryCounters("seed \(seed), operation \(step)")
        guard cache.disk != nil else { return }
        cache.settleReaders()
        cache.settle()
        try cache.checkDiskCounters("seed \(seed), operation \(step)")
        try demand(cache.disk?.state == .ok, "disk: \(String(describing: cache.statistics().disk?.lastError))")
    }
}

@Suite struct ModelTests {
    /// Most reads come from disk.
    @Test(arguments: [1, 2, 3, 4] as [UInt64])
    func `small memory over disk behaves like a dictionary`(seed: UInt64) throws {
        var run = try ModelRun(seed: seed) { options in
            options.memory.bytesMax = 200 << 10
            options.memory.shards = 1 << Int(seed % 3)
        }
        try run.run(50_000)
    }

    /// Hardly anything fits: values over a few KiB never enter memory, they stream from and to their files.
    @Test(arguments: [11, 12] as [UInt64])
    func `tiny memory over disk behaves like a dictionary`(seed: UInt64) throws {
        var run = try ModelRun(seed: seed) { options in
            options.memory.bytesMax = 16 << 10
            options.disk?.inlineBytesMax = 1024
        }
        try run.run(20_000)
    }

    /// Entries may go, but what is there is right.
    @Test(arguments: zip(Rules.closed, [31, 32, 33, 34, 35] as [UInt64]))
    func `under every rule of admission it behaves like a dictionary that forgets`(rules: Rules, seed: UInt64) throws {
        var run = try ModelRun(seed: seed) { options in
            options.memory.bytesMax = 200 << 10
            options.memory.shards = 1 << Int(seed % 3)
            rules.apply(to: &options)
        }
        run.mayVanish = true
        try run.run(25_000)
        if rules.admission == .all, rules.budget == nil {
            #expect(run.vanished < 100, "\(run.vanished) entries vanished")
        }
    }

    @Test(arguments: [21, 22] as [UInt64])
    func `memory alone behaves like a dictionary`(seed: UInt64) throws {
        var run = try ModelRun(seed: seed) { options in
            options.memory.bytesMax = nil
            options.memory.shards = 4
            options.disk = nil
        }
        run.reopens = false
        try run.run(50_000)
    }
}
