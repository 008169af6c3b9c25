// A record that changes in the journal after it was acknowledged, as when its page is read again from a bad device.

import Foundation
import Primitives
import TestSupport
import Testing

@testable import CacheEngine

@Suite struct JournalDamageTests {
    /// Flips a bit in the last place where the journal's file has `text`; the daemon sees it, since it maps the file.
    private func flip(_ text: String, _ fixture: EngineFixture) throws {
        let path = fixture.scratch.path("cache/journal")
        let content = try Data(contentsOf: URL(fileURLWithPath: path))
        let place = try #require(content.range(of: Data(text.utf8), options: .backwards)).lowerBound
        let file = try FileHandle(forUpdating: URL(fileURLWithPath: path))
        try file.seek(toOffset: UInt64(place))
        try file.write(contentsOf: Data([content[place] ^ 4]))
        try file.close()
    }

    private func recover(_ fixture: EngineFixture) {
        fixture.releaseWriter()
        until {
            fixture.clock.advance(milliseconds: 100)
            return fixture.cache.statistics().disk?.quarantines == 1 && fixture.cache.disk?.state == .ok
        }
    }

    /// Where the bit flips: in the key, in the value.
    @Test(arguments: ["the-key", "the-value"]) func `is no value, and gives the store up`(text: String) throws {
        let fixture = try EngineFixture { $0.disk?.trimInterval = 10 }
        try fixture.cache.set(Array("an older one".utf8), forKey: "the-key")
        try fixture.cache.set([1], forKey: "other")
        fixture.settle()
        fixture.holdWriter()
        try fixture.cache.set(Array("the-value".utf8), forKey: "the-key")
        fixture.dropMemory(waits: false)
        try flip(text == "the-key" ? "the-keythe-value" : text, fixture)
        #expect(fixture.cache.value(forKey: "the-key") == nil)
        #expect(fixture.cache.info(forKey: "the-key") == nil)
        recover(fixture)
        #expect(fixture.cache.value(forKey: "the-key") == nil)
        try fixture.cache.set([2], forKey: "other")
        try fixture.reopen()
        #expect(fixture.cache.value(forKey: "other") == [2])
        #expect(fixture.cache.value(forKey: "the-key") == nil)
    }

    @Test func `a damaged touch keeps no entry alive`() throws {
        let fixture = try EngineFixture { $0.disk?.trimInterval = 10 }
        try fixture.cache.set([1], forKey: "touched-key", timeToLive: .seconds(10))
        fixture.settle()
        fixture.holdWriter()
        #expect(fixture.cache.touch("touched-key", timeToLive: .seconds(1000)))
        fixture.dropMemory(waits: false)
        try flip("touched-key", fixture)
        #expect(fixture.cache.value(forKey: "touched-key") == nil)
        recover(fixture)
        #expect(fixture.cache.value(forKey: "touched-key") == nil)
    }
}
