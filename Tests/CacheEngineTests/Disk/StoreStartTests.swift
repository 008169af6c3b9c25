import Foundation
import TestSupport
import Testing

@testable import CacheEngine

/// How the run before ended.
enum Ending: Sendable { case crash, clean, synced }

struct StartCase: Sendable {
    var durability: StoreDurability
    var ending: Ending
    var sameBoot: Bool
    var policy = UncleanRebootPolicy.discard
    /// nil: discarded.
    var resumesAfterCrash: Bool?

    static let all = [
        StartCase(durability: .process, ending: .crash, sameBoot: true, resumesAfterCrash: true),
        StartCase(durability: .process, ending: .crash, sameBoot: false, resumesAfterCrash: nil),
        StartCase(durability: .process, ending: .crash, sameBoot: false, policy: .keep, resumesAfterCrash: true),
        StartCase(durability: .process, ending: .clean, sameBoot: true, resumesAfterCrash: false),
        StartCase(durability: .process, ending: .clean, sameBoot: false, resumesAfterCrash: nil),
        StartCase(durability: .process, ending: .synced, sameBoot: false, resumesAfterCrash: false),
        StartCase(durability: .none, ending: .crash, sameBoot: true, resumesAfterCrash: nil),
        StartCase(durability: .none, ending: .crash, sameBoot: false, policy: .keep, resumesAfterCrash: nil),
        StartCase(durability: .none, ending: .clean, sameBoot: true, resumesAfterCrash: false),
        StartCase(durability: .none, ending: .synced, sameBoot: false, resumesAfterCrash: false),
        StartCase(durability: .always, ending: .crash, sameBoot: true, resumesAfterCrash: true),
        StartCase(durability: .always, ending: .crash, sameBoot: false, resumesAfterCrash: true),
    ]
}

private func isQuarantined(_ verdict: StartVerdict) -> Bool {
    if case .quarantined = verdict { true } else { false }
}

@Suite struct StoreStartTests {
    @Test(arguments: StartCase.all)
    func theVerdictFollowsBootStopAndDurability(_ it: StartCase) throws {
        let scratch = try ScratchDirectory()
        do {
            let first = try DiskFixture(scratch, boot: "one", durability: it.durability)
            #expect(first.verdict == .fresh)
            close(try first.directory.openJournal())
            try first.transaction {
                try first.put("key", [1, 2, 3])
                first.index.setSequence(5)
            }
            try first.directory.writeAnchor(sequence: 5, clean: false, sync: false)
            if it.ending == .synced { try first.index.sync() }
            first.index.close()
            if it.ending != .crash {
                try first.directory.writeAnchor(sequence: 5, clean: true, sync: it.ending == .synced)
            }
        }
        let second = try DiskFixture(scratch, boot: it.sameBoot ? "one" : "two", policy: it.policy)
        #expect(second.directory.epoch == 2)
        if let afterCrash = it.resumesAfterCrash {
            #expect(second.verdict == .resumed(afterCrash: afterCrash))
            #expect(second.verdict.journalIsValid)
            #expect(second.index.totals.entries == 1)
            #expect(second.index.sequence == 5)
            #expect(scratch.exists("journal"))
        } else {
            guard case .discarded = second.verdict else {
                Issue.record("\(second.verdict)")
                return
            }
            #expect(!second.verdict.journalIsValid)
            #expect(second.index.totals.entries == 0)
            #expect(second.index.sequence == 0)
            #expect(!scratch.exists("journal"))
            #expect(try scratch.names().contains("discarded-2"))
        }
    }

    @Test func anUnknownBootEqualsNone() throws {
        let scratch = try ScratchDirectory()
        do { _ = try DiskFixture(scratch, boot: "") }
        let second = try DiskFixture(scratch, boot: "")
        #expect(second.verdict == .discarded("an unclean reboot with durability process"))
    }

    @Test func theEpochRisesAtEachStart() throws {
        let scratch = try ScratchDirectory()
        for epoch in 1...5 { #expect(try DiskFixture(scratch).directory.epoch == UInt32(epoch)) }
    }

    @Test func theEpochRisesEvenIfTheIndexIsNeverOpened() throws {
        let scratch = try ScratchDirectory()
        for epoch in 1...3 {
            let directory = try StoreDirectory.open(path: scratch.path)
            _ = try directory.start(policy: .discard, durability: .process, bootID: "b")
            #expect(directory.epoch == UInt32(epoch))
        }
    }

    @Test func oneDamagedSlotHidesNeitherEpochNorCrash() throws {
        for slot in 0...1 {
            let scratch = try ScratchDirectory()
            do {
                let fixture = try DiskFixture(scratch)
                fixture.index.close()
                try fixture.directory.writeAnchor(sequence: 0, clean: true, sync: true)
            }
            do { _ = try DiskFixture(scratch) }
            var bytes = try scratch.read("anchor")
            bytes[slot * 512 + 100] ^= 4
            try scratch.write(bytes, to: "anchor")
            let third = try DiskFixture(scratch)
            #expect(third.verdict == .resumed(afterCrash: true))
            #expect(third.directory.epoch == 3)
        }
    }

    @Test(arguments: ["damaged", "cut", "missing", "empty"])
    func anUnreadableAnchorQuarantinesAndNeverReusesAnEpoch(_ how: String) throws {
        let scratch = try ScratchDirectory()
        do {
            let fixture = try DiskFixture(scratch)
            try fixture.transaction { try fixture.put("key", [1]) }
        }
        var bytes = try scratch.read("anchor")
        switch how {
        case "damaged":
            bytes[30] ^= 1
            bytes[600] ^= 1
            try scratch.write(bytes, to: "anchor")
        case "cut": try scratch.write(Array(bytes.prefix(300)), to: "anchor")
        case "empty": try scratch.write([], to: "anchor")
        default: try FileManager.default.removeItem(atPath: scratch.path("anchor"))
        }
        var epoch: UInt32 = 0
        do {
            let second = try DiskFixture(scratch)
            #expect(isQuarantined(second.verdict))
            #expect(second.index.totals.entries == 0)
            epoch = second.directory.epoch
            #expect(epoch > 1_000_000)
            #expect(scratch.exists("quarantine-\(epoch)/index.db"))
        }
        #expect(try DiskFixture(scratch).directory.epoch == epoch + 1)
    }

    @Test(arguments: ["damaged", "missing"])
    func anUnreadableFormatQuarantines(_ how: String) throws {
        let scratch = try ScratchDirectory()
        let seed = try DiskFixture(scratch).directory.hashSeed
        if how == "damaged" {
            var bytes = try scratch.read("FORMAT")
            bytes[40] ^= 1
            try scratch.write(bytes, to: "FORMAT")
        } else {
            try FileManager.default.removeItem(atPath: scratch.path("FORMAT"))
        }
        let second = try DiskFixture(scratch)
        #expect(isQuarantined(second.verdict))
        #expect(second.directory.hashSeed != seed)
        #expect(second.directory.epoch == 2)
        #expect(try scratch.read("quarantine-2/REASON") == Array("FORMAT is \(how)\n".utf8))
    }

    @Test func aMissingStoreIsAFreshOneInTheSameLineage() throws {
        let scratch = try ScratchDirectory()
        do {
            let fixture = try DiskFixture(scratch)
            close(try fixture.directory.openJournal())
            try fixture.directory.writeAnchor(sequence: 9, clean: false, sync: false)
        }
        try FileManager.default.removeItem(atPath: scratch.path("store"))
        let second = try DiskFixture(scratch)
        #expect(second.verdict == .fresh)
        #expect(second.directory.epoch == 2)
        #expect(second.directory.anchorSequence == 0)
        #expect(!scratch.exists("journal"))
    }

    /// CAS ids that clients hold must not come back with a new store, so the epoch must not begin anew.
    @Test func aLostAnchorWithoutAStoreDoesNotResetTheEpoch() throws {
        for isDamaged in [true, false] {
            let scratch = try ScratchDirectory()
            for _ in 0..<3 { _ = try DiskFixture(scratch) }
            try FileManager.default.removeItem(atPath: scratch.path("store"))
            if isDamaged {
                try scratch.write([UInt8](repeating: 1, count: 1024), to: "anchor")
            } else {
                try FileManager.default.removeItem(atPath: scratch.path("anchor"))
            }
            #expect(try DiskFixture(scratch).directory.epoch > 1_000_000)
        }
    }

    /// A crash after the rename, before the anchor: the next start must not take the old journal for the new store's.
    @Test func aCrashInTheMiddleOfADiscardLosesNothingButTheStore() throws {
        let scratch = try ScratchDirectory()
        do {
            let fixture = try DiskFixture(scratch, boot: "one")
            close(try fixture.directory.openJournal())
        }
        try FileManager.default.moveItem(atPath: scratch.path("store"), toPath: scratch.path("discarded-2"))
        let second = try DiskFixture(scratch, boot: "two")
        #expect(second.verdict == .fresh)
        #expect(!scratch.exists("journal"))
        #expect(second.directory.epoch == 2)
    }

    @Test func quarantineWhileRunning() throws {
        let fixture = try DiskFixture()
        let values = try fixture.directory.valueFiles()
        try fixture.transaction {
            try fixture.put("key", [1, 2, 3])
            try fixture.putFile("large", [UInt8](repeating: 1, count: 5000))
            fixture.index.setSequence(50)
        }
        try fixture.directory.writeAnchor(sequence: 50, clean: false, sync: false)
        close(try fixture.directory.openJournal())
        fixture.index.close()
        try fixture.directory.quarantine("row 7 is damaged")
        #expect(fixture.directory.epoch == 2)
        #expect(fixture.directory.anchorSequence == 0)
        #expect(try fixture.scratch.names().contains("quarantine-2"))
        #expect(try fixture.scratch.read("quarantine-2/REASON") == Array("row 7 is damaged\n".utf8))
        #expect(fixture.scratch.exists("journal"))
        fixture.index = try DiskIndex(directory: fixture.directory, options: IndexOptions())
        #expect(fixture.index.totals == DiskTotals())
        try fixture.transaction {
            try fixture.put("key", [4])
            fixture.index.setSequence(51)
        }
        // The old value files went with the quarantine.
        #expect(values.directory.path == fixture.scratch.path("store/v"))
        #expect(!fixture.scratch.exists("store/v/02/0000010000000002"))
        #expect(fixture.scratch.exists("quarantine-2/v/02/0000010000000002"))
        #expect(try fixture.reader().entry("key").value == [4])
        fixture.index.close()
        try fixture.directory.quarantine("again")
        #expect(try fixture.scratch.names().filter { $0.hasPrefix("quarantine") } == ["quarantine-2", "quarantine-3"])
    }

    @Test func aStartAfterAQuarantineResumesTheNewStore() throws {
        let scratch = try ScratchDirectory()
        do {
            let fixture = try DiskFixture(scratch)
            fixture.index.close()
            try fixture.directory.quarantine("test")
            fixture.index = try DiskIndex(directory: fixture.directory, options: IndexOptions())
            try fixture.transaction { try fixture.put("new", [1]) }
        }
        let second = try DiskFixture(scratch)
        #expect(second.verdict == .resumed(afterCrash: true))
        #expect(second.index.totals.entries == 1)
        #expect(second.directory.epoch == 3)
    }

    /// 400 seeded flips of the anchor: a start never gives out an epoch twice, and never forgets the sequence.
    @Test func flippedAnchorsAreSeenOrHarmless() throws {
        let scratch = try ScratchDirectory()
        var numbers = SeededRandom(seed: 11)
        var epoch: UInt32 = 0
        for _ in 0..<400 {
            let directory = try StoreDirectory.open(path: scratch.path)
            let verdict = try directory.start(policy: .discard, durability: .process, bootID: "b")
            #expect(directory.epoch > epoch)
            if verdict.journalIsValid { #expect(directory.anchorSequence >= 70) }
            // A lost anchor makes a large random epoch: the next case begins anew.
            epoch = directory.epoch
            for sequence in 70...71 { try directory.writeAnchor(sequence: UInt64(sequence), clean: false, sync: false) }
            var bytes = try scratch.read("anchor")
            bytes[Int.random(in: 0..<1024, using: &numbers)] ^= 1 << UInt8.random(in: 0..<8, using: &numbers)
            try scratch.write(bytes, to: "anchor")
        }
    }
}
