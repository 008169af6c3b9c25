// The small structures under a shard's lock, each against a plain dictionary, and numbers in values by table.

import Primitives
import TestSupport
import Testing

@testable import CacheEngine

@Suite struct PendingTableTests {
    @Test(arguments: [1, 2, 3] as [UInt64]) func `behaves like a dictionary`(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var table = PendingTable()
        var model: [UInt64: PendingWrite] = [:]
        // Hashes that crowd into few home slots, so that probing and shifting back are exercised.
        func hash() -> UInt64 { UInt64(random.below(300)) << 20 | UInt64(random.below(2)) }
        for sequence in 1...20_000 {
            let hash = hash()
            switch random.below(3) {
            case 0:
                table.remove(hash, upTo: UInt64(sequence))
                model[hash == 0 ? 1 : hash] = nil
            default:
                let write = PendingWrite(kind: .entry, sequence: UInt64(sequence), position: random.next())
                table.put(hash, write)
                model[hash == 0 ? 1 : hash] = write
            }
            let probe = UInt64(random.below(300)) << 20 | 1
            #expect(table.find(probe) == model[probe], "seed \(seed), step \(sequence)")
        }
        #expect(table.count == model.count)
        var seen: [UInt64: PendingWrite] = [:]
        table.forEach { seen[$0] = $1 }
        #expect(seen == model)
    }

    @Test func `a newer write is not forgotten with an older batch`() {
        var table = PendingTable()
        table.put(7, PendingWrite(kind: .entry, sequence: 9, position: 0))
        table.remove(7, upTo: 8)
        #expect(table.find(7)?.sequence == 9)
        table.remove(7, upTo: 9)
        #expect(table.find(7) == nil)
        #expect(table.count == 0)
    }
}

@Suite struct EntryTableTests {
    private func block(_ number: Int, hash: UInt64, in heap: inout EntryHeap) throws -> EntryBlock {
        let key = Array("key-\(number)".utf8)
        let made = EntryBlock.make(key: key.span, extended: Span(), storedValueBytes: 0, hash: hash)
        let loose = try #require(made)
        let slot = heap.allocate(loose.blockBytes)
        let block = loose.copy(to: try #require(slot))
        loose.free()
        return block
    }

    @Test func `finds every block while it grows`() throws {
        var random = SeededRandom(seed: 8)
        var heap = EntryHeap()
        var table = EntryTable(base: heap.base)
        var blocks: [(key: [UInt8], block: EntryBlock)] = []
        for number in 0..<20_000 {
            let block = try block(number, hash: random.next(), in: &heap)
            table.insert(block)
            blocks.append((Array("key-\(number)".utf8), block))
            let (key, probe) = blocks[random.below(blocks.count)]
            #expect(key.withUnsafeBytes { table.find(UInt64(probe.hash), $0) } == probe)
            if random.isOne(in: 3) {
                let (key, gone) = blocks.remove(at: random.below(blocks.count))
                let hash = UInt64(gone.hash)
                table.remove(gone)
                #expect(key.withUnsafeBytes { table.find(hash, $0) } == nil)
                heap.free(gone)
            }
        }
        #expect(table.count == blocks.count)
    }

    @Test func `equal hashes are told apart by their keys`() throws {
        var heap = EntryHeap()
        var table = EntryTable(base: heap.base)
        let one = try block(1, hash: 42, in: &heap)
        let two = try block(2, hash: 42, in: &heap)
        table.insert(one)
        table.insert(two)
        #expect(Array("key-1".utf8).withUnsafeBytes { table.find(42, $0) } == one)
        #expect(Array("key-2".utf8).withUnsafeBytes { table.find(42, $0) } == two)
        table.remove(one)
        #expect(Array("key-2".utf8).withUnsafeBytes { table.find(42, $0) } == two)
    }

    /// A walk in steps, with growth between the steps.
    @Test func `a walk shows what stays exactly once`() throws {
        var random = SeededRandom(seed: 9)
        var heap = EntryHeap()
        var table = EntryTable(base: heap.base)
        var blocks: [EntryBlock] = []
        for number in 0..<1500 {
            blocks.append(try block(number, hash: random.next(), in: &heap))
            table.insert(blocks[number])
        }
        let modulus = table.positions
        var visits: [UInt32: Int] = [:]
        for residue in 0..<modulus {
            table.visit(residue: residue, modulus: modulus) { visits[$0.hash, default: 0] += 1 }
            for _ in 0..<5 {
                blocks.append(try block(blocks.count, hash: random.next(), in: &heap))
                table.insert(blocks[blocks.count - 1])
            }
        }
        #expect(table.positions > modulus)
        for block in blocks[..<1500] { #expect(visits[block.hash] == 1) }
    }
}

@Suite struct DecimalValueTests {
    @Test(
        arguments: [
            ("0", 0), ("7", 7), ("007", 7), (" 12", 12), ("+5", 5), ("12 ", 12), ("12\r\n", 12), ("12 34", 12),
            ("18446744073709551615", .max), ("\t9", 9),
        ] as [(String, UInt64)])
    func `reads numbers`(text: String, number: UInt64) {
        #expect(Array(text.utf8).withUnsafeBytes { DecimalValue.parse($0) } == number)
    }

    @Test(arguments: ["", " ", "+", "-1", "x", "1x", "1.5", "18446744073709551616", "99999999999999999999", "+ 1"])
    func `refuses what is none`(text: String) {
        #expect(Array(text.utf8).withUnsafeBytes { DecimalValue.parse($0) } == nil)
    }

    @Test(
        arguments: [(10, "9", "10"), (9, "10", "9 "), (0, "12345", "0    "), (.max, "1", "18446744073709551615")]
            as [(UInt64, String, String)])
    func `writes over an old value`(number: UInt64, old: String, new: String) {
        let count = DecimalValue.storedBytes(number, over: old.utf8.count)
        var bytes = [UInt8](repeating: 0, count: count)
        bytes.withUnsafeMutableBytes { DecimalValue.write(number, to: $0) }
        #expect(String(decoding: bytes, as: UTF8.self) == new)
    }
}
