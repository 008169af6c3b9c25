// Memory of large values: slots, what is kept warm, and what the kernel gets back.

import Glibc
import Testing

@testable import CacheEngine

/// Serialized: the slots are the process's.
@Suite(.serialized) struct ValueMemoryTests {
    @Test func `every length gets the smallest slot that holds it`() {
        var last = 4 * 4096
        for slotClass in 0..<ValueMemory.classCount {
            let bytes = ValueMemory.slotBytes(slotClass)
            #expect(bytes > last && bytes % 4096 == 0)
            #expect(bytes - last <= max(4096, bytes / 8))
            #expect(ValueMemory.slotClass(holding: last + 1) == slotClass)
            #expect(ValueMemory.slotClass(holding: bytes) == slotClass)
            last = bytes
        }
        #expect(last == ValueMemory.slotBytesMax)
        #expect(ValueMemory.slotClass(holding: EntryBlock.inlineValueBytesMax + 1) == 0)
    }

    @Test func `pieces do not overlap, and keep what is written there`() throws {
        var pieces: [(piece: UnsafeMutableRawPointer, count: Int)] = []
        for number in 0..<600 {
            let count = 16_385 + number * 1777
            let piece = try unsafe #require(ValueMemory.allocate(count))
            unsafe piece.initializeMemory(as: UInt8.self, repeating: UInt8(number & 255), count: count)
            unsafe pieces.append((piece, count))
        }
        for number in unsafe pieces.indices {
            let (piece, count) = unsafe pieces[number]
            let bytes = unsafe UnsafeRawBufferPointer(start: piece, count: count)
            #expect(unsafe bytes.allSatisfy { $0 == UInt8(number & 255) })
            unsafe ValueMemory.free(piece)
        }
    }

    /// Pages of a piece that are in memory; see mincore(2).
    private func residentPages(_ piece: UnsafeMutableRawPointer, _ bytes: Int) -> Int {
        var pages = [UInt8](repeating: 0, count: bytes / 4096)
        let result = unsafe mincore(piece, bytes, &pages)
        #expect(result == 0)
        return pages.count { $0 & 1 != 0 }
    }

    @Test func `beyond what is kept warm, memory of free slots goes back at once`() throws {
        let bytes = 512 << 10
        ValueMemory.addWarmth(2 * bytes)
        defer { ValueMemory.addWarmth(-2 * bytes) }
        var pieces: [UnsafeMutableRawPointer] = []
        for _ in 0..<64 {
            let piece = try unsafe #require(ValueMemory.allocate(bytes))
            unsafe memset(piece, 1, bytes)
            unsafe pieces.append(piece)
        }
        for piece in unsafe pieces { unsafe ValueMemory.free(piece) }
        // Other tests of this process keep some warm, too: what theirs may keep is little beside 32 MiB.
        let resident = unsafe pieces.reduce(0) { unsafe $0 + residentPages($1, bytes) }
        #expect(resident < 16 * bytes / 4096 * 4)
        #expect(ValueMemory.warmBytes > 0)
    }

    @Test func `what stays without need cools down`() throws {
        let bytes = 384 << 10
        ValueMemory.addWarmth(8 * bytes)
        defer { ValueMemory.addWarmth(-8 * bytes) }
        let piece = try unsafe #require(ValueMemory.allocate(bytes))
        unsafe memset(piece, 1, bytes)
        unsafe ValueMemory.free(piece)
        // The first look sees what was used since the one before, the second what nobody wanted in between.
        for _ in 0..<4 { ValueMemory.coolDown() }
        #expect(residentPages(piece, bytes) == 0)
    }
}
