// The store's time: what a start takes it for, in the same boot and in another, with the civil clock set.

import Primitives
import TestSupport
import Testing

@testable import CacheEngine

@Suite struct StoreClockTests {
    private static let civil: Int64 = 1_700_000_000_000
    private let source = ManualClock(boot: 50_000, civil: Self.civil)

    /// An anchor that was written now, in boot "a".
    private func anchor() -> StoreAnchor {
        var anchor = StoreAnchor(epoch: 1, write: 1, sequence: 1, durability: .always, bootID: "a")
        anchor.moment = StoreClock(source).moment()
        return anchor
    }

    private func time(_ anchor: StoreAnchor?, boot: String) -> Int64 {
        StoreClock(source, resuming: anchor, bootID: boot).moment().time.milliseconds - Self.civil
    }

    @Test func `a new store begins with civil time`() {
        #expect(StoreClock(source).moment().time == source.wall())
        #expect(time(nil, boot: "a") == 0)
    }

    @Test(arguments: [-3_600_000, 0, 3_600_000, 86_400_000 * 3650, -86_400_000 * 3650])
    func `in one boot it goes as the boot clock goes`(jump: Int64) {
        let anchor = anchor()
        source.advance(milliseconds: 7000)
        source.jump(civilMilliseconds: jump)
        #expect(time(anchor, boot: "a") == 7000)
    }

    @Test func `after a boot it is civil time, but never earlier than it was`() {
        let anchor = anchor()
        source.reboot(boot: 60_000)
        source.jump(civilMilliseconds: 5000)
        #expect(time(anchor, boot: "b") == 5000)
        // Nobody knows how long the machine was off.
        source.jump(civilMilliseconds: -9000)
        #expect(time(anchor, boot: "b") == 0)
        source.advance(milliseconds: 3000)
        #expect(StoreClock(source, resuming: anchor, bootID: "b").moment().boot == source.now())
    }

    @Test(arguments: ["", "a"]) func `a boot clock that cannot be the anchor's is another boot's`(boot: String) {
        var anchor = anchor()
        anchor.bootID = boot
        source.reboot(boot: boot.isEmpty ? 60_000 : 49_999)
        source.jump(civilMilliseconds: 4000)
        #expect(time(anchor, boot: boot) == 4000)
    }

    @Test func `an anchor without a moment, or with an absurd one, says nothing`() {
        var anchor = anchor()
        #expect(StoreAnchor(slot: anchor.bytes[...]) == anchor)
        for milliseconds in [0, -1, StoreMoment.millisecondsMax + 1, .max, .min] {
            anchor.moment?.time = WallTime(milliseconds: milliseconds)
            #expect(StoreAnchor(slot: anchor.bytes[...])?.moment == nil, "\(milliseconds)")
        }
        anchor.moment = nil
        #expect(StoreAnchor(slot: anchor.bytes[...]) == anchor)
        source.jump(civilMilliseconds: -1000)
        #expect(time(StoreAnchor(slot: anchor.bytes[...]), boot: "a") == -1000)
    }

    @Test func `each write of the anchor says when it was`() throws {
        let scratch = try TempDirectory()
        let path = scratch.path("cache")
        let first = try StoreDirectory.open(path: path)
        _ = try first.start(policy: .discard, durability: .always, bootID: "a", clock: source)
        #expect(first.anchor?.moment?.time == source.wall())
        source.advance(seconds: 20)
        try first.writeAnchor(sequence: 0, clean: false, sync: true)
        let seen = try #require(first.anchor?.moment?.time)
        #expect(seen == source.wall())
        first.release()
        source.jump(civilMilliseconds: -500_000)
        source.reboot()
        let second = try StoreDirectory.open(path: path)
        #expect(try second.start(policy: .discard, durability: .process, bootID: "b", clock: source).journalIsValid)
        #expect(second.clock?.moment().time == seen)
        second.release()
        // What is discarded takes its time along.
        source.reboot()
        let third = try StoreDirectory.open(path: path)
        #expect(try !third.start(policy: .discard, durability: .process, bootID: "c", clock: source).journalIsValid)
        #expect(third.clock?.moment().time == source.wall())
    }
}
