import Testing

@testable import CacheEngine

@Suite struct StoreFormatTests {
    @Test func comesBack() {
        let format = StoreFormat(seed: 0x0123_4567_89ab_cdef)
        #expect(format.text.hasPrefix("cache-daemon store\nformat 1.0\nseed 0123456789abcdef\nsum "))
        #expect(StoreFormat.read(format.text) == .valid(format))
    }

    @Test func aNewerMinorVersionIsReadable() {
        var format = StoreFormat(seed: 1)
        format.minor = 7
        #expect(StoreFormat.read(format.text) == .valid(format))
    }

    @Test func aNewerMajorVersionIsToldWhateverElseItSays() {
        var format = StoreFormat(seed: 1)
        format.major = 2
        format.minor = 3
        #expect(StoreFormat.read(format.text) == .newer(major: 2, minor: 3))
    }

    @Test func everyFlippedBitIsSeen() {
        let bytes = Array(StoreFormat(seed: 0xfeed_beef).text.utf8)
        for bit in 0..<bytes.count * 8 {
            var flipped = bytes
            flipped[bit / 8] ^= 1 << UInt8(bit % 8)
            #expect(StoreFormat.read(String(decoding: flipped, as: UTF8.self)) == .damaged, "bit \(bit)")
        }
    }

    @Test func everyTruncationIsSeen() {
        let text = StoreFormat(seed: 3).text
        for count in 0..<text.count { #expect(StoreFormat.read(String(text.prefix(count))) == .damaged, "\(count)") }
        #expect(StoreFormat.read(text + "x") == .damaged)
    }
}

@Suite struct StoreAnchorTests {
    private func sample(write: UInt64 = 4, sequence: UInt64 = 99) -> StoreAnchor {
        var anchor = StoreAnchor(
            epoch: 7, write: write, sequence: sequence, durability: .always,
            bootID: "6d1f2a3b-1111-2222-3333-444455556666")
        anchor.stop = .cleanAndSynced
        return anchor
    }

    @Test func comesBack() {
        #expect(sample().bytes.count == 512)
        #expect(StoreAnchor(slot: sample().bytes[...]) == sample())
    }

    @Test func aLongBootIDIsCut() {
        let anchor = StoreAnchor(
            epoch: 1, write: 1, sequence: 1, durability: .none, bootID: String(repeating: "b", count: 200))
        #expect(StoreAnchor(slot: anchor.bytes[...]) == anchor)
        #expect(anchor.bootID.utf8.count == 63)
    }

    @Test func everyFlippedBitIsSeen() {
        let bytes = sample().bytes
        for bit in 0..<bytes.count * 8 {
            var flipped = bytes
            flipped[bit / 8] ^= 1 << UInt8(bit % 8)
            #expect(StoreAnchor(slot: flipped[...]) == nil, "bit \(bit)")
        }
    }

    @Test func theNewerValidSlotCounts() {
        let (older, newer) = (sample(write: 4, sequence: 10), sample(write: 5, sequence: 11))
        #expect(StoreAnchor.newest(in: older.bytes + newer.bytes) == newer)
        #expect(StoreAnchor.newest(in: newer.bytes + older.bytes) == newer)
        var torn = newer.bytes
        torn[40] ^= 1
        #expect(StoreAnchor.newest(in: older.bytes + torn) == older)
        #expect(StoreAnchor.newest(in: torn + torn) == nil)
        #expect(StoreAnchor.newest(in: older.bytes) == older)
        #expect(StoreAnchor.newest(in: Array(older.bytes.prefix(511))) == nil)
        #expect(StoreAnchor.newest(in: []) == nil)
    }

    @Test func writesAlternate() {
        #expect(Set([sample(write: 4).slot, sample(write: 5).slot]) == [0, 1])
    }
}

@Suite struct EntrySumTests {
    @Test func everyFieldCounts() {
        let key = Array("key".utf8)
        let extended: [UInt8] = [1, 2, 3]
        let base = EntryMetadata.sample(generation: 5, valueBytes: 100)
        var changed: [EntryMetadata] = Array(repeating: base, count: 8)
        changed[0].generation += 1
        changed[1].cas += 1
        changed[2].flags ^= 1 << 31
        changed[3].marks = []
        changed[4].deadline = base.written
        changed[5].written.milliseconds += 1
        changed[6].valueBytes += 1
        changed[7].valueSum ^= 1
        func sum(_ metadata: EntryMetadata, _ extended: [UInt8], _ key: [UInt8], fileBytes: Int = 0, hash: UInt64 = 1)
            -> UInt64
        {
            let seed = EntrySum.seed(key: key.span, generation: metadata.generation)
            return EntrySum.row(hash: hash, metadata, fileBytes: fileBytes, extended: extended.span, seed: seed)
        }
        var sums = changed.map { sum($0, extended, key) }
        sums.append(sum(base, extended, key))
        sums.append(sum(base, extended, key, fileBytes: 4096))
        sums.append(sum(base, [1, 2], key))
        sums.append(sum(base, extended, Array("kez".utf8)))
        sums.append(sum(base, extended, key, hash: 2))
        #expect(Set(sums).count == 13)
    }

    @Test func theAccessTimeDoesNotCount() {
        let base = EntryMetadata.sample(generation: 5, valueBytes: 1)
        var read = base
        read.accessed.milliseconds += 60_000
        let nothing = [UInt8]()
        #expect(
            EntrySum.row(hash: 1, base, fileBytes: 0, extended: nothing.span, seed: 1)
                == EntrySum.row(hash: 1, read, fileBytes: 0, extended: nothing.span, seed: 1))
    }

    @Test func aValueBelongsToItsKeyAndGeneration() {
        let value = Array("value".utf8)
        let seeds = [("a", UInt64(1)), ("b", 1), ("a", 2)].map {
            EntrySum.seed(key: Array($0.utf8).span, generation: $1)
        }
        #expect(Set(seeds.map { EntrySum.value(value.span, seed: $0) }).count == 3)
    }
}
