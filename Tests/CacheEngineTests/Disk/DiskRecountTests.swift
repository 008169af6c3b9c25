// Totals after damage: counted anew, while rows come and go.

import Foundation
import Primitives
import TestSupport
import Testing

@testable import CacheEngine

@Suite struct DiskRecountTests {
    /// Sizes in rows are changed behind the index's back; deleting such rows spoils the totals, a count mends them.
    @Test func `totals are right again after damaged rows were deleted`() throws {
        let fixture = try EngineFixture()
        let cache = fixture.cache
        for number in 0..<3000 { try cache.set([UInt8](repeating: 1, count: 50), forKey: "k\(number)") }
        for number in 0..<10 { try cache.set([UInt8](repeating: 1, count: 30_000), forKey: "file\(number)") }
        fixture.settle()
        cache.onWriter { writer in
            do {
                try writer.index?.open?.connection.execute(
                    """
                    UPDATE entry SET valueBytes = valueBytes + 9223372036854775000 WHERE id % 100 = 0;
                    UPDATE entry SET fileBytes = fileBytes * 2 + 4096 WHERE id % 101 = 0;
                    """)
            } catch {
                Issue.record(error)
            }
        }
        fixture.dropMemory()
        for number in 0..<3000 { _ = cache.value(forKey: "k\(number)") }
        for number in 0..<10 { _ = cache.value(forKey: "file\(number)") }
        fixture.settle()
        until { cache.onWriter { $0.index?.isRecounting } == .some(false) }
        cache.onWriter { $0.publishReport() }
        try cache.checkDiskCounters()
        #expect(cache.entryCount(in: .disk) < 3010)
    }

    /// One seed per case: rows are put, replaced and deleted between the steps of the count.
    @Test(arguments: 1...8) func `a count under way follows what changes`(seed: UInt64) throws {
        let fixture = try DiskFixture()
        var numbers = SeededRandom(seed: seed)
        var keys: [String] = []
        func change() throws {
            try fixture.transaction {
                for _ in 0..<Int.random(in: 1...12, using: &numbers) {
                    // The newest first: the id of the last row is the one that is given away again.
                    if let last = keys.last, Int.random(in: 0..<5, using: &numbers) < 2 {
                        _ = try fixture.index.delete(hash: hashOf(last), key: Array(last.utf8).span)
                        keys.removeLast()
                    } else {
                        let key = "key\(Int.random(in: 0..<500, using: &numbers))"
                        try fixture.put(key, [UInt8](repeating: 1, count: Int.random(in: 0..<90, using: &numbers)))
                        keys.removeAll { $0 == key }
                        keys.append(key)
                    }
                }
            }
        }
        for _ in 0..<60 { try change() }
        fixture.index.beginRecount()
        var steps = 0
        while fixture.index.isRecounting {
            try fixture.index.recountStep(limit: 3)
            steps += 1
            if steps < 60 { try change() }
            if steps == 20 {
                try fixture.index.begin()
                _ = try keys.first.map { try fixture.index.delete(hash: hashOf($0), key: Array($0.utf8).span) }
                fixture.index.rollback()
            }
        }
        #expect(try fixture.index.totals == fixture.index.recount(), "seed \(seed)")
        #expect(steps > 5)
    }
}
