// A touch that reaches the journal behind the entry itself, while that waits there.

import Primitives
import TestSupport
import Testing

@testable import CacheEngine

@Suite struct RetouchTests {
    /// The first batch brings the entry with its first deadline, which is over by then; the second the longer one.
    @Test func `a file is not trimmed while the journal gives its entry more time`() throws {
        let fixture = try EngineFixture()
        let cache = fixture.cache
        let value = [UInt8](repeating: 7, count: 30_000)
        fixture.holdWriter()
        try cache.set(value, forKey: "k", timeToLive: .seconds(10))
        // More than a quarter of the journal, which is what one batch takes.
        for number in 0..<4000 { try cache.set([1], forKey: "filler\(number)") }
        #expect(cache.touch("k", timeToLive: .seconds(1000)))
        fixture.clock.advance(milliseconds: 11_000)
        fixture.settle()
        fixture.dropMemory()
        #expect(cache.value(forKey: "k") == value)
    }
}
