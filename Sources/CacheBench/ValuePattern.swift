// The bytes of every value of a run, made and checked at the cost of one memcpy or memcmp.
//
// A value of 24 bytes or more says what it is, in its first bytes, and goes on with a slice of one fixed block of
// noise; which slice follows from key, version and run. So a value of another key, of another length, cut short, mixed
// from two writes, or damaged in any bit is told from the right one, and so is an old one by its version.
//
//     0      4         8     16       20              24
//     | run  | version | key | length | slice ^ magic | noise[slice ..< slice + length - 24] ...
//
// A shorter value is a slice that follows from the key alone: there foreign bytes are found, versions are not.
// The block is the same in every run, so that values which outlived a restart can be checked too, up to 2 MiB or the
// largest size of this run; of larger ones only the header is. Immutable: shared by all threads.

import Glibc
import Primitives

/// Makes and checks values.
@safe
final class ValuePattern: Sendable {
    /// What a check found.
    enum Verdict: Equatable, Sendable {
        /// Right in every byte. `isOurs` is false if an earlier run wrote it; version 0 stands for a value too short to
        /// carry one.
        case intact(version: UInt32, isOurs: Bool)
        /// The value of another key.
        case foreign
        /// Not what was written: cut, mixed or damaged; the first byte that differs.
        case torn(at: Int)
    }

    /// Bytes of the part that says what a value is.
    static let headerBytes = 24
    private static let magic: UInt32 = 0x6265_6e63
    private static let slices = 65_536

    // SAFETY: filled in `init`, read-only from then on, freed in deinit; every slice ends within `slices + reach`.
    nonisolated(unsafe) private let noise: UnsafeMutableRawPointer
    private let sizes: [UInt32]
    private let run: UInt32
    /// The largest value whose every byte can be checked.
    private let reach: Int
    /// The smallest value of this run.
    let bytesMin: Int
    /// The largest value of this run.
    let bytesMax: Int

    /// Values of the given sizes, marked with a number that tells this run from others.
    init(sizes: ValueSizes, run: UInt32) {
        self.sizes = sizes.table
        self.run = run
        bytesMin = Int(self.sizes.first ?? 0)
        bytesMax = Int(self.sizes.last ?? 0)
        reach = max(bytesMax, 2 << 20)
        let words = (Self.slices + reach) / 8 + 1
        unsafe noise = .allocate(byteCount: words * 8, alignment: 8)
        var random = RandomSource(seed: 0x6361_6368_6562, stream: 0)
        for word in 0..<words { unsafe noise.storeBytes(of: random.next(), toByteOffset: word * 8, as: UInt64.self) }
    }

    deinit { unsafe noise.deallocate() }

    /// The size of a key's value in that version.
    @inline(__always)
    func bytes(of key: UInt32, _ version: UInt32) -> Int {
        if sizes.count == 1 { return bytesMax }
        let hash = mixed(UInt64(key) << 32 | UInt64(version))
        return Int(sizes[Int(truncatingIfNeeded: hash >> 52)])
    }

    /// Writes the value of `count` bytes into `room`, which has space for them.
    @inline(__always)
    func write(_ key: UInt32, _ version: UInt32, _ count: Int, to room: UnsafeMutableRawPointer) {
        if count < Self.headerBytes {
            unsafe room.copyMemory(from: noise + Self.slice(key, 0, 0), byteCount: count)
            return
        }
        let slice = Self.slice(key, version, run)
        unsafe room.storeBytes(of: run, as: UInt32.self)
        unsafe room.storeBytes(of: version, toByteOffset: 4, as: UInt32.self)
        unsafe room.storeBytes(of: UInt64(key), toByteOffset: 8, as: UInt64.self)
        unsafe room.storeBytes(of: UInt32(truncatingIfNeeded: count), toByteOffset: 16, as: UInt32.self)
        unsafe room.storeBytes(of: UInt32(slice) ^ Self.magic, toByteOffset: 20, as: UInt32.self)
        unsafe (room + Self.headerBytes).copyMemory(from: noise + slice, byteCount: count - Self.headerBytes)
    }

    /// Checks the `count` bytes at `value` that came for `key`.
    @inline(__always)
    func check(_ key: UInt32, _ value: UnsafeRawPointer, _ count: Int) -> Verdict {
        guard count >= Self.headerBytes else { return unsafe checkShort(key, value, count) }
        let writer = unsafe value.loadUnaligned(as: UInt32.self)
        let version = unsafe value.loadUnaligned(fromByteOffset: 4, as: UInt32.self)
        let slice = Self.slice(key, version, writer)
        let isOurs = writer == run
        guard unsafe value.loadUnaligned(fromByteOffset: 8, as: UInt64.self) == UInt64(key),
            unsafe value.loadUnaligned(fromByteOffset: 16, as: UInt32.self) == UInt32(truncatingIfNeeded: count),
            unsafe value.loadUnaligned(fromByteOffset: 20, as: UInt32.self) == UInt32(slice) ^ Self.magic,
            !isOurs || (version > 0 && count == bytes(of: key, version)),
            unsafe memcmp(value + Self.headerBytes, noise + slice, min(count, reach) - Self.headerBytes) == 0
        else { return unsafe explain(key, value, count) }
        return .intact(version: version, isOurs: isOurs)
    }

    private func checkShort(_ key: UInt32, _ value: UnsafeRawPointer, _ count: Int) -> Verdict {
        if let byte = unsafe difference(value, noise + Self.slice(key, 0, 0), count) {
            return byte == 0 ? .foreign : .torn(at: byte)
        }
        return .intact(version: 0, isOurs: count >= bytesMin && count <= bytesMax)
    }

    /// Tells what is wrong with a value that is not right.
    private func explain(_ key: UInt32, _ value: UnsafeRawPointer, _ count: Int) -> Verdict {
        let writer = unsafe value.loadUnaligned(as: UInt32.self)
        let version = unsafe value.loadUnaligned(fromByteOffset: 4, as: UInt32.self)
        let owner = unsafe value.loadUnaligned(fromByteOffset: 8, as: UInt64.self)
        let length = unsafe value.loadUnaligned(fromByteOffset: 16, as: UInt32.self)
        let slice = unsafe value.loadUnaligned(fromByteOffset: 20, as: UInt32.self) ^ Self.magic
        if owner != UInt64(key), let other = UInt32(exactly: owner), UInt32(Self.slice(other, version, writer)) == slice
        {
            return .foreign
        }
        if owner != UInt64(key) { return .torn(at: 8) }
        if slice != UInt32(Self.slice(key, version, writer)) { return .torn(at: 20) }
        let body = unsafe difference(value + Self.headerBytes, noise + Int(slice), min(count, reach) - Self.headerBytes)
        if let body { return .torn(at: Self.headerBytes + body) }
        return .torn(at: length == UInt32(truncatingIfNeeded: count) ? 4 : min(count, Int(length)))
    }

    private func difference(_ left: UnsafeRawPointer, _ right: UnsafeRawPointer, _ count: Int) -> Int? {
        (0..<count).first {
            unsafe left.load(fromByteOffset: $0, as: UInt8.self) != right.load(fromByteOffset: $0, as: UInt8.self)
        }
    }

    @inline(__always)
    private static func slice(_ key: UInt32, _ version: UInt32, _ run: UInt32) -> Int {
        Int(truncatingIfNeeded: mixed(UInt64(key) << 32 | UInt64(version ^ run &* 0x9E37_79B1)) >> 48)
    }
}
