// Every operation on an entry in every place where it can be: in memory, in the journal only, in the index only, in a
// file only, as a stub in memory, and in the index after a restart.

import Primitives
import TestSupport
import Testing

@testable import CacheEngine

/// Where an entry is when an operation meets it.
enum Place: String, CaseIterable, CustomTestStringConvertible {
    case memory, journal, row, reopened, file, fileInJournal, stub

    var testDescription: String { rawValue }
    /// The value is in a file of its own.
    var isFile: Bool { self == .file || self == .fileInJournal || self == .stub }
    /// Larger than anything that the memory tier takes.
    var isStub: Bool { self == .stub }
}

/// An entry in a place, in a cache that writes entries when they are stored or when they leave memory.
private struct Scene {
    let fixture: EngineFixture
    let value: [UInt8]
    var cache: Cache { fixture.cache }

    init(
        _ place: Place, value small: [UInt8] = Array("10".utf8), timeToLive: Duration? = .seconds(1000),
        write: DiskWriteMode = .through
    ) throws {
        fixture = try EngineFixture {
            $0.memory.valueBytesMax = 100_000
            $0.disk?.write = write
        }
        value = place.isStub ? [UInt8](repeating: 3, count: 400_000) : place.isFile ? small + Self.padding : small
        if place == .journal || place == .fileInJournal { fixture.holdWriter() }
        try fixture.cache.set(value, forKey: "k", timeToLive: timeToLive, flags: 5, extended: [8, 9])
        switch place {
        case .memory: break
        case .journal, .fileInJournal: fixture.dropMemory()
        case .row, .file, .stub:
            fixture.settle()
            fixture.dropMemory()
        case .reopened: try fixture.reopen()
        }
        if place == .stub {
            // Brought to memory as a stub, by a retrieval.
            #expect(cache.value(forKey: "k") == value)
            #expect(cache.isResident("k"))
        }
    }

    /// Numbers may be followed by white space.
    static let padding = [UInt8](repeating: 32, count: 30_000)

    /// The entry must be this: at once, when it comes from disk, and after a restart.
    func expect(_ value: [UInt8]?, timeToLive: Duration? = .seconds(1000), flags: UInt32 = 5) throws {
        for when in ["at once", "from disk", "after a restart"] {
            if when == "from disk" {
                fixture.settle()
                fixture.dropMemory()
            } else if when == "after a restart" {
                try fixture.reopen()
            }
            let entry = cache.entry(forKey: "k")
            #expect(entry?.value == value, "\(when)")
            if value != nil {
                #expect(entry?.flags == flags, "\(when)")
                #expect(entry?.timeToLive == timeToLive, "\(when)")
            }
        }
        fixture.settle()
        try cache.checkDiskCounters()
        cache.checkMemoryCounters()
    }
}

@Suite struct EntryStateTests {
    @Test(arguments: Place.allCases, DiskWriteMode.allCases)
    func `get`(place: Place, write: DiskWriteMode) throws {
        let scene = try Scene(place, write: write)
        #expect(scene.cache.entry(forKey: "k")?.extended == [8, 9])
        try scene.expect(scene.value)
    }

    @Test(arguments: Place.allCases, DiskWriteMode.allCases)
    func `add is refused`(place: Place, write: DiskWriteMode) throws {
        let scene = try Scene(place, write: write)
        #expect(try scene.cache.add([1], forKey: "k") == nil)
        try scene.expect(scene.value)
    }

    @Test(arguments: Place.allCases, DiskWriteMode.allCases)
    func `replace`(place: Place, write: DiskWriteMode) throws {
        let scene = try Scene(place, write: write)
        #expect(try scene.cache.replace([1], forKey: "k", flags: 6) != nil)
        try scene.expect([1], timeToLive: nil, flags: 6)
    }

    @Test(arguments: Place.allCases, DiskWriteMode.allCases)
    func `set over it, small and large`(place: Place, write: DiskWriteMode) throws {
        for size in [0, 1, 20_480, 20_481, 300_000] {
            let scene = try Scene(place, write: write)
            let value = [UInt8](repeating: 4, count: size)
            try scene.cache.set(value, forKey: "k", flags: 1)
            try scene.expect(value, timeToLive: nil, flags: 1)
        }
    }

    @Test(arguments: Place.allCases, DiskWriteMode.allCases)
    func `append and prepend`(place: Place, write: DiskWriteMode) throws {
        for addition in [[1], [UInt8](repeating: 2, count: 25_000), [UInt8](repeating: 2, count: 200_000)] {
            let scene = try Scene(place, write: write)
            #expect(try scene.cache.append(addition, toValueForKey: "k") != nil)
            #expect(try scene.cache.prepend(addition, toValueForKey: "k") != nil)
            try scene.expect(addition + scene.value + addition)
        }
    }

    @Test(arguments: Place.allCases, DiskWriteMode.allCases)
    func `arithmetic`(place: Place, write: DiskWriteMode) throws {
        let scene = try Scene(place, write: write)
        guard !place.isFile else {
            // Too long for a number.
            #expect(throws: StorageError.notNumeric) { try scene.cache.increment("k") }
            return try scene.expect(scene.value)
        }
        #expect(try scene.cache.increment("k", by: 90) == 100)
        #expect(try scene.cache.decrement("k", by: 1) == 99)
        try scene.expect(Array("99 ".utf8))
    }

    @Test(arguments: Place.allCases, DiskWriteMode.allCases)
    func `compare and set`(place: Place, write: DiskWriteMode) throws {
        let scene = try Scene(place, write: write)
        let cas = try #require(scene.cache.info(forKey: "k")?.cas)
        #expect(try scene.cache.compareAndSet([1], forKey: "k", cas: cas + 1) == .changed)
        guard case .stored(let fresh) = try scene.cache.compareAndSet([2], forKey: "k", cas: cas) else {
            Issue.record("not stored")
            return
        }
        #expect(fresh != cas)
        #expect(try scene.cache.compareAndSet([3], forKey: "k", cas: cas) == .changed)
        try scene.expect([2], timeToLive: nil, flags: 0)
        #expect(scene.cache.info(forKey: "k")?.cas == fresh)
    }

    @Test(arguments: Place.allCases, DiskWriteMode.allCases)
    func `touch`(place: Place, write: DiskWriteMode) throws {
        let scene = try Scene(place, write: write)
        #expect(scene.cache.touch("k", timeToLive: .seconds(77)))
        try scene.expect(scene.value, timeToLive: .seconds(77))
    }

    @Test(arguments: Place.allCases, DiskWriteMode.allCases)
    func `touch to never and then to soon`(place: Place, write: DiskWriteMode) throws {
        let scene = try Scene(place, write: write)
        #expect(scene.cache.touch("k", timeToLive: nil))
        scene.fixture.dropMemory()
        #expect(scene.cache.touch("k", timeToLive: .seconds(2)))
        scene.fixture.dropMemory()
        scene.fixture.clock.advance(seconds: 2)
        try scene.expect(nil)
    }

    /// Its first deadline has passed when it is looked for; the touch is still in the journal.
    @Test(arguments: Place.allCases, DiskWriteMode.allCases)
    func `a touch outlives the first deadline`(place: Place, write: DiskWriteMode) throws {
        let scene = try Scene(place, timeToLive: .seconds(10), write: write)
        if place != .journal, place != .fileInJournal { scene.fixture.holdWriter() }
        #expect(scene.cache.touch("k", timeToLive: .seconds(1010)))
        scene.fixture.dropMemory()
        scene.fixture.clock.advance(seconds: 10)
        try scene.expect(scene.value)
    }

    @Test(arguments: Place.allCases, DiskWriteMode.allCases)
    func `get and touch`(place: Place, write: DiskWriteMode) throws {
        let scene = try Scene(place, write: write)
        #expect(scene.cache.entry(forKey: "k", newTimeToLive: .seconds(55))?.value == scene.value)
        try scene.expect(scene.value, timeToLive: .seconds(55))
    }

    @Test(arguments: Place.allCases, DiskWriteMode.allCases)
    func `remove`(place: Place, write: DiskWriteMode) throws {
        let scene = try Scene(place, write: write)
        #expect(scene.cache.remove("k"))
        #expect(!scene.cache.remove("k"))
        try scene.expect(nil)
    }

    @Test(arguments: Place.allCases, DiskWriteMode.allCases)
    func `remove, then add`(place: Place, write: DiskWriteMode) throws {
        let scene = try Scene(place, write: write)
        scene.cache.remove(["k"])
        #expect(try scene.cache.add([1], forKey: "k", flags: 2) != nil)
        try scene.expect([1], timeToLive: nil, flags: 2)
    }

    @Test(arguments: Place.allCases, DiskWriteMode.allCases)
    func `expiry`(place: Place, write: DiskWriteMode) throws {
        let scene = try Scene(place, write: write)
        scene.fixture.clock.advance(milliseconds: 999_999)
        #expect(scene.cache.contains("k"))
        scene.fixture.clock.advance(milliseconds: 1)
        #expect(!scene.cache.contains("k"))
        #expect(!scene.cache.remove("k"))
        try scene.expect(nil)
    }

    @Test(arguments: Place.allCases, DiskWriteMode.allCases)
    func `looking`(place: Place, write: DiskWriteMode) throws {
        let scene = try Scene(place, write: write)
        scene.fixture.clock.advance(seconds: 10)
        let info = try #require(scene.cache.info(forKey: "k"))
        #expect(info.key == Array("k".utf8))
        #expect(info.valueBytes == scene.value.count)
        #expect(info.extendedBytes == 2)
        #expect(info.flags == 5)
        #expect(info.age == .seconds(10))
        #expect(info.timeToLive == .seconds(990))
        let storage: EntryInfo.Storage = place == .memory ? .memory : place.isFile ? .file : .inline
        #expect(info.storage == storage)
        #expect(scene.cache.tier(ofKey: "k") == (place == .memory ? .memory : .disk))
        // Looking has brought nothing to memory.
        #expect(scene.cache.isResident("k") == (place == .memory || place == .stub))
        #expect(scene.cache.info(forKey: "k") == info)
    }
}
