// What the engine is compared with, behind one small interface: the caches that a Swift program would use instead.
//
// Keys are strings, values are arrays of bytes. Only the engine has a byte limit and eviction by recency; the others
// are here to show what these cost. All are safe to use from several threads.

import CacheEngine
import Foundation
import Primitives

/// A cache inside the process.
protocol Contender: Sendable {
    func set(_ value: [UInt8], _ key: String)
    func get(_ key: String) -> Int
}

/// Swift's dictionary behind one lock.
final class LockedDictionary: Contender {
    private let values = Guarded([String: [UInt8]](), rank: .leaf)

    func set(_ value: [UInt8], _ key: String) { values.withLock { $0[key] = value } }

    func get(_ key: String) -> Int { values.withLock { $0[key]?.count ?? -1 } }
}

/// Foundation's cache.
final class FoundationCache: Contender, @unchecked Sendable {
    // Thread-safe by its documentation; the class is not marked so.
    private let cache = NSCache<NSString, Box>()

    private final class Box {
        let value: [UInt8]
        init(_ value: [UInt8]) { self.value = value }
    }

    func set(_ value: [UInt8], _ key: String) { cache.setObject(Box(value), forKey: key as NSString) }

    func get(_ key: String) -> Int { cache.object(forKey: key as NSString)?.value.count ?? -1 }
}

/// A key that costs nothing to make: the eight bytes of a number.
struct NumberKey: CacheKey {
    let bytes: [8 of UInt8]

    init(_ number: UInt64) { bytes = .init { UInt8(truncatingIfNeeded: number >> UInt64(8 * $0)) } }

    func withKeyBytes<Result: ~Copyable>(_ body: (Span<UInt8>) -> Result) -> Result { body(bytes.span) }
}

/// The engine, memory only.
final class EngineCache: Contender {
    let cache: Cache
    /// An event loop reads the clock once per turn.
    private let now = SystemClock().now()

    init(bytesMax: Int) throws {
        var options = CacheOptions(name: "bench", memoryBytes: bytesMax)
        options.memory.valueBytesMax = 1 << 20
        cache = try Cache.open(options)
    }

    func set(_ value: [UInt8], _ key: String) {
        do { try cache.set(value, forKey: key) } catch { StandardStream.error.write("engine-bench: \(error)\n") }
    }

    func set(_ value: [UInt8], at number: UInt64) {
        do { try cache.set(value, forKey: NumberKey(number)) } catch {
            StandardStream.error.write("engine-bench: \(error)\n")
        }
    }

    /// The lookup of an event loop.
    func get(at number: UInt64) -> Int {
        var count = -1
        NumberKey(number).withKeyBytes { key in
            _ = cache.withEntry(key, now: now) { count = $0.valueBytes }
        }
        return count
    }

    // Without a copy of the value, as the others give theirs.
    func get(_ key: String) -> Int { cache.withValue(forKey: key) { $0.count } ?? -1 }
}
