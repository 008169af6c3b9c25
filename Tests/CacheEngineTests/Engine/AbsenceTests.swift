// What a client was told is absent stays so, also where the disk has something that can be read again later.

import Foundation
import TestSupport
import Testing

@testable import CacheEngine

@Suite struct AbsenceTests {
    /// A value file whose name a power cut brings back: on a full disk files go before their rows do.
    @Test func `a deleted entry stays away when its missing file comes back`() throws {
        let fixture = try EngineFixture()
        let cache = fixture.cache
        try cache.set([UInt8](repeating: 1, count: 30_000), forKey: "k")
        fixture.settle()
        fixture.dropMemory()
        let values = fixture.scratch.path("cache/store/v")
        let names = FileManager.default.enumerator(atPath: values)?.compactMap { $0 as? String } ?? []
        let file = try #require(names.first { $0.contains("/") })
        try FileManager.default.moveItem(atPath: "\(values)/\(file)", toPath: fixture.scratch.path("aside"))
        // The row stays, as if its removal had failed.
        fixture.holdWriter()
        #expect(!cache.remove("k"))
        try fixture.scratch.copy("cache", to: "copy")
        try FileManager.default.moveItem(
            atPath: fixture.scratch.path("aside"), toPath: fixture.scratch.path("copy/store/v/\(file)"))
        var options = fixture.options
        options.disk?.directory = fixture.scratch.path("copy")
        let copy = try Cache.open(options, clock: fixture.clock)
        #expect(copy.value(forKey: "k")?.count == nil)
        copy.close()
    }

    /// A row that is damaged in the page cache, and whole on the device.
    @Test func `a deleted entry stays away when its damaged row is whole again`() throws {
        let fixture = try EngineFixture()
        try fixture.cache.set([UInt8](repeating: 7, count: 500), forKey: "k")
        try fixture.reopen()
        fixture.close()
        let index = "cache/store/index.db"
        let whole = try fixture.scratch.read(index)
        let value = try #require(whole.indices.first { whole[$0...].prefix(400).allSatisfy { $0 == 7 } })
        var damaged = whole
        damaged[value + 100] = 8
        try fixture.scratch.write(damaged, to: index)
        try fixture.reopen()
        fixture.holdWriter()
        #expect(!fixture.cache.remove("k"))
        try fixture.scratch.copy("cache", to: "copy")
        try fixture.scratch.write(whole, to: "copy/store/index.db")
        var options = fixture.options
        options.disk?.directory = fixture.scratch.path("copy")
        let copy = try Cache.open(options, clock: fixture.clock)
        #expect(copy.value(forKey: "k")?.count == nil)
        copy.close()
    }
}
