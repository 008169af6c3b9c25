// A file system that is really full: a small tmpfs, mounted for one test.
//
// Needs the right to mount; without it these tests are skipped. Injected faults are in DegradeTests.

import Glibc
import Primitives
import TestSupport
import Testing

@testable import CacheEngine

/// A mounted tmpfs of a few MiB; unmounted with the object.
private final class SmallFileSystem {
    let scratch: TempDirectory
    let path: String

    /// nil where this process may not mount.
    init?(mebibytes: Int) throws {
        scratch = try TempDirectory()
        path = scratch.path("small")
        mkdir(path, 0o700)
        guard mount("none", path, "tmpfs", 0, "size=\(mebibytes)m,mode=700") == 0 else { return nil }
    }

    deinit { umount2(path, Int32(MNT_DETACH)) }

    /// Whether this process may mount, and has the machine to itself: the store waits in real time here.
    static var isPossible: Bool {
        guard getenv("CACHE_DAEMON_ALONE") != nil else { return false }
        do { return try SmallFileSystem(mebibytes: 1) != nil } catch { return false }
    }

    /// Takes what room is left; returns the file that does.
    @discardableResult
    func fill() -> String {
        let name = "\(path)/ballast"
        let file = open(name, O_WRONLY | O_CREAT, 0o600)
        let block = [UInt8](repeating: 1, count: 4096)
        while write(file, block, block.count) > 0 {}
        close(file)
        return name
    }
}

@Suite(.enabled(if: SmallFileSystem.isPossible)) struct FullDiskTests {
    @Test func `what does not fit takes the place of what was used least, and the store stays`() throws {
        let small = try #require(try SmallFileSystem(mebibytes: 12))
        var options = CacheOptions()
        options.memory.bytesMax = 1 << 20
        var disk = DiskOptions(directory: "\(small.path)/cache")
        disk.journalBytes = 1 << 20
        options.disk = disk
        // Under the system's clock: a store that finds no room waits for an attempt that is due in a moment.
        let cache = try Cache.open(options)
        for number in 0..<1500 {
            let bytes = number.isMultiple(of: 2) ? 30_000 : 8000
            try cache.set([UInt8](repeating: UInt8(number % 251), count: bytes), forKey: "k\(number % 700)")
        }
        until { cache.disk?.state == .ok && cache.disk?.journal.usedBytes == 0 }
        for number in 800..<1500 {
            let value = cache.value(forKey: "k\(number % 700)")
            #expect(value == nil || value?.first == UInt8(number % 251))
        }
        #expect(cache.statistics().disk?.quarantines == 0)
        cache.close()
    }

    @Test func `a store that was given up makes room for its successor`() throws {
        let small = try #require(try SmallFileSystem(mebibytes: 12))
        let fixture = try EngineFixture { $0.disk?.directory = "\(small.path)/cache" }
        let cache = fixture.cache
        for number in 0..<100 { try cache.set([UInt8](repeating: 1, count: 50_000), forKey: "k\(number)") }
        fixture.settle()
        small.fill()
        cache.disk?.discardStore("as the test wants it")
        until {
            fixture.clock.advance(milliseconds: 500)
            return cache.disk?.state == .ok && cache.statistics().disk?.quarantines == 1
        }
        try cache.set([2], forKey: "k1")
        fixture.settle()
        fixture.dropMemory()
        #expect(cache.value(forKey: "k1") == [2])
        #expect(cache.value(forKey: "k2") == nil)
        fixture.close()
    }
}
