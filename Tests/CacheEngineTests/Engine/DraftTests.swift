// Entries on their way in: small, with a file, streamed to a file; finished, refused and abandoned.

import Foundation
import Primitives
import TestSupport
import Testing

@testable import CacheEngine

@Suite struct DraftTests {
    /// Value files in the store.
    private func files(_ fixture: EngineFixture) -> [String] {
        fixture.scratch.files(below: "cache/store/v").filter { $0.contains("/") }
    }

    /// A value of which every part is different.
    private func pattern(_ count: Int) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
            for index in 0..<count { buffer[index] = UInt8(truncatingIfNeeded: index &* 31 &+ index >> 9) }
            filled = count
        }
    }

    /// Streams `value` into a draft in pieces; false if the disk gave up.
    private func stream(_ value: [UInt8], into draft: inout EntryDraft, pieceBytes: Int, _ box: Mailbox) {
        draft.setStreamWaiter(box.waiter(WaitToken.room))
        var offset = 0
        while !draft.isComplete {
            let end = min(offset + pieceBytes, value.count)
            let taken = value[offset..<end].withUnsafeBytes { draft.fill($0) }
            offset += taken
            if taken < pieceBytes, !draft.isComplete { _ = box.next(WaitToken.room) }
        }
    }

    @Test(arguments: [0, 1, 20_480, 20_481, 1 << 20, 1 << 20 + 1, 5_000_000]) func `comes back byte by byte`(
        size: Int
    ) throws {
        let fixture = try EngineFixture()
        let value = pattern(size)
        try fixture.cache.set(value, forKey: "k", flags: 3)
        #expect(fixture.cache.value(forKey: "k") == value)
        fixture.settle()
        fixture.dropMemory()
        #expect(fixture.cache.value(forKey: "k") == value)
        #expect(files(fixture).count == (size > 20_480 ? 1 : 0))
        try fixture.reopen()
        #expect(fixture.cache.value(forKey: "k") == value)
        #expect(fixture.cache.info(forKey: "k")?.flags == 3)
    }

    @Test func `40 MiB pass through less than 2 MiB of memory`() throws {
        let fixture = try EngineFixture { $0.memory.bytesMax = 4 << 20 }
        let value = pattern(40 << 20)
        let key = Array("k".utf8)
        guard var draft = fixture.cache.makeDraft(key: key.span, valueBytes: value.count, flags: 0, deadline: .never)
        else { throw NoDraft() }
        let isStreamed = draft.isStreamed
        #expect(isStreamed)
        let box = Mailbox()
        var most = 0
        draft.setStreamWaiter(box.waiter(WaitToken.room))
        var offset = 0
        while !draft.isComplete {
            offset += value[offset..<min(offset + 65_536, value.count)].withUnsafeBytes { draft.fill($0) }
            most = max(most, fixture.cache.byteCount(in: .memory))
            if draft.isBlocked { _ = box.next(WaitToken.room) }
        }
        let outcome = fixture.cache.finish(&draft, .set, box)
        #expect(outcome.storedID != nil)
        #expect(most == 0)
        #expect(fixture.cache.byteCount(in: .memory) < 4096)
        #expect(fixture.cache.value(forKey: "k") == value)
        try fixture.reopen()
        // In chunks, none larger than the engine's.
        var read: [UInt8] = []
        var largest = 0
        let isThere = fixture.cache.readValue(forKey: "k") { chunk in
            largest = max(largest, chunk.count)
            chunk.withUnsafeBytes { read += $0 }
        }
        #expect(isThere)
        #expect(read == value)
        #expect(largest <= ValueStream.chunkBytes)
    }

    @Test func `an abandoned draft leaves nothing`() throws {
        let fixture = try EngineFixture()
        let box = Mailbox()
        do {
            // Small, never stored.
            _ = try fixture.cache.filledDraft("small", [1])
            // With its file written.
            var file = try fixture.cache.filledDraft("file", pattern(50_000))
            let outcome = fixture.cache.store(&file, .set, now: fixture.clock.now())
            #expect(outcome == .unresolved(.valueFile))
            fixture.cache.overcome(.valueFile, draft: &file, waiter: box.waiter())
            _ = box.next()
            #expect(files(fixture).count == 1)
        }
        do {
            // Streamed, a part of it.
            let key = Array("large".utf8)
            let value = pattern(3 << 20)
            guard
                var draft = fixture.cache.makeDraft(
                    key: key.span, valueBytes: 8 << 20, flags: 0, deadline: .never)
            else { throw NoDraft() }
            draft.setStreamWaiter(box.waiter(WaitToken.room))
            var offset = 0
            while offset < value.count {
                offset += value[offset...].withUnsafeBytes { draft.fill($0) }
                if offset < value.count { _ = box.next(WaitToken.room) }
            }
        }
        do {
            // Streamed, all of it.
            let key = Array("whole".utf8)
            let value = pattern(3 << 20)
            guard
                var draft = fixture.cache.makeDraft(
                    key: key.span, valueBytes: value.count, flags: 0, deadline: .never)
            else { throw NoDraft() }
            stream(value, into: &draft, pieceBytes: 100_000, box)
        }
        until {
            fixture.settle()
            return files(fixture).isEmpty
        }
        for key in ["small", "file", "large", "whole"] { #expect(!fixture.cache.contains(key)) }
        fixture.cache.checkMemoryCounters()
    }

    @Test func `a refused draft leaves no file`() throws {
        let fixture = try EngineFixture()
        for size in [50_000, 3 << 20] {
            #expect(try fixture.cache.replace(pattern(size), forKey: "k") == nil)
            #expect(try fixture.cache.compareAndSet(pattern(size), forKey: "k", cas: 1) == .absent)
            try fixture.cache.set([1], forKey: "k")
            #expect(try fixture.cache.add(pattern(size), forKey: "k") == nil)
            #expect(try fixture.cache.compareAndSet(pattern(size), forKey: "k", cas: 1) == .changed)
            #expect(fixture.cache.remove("k"))
        }
        until {
            fixture.settle()
            return files(fixture).isEmpty
        }
    }

    @Test func `overwriting removes the old file, whatever comes after it`() throws {
        let fixture = try EngineFixture()
        for size in [50_000, 10, 60_000, 3 << 20, 0, 70_000] {
            try fixture.cache.set(pattern(size), forKey: "k")
            fixture.settle()
            #expect(files(fixture).count == (size > 20_480 ? 1 : 0))
        }
        // Overwritten before the first version reached the index.
        fixture.holdWriter()
        for size in [50_000, 60_000, 70_000] { try fixture.cache.set(pattern(size), forKey: "k") }
        fixture.settle()
        #expect(files(fixture).count == 1)
        #expect(fixture.cache.value(forKey: "k") == pattern(70_000))
        fixture.cache.remove("k")
        fixture.settle()
        #expect(files(fixture).isEmpty)
        try fixture.cache.checkDiskCounters()
    }

    @Test func `a journal without room makes stores wait, not fail`() throws {
        let fixture = try EngineFixture()
        fixture.holdWriter()
        let cache = fixture.cache
        let stored = Answer(0)
        let thread = OSThread(name: "stores") {
            for number in 0..<200 {
                do {
                    try cache.set([UInt8](repeating: 1, count: 10_000), forKey: "k\(number)")
                    stored.update { $0 += 1 }
                } catch { Issue.record(error) }
            }
        }
        // Far below 200 fit a ring of 1 MiB.
        until { (cache.disk?.journal.usedBytes ?? 0) > 1_000_000 }
        #expect(stored.value < 110)
        fixture.releaseWriter()
        thread.join()
        #expect(stored.value == 200)
        fixture.settle()
        fixture.dropMemory()
        for number in 0..<200 { #expect(cache.contains("k\(number)")) }
    }

    @Test func `the inline threshold may change at any time`() throws {
        let fixture = try EngineFixture()
        try fixture.cache.set(pattern(10_000), forKey: "row")
        fixture.cache.changeDiskLimits { $0.inlineBytesMax = 5_000 }
        try fixture.cache.set(pattern(10_000), forKey: "file")
        fixture.settle()
        #expect(files(fixture).count == 1)
        #expect(fixture.cache.diskLimits?.inlineBytesMax == 5_000)
        try fixture.reopen { $0.disk?.inlineBytesMax = 50_000 }
        for key in ["row", "file"] { #expect(fixture.cache.value(forKey: key) == pattern(10_000)) }
        #expect(fixture.cache.info(forKey: "row")?.storage == .memory)
        fixture.dropMemory()
        #expect(fixture.cache.info(forKey: "row")?.storage == .inline)
        #expect(fixture.cache.info(forKey: "file")?.storage == .file)
    }
}
