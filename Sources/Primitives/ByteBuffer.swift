// A growable run of bytes that is consumed from the front and appended to at the back.
//
// Connections read into one, replies are written into one. It never shrinks by itself; `releaseIfEmpty` gives the
// memory back, so an idle connection holds none.

import Glibc

/// A byte queue with one owner.
///
/// Not thread-safe.
@safe
public struct ByteBuffer: ~Copyable {
    // SAFETY: `base` is owned: allocated in `reserve`, freed in `release` and `deinit`; `start <= end <= capacity`
    // holds at all times, and every access below stays within it.
    @usableFromInline var base: UnsafeMutableRawPointer?
    @usableFromInline var start = 0
    @usableFromInline var end = 0
    @usableFromInline var capacity = 0

    /// An empty buffer without memory.
    public init() { unsafe base = nil }

    deinit { unsafe free(base) }

    /// Bytes that can be consumed.
    @inlinable public var count: Int { end &- start }

    /// Whether nothing is left to consume.
    @inlinable public var isEmpty: Bool { end == start }

    /// Bytes of memory held.
    public var allocatedBytes: Int { capacity }

    /// The readable bytes.
    ///
    /// Valid until the next mutation.
    @inlinable
    public var readable: UnsafeRawBufferPointer {
        unsafe UnsafeRawBufferPointer(start: base.map { unsafe UnsafeRawPointer($0 + start) }, count: count)
    }

    /// The readable bytes as a span.
    @inlinable
    public func withBytes<Result>(_ body: (Span<UInt8>) -> Result) -> Result {
        let bytes = unsafe UnsafeBufferPointer(
            start: base.map { unsafe UnsafePointer(($0 + start).assumingMemoryBound(to: UInt8.self)) }, count: count)
        return unsafe body(Span(_unsafeElements: bytes))
    }

    /// Makes room for `additional` bytes and returns that free room, at least so large.
    ///
    /// Call `commit` with what was written.
    @inlinable
    public mutating func reserve(_ additional: Int) -> UnsafeMutableRawBufferPointer {
        if capacity &- end < additional { grow(additional) }
        return unsafe UnsafeMutableRawBufferPointer(start: base.map { unsafe $0 + end }, count: capacity &- end)
    }

    /// Takes over `count` bytes that were written into the room given by `reserve`.
    @inlinable
    public mutating func commit(_ count: Int) {
        invariant(count >= 0 && count <= capacity &- end)
        end &+= count
    }

    /// Drops `count` bytes from the front.
    @inlinable
    public mutating func consume(_ count: Int) {
        invariant(count >= 0 && count <= self.count)
        start &+= count
        if start == end {
            start = 0
            end = 0
        }
    }

    /// Drops bytes from the back, so that `count` are left.
    public mutating func truncate(to count: Int) {
        invariant(count >= 0 && count <= self.count)
        end = start &+ count
    }

    /// Appends a copy of `bytes`.
    @inlinable
    public mutating func append(_ bytes: UnsafeRawBufferPointer) {
        guard let source = bytes.baseAddress, bytes.count > 0 else { return }
        let room = unsafe reserve(bytes.count)
        unsafe room.baseAddress?.copyMemory(from: source, byteCount: bytes.count)
        end &+= bytes.count
    }

    /// Appends a copy of `bytes`.
    @inlinable
    public mutating func append(_ bytes: Span<UInt8>) {
        unsafe bytes.withUnsafeBytes { unsafe append($0) }
    }

    /// Appends a literal's UTF-8.
    @inlinable
    public mutating func append(_ literal: StaticString) {
        unsafe append(UnsafeRawBufferPointer(start: literal.utf8Start, count: literal.utf8CodeUnitCount))
    }

    /// Appends a string's UTF-8.
    ///
    /// Not for the request path.
    public mutating func append(_ string: String) {
        var string = string
        string.withUTF8 { unsafe append(UnsafeRawBufferPointer($0)) }
    }

    /// Appends one byte.
    @inlinable
    public mutating func append(byte: UInt8) {
        let room = unsafe reserve(1)
        unsafe room[0] = byte
        end &+= 1
    }

    /// Appends `number` in decimal.
    @inlinable
    public mutating func append(decimal number: UInt64) {
        let room = unsafe reserve(20)
        end &+= unsafe writeDecimal(number, to: room)
    }

    /// Gives all memory back if nothing is left to consume.
    public mutating func releaseIfEmpty() {
        guard isEmpty, capacity > 0 else { return }
        unsafe free(base)
        unsafe base = nil
        capacity = 0
    }

    /// Moves the readable bytes to the front, or to a larger block, so that `additional` more fit.
    @usableFromInline
    mutating func grow(_ additional: Int) {
        let readableCount = count
        let (needed, overflow) = readableCount.addingReportingOverflow(additional)
        invariant(!overflow)
        if needed <= capacity / 2, let base = unsafe base {
            unsafe base.copyMemory(from: base + start, byteCount: readableCount)
        } else {
            let newCapacity = max(needed, capacity * 2, 512)
            guard let block = unsafe malloc(newCapacity) else { outOfMemory(newCapacity) }
            if let base = unsafe base { unsafe block.copyMemory(from: base + start, byteCount: readableCount) }
            unsafe free(base)
            unsafe base = block
            capacity = newCapacity
        }
        start = 0
        end = readableCount
    }
}

/// Stops the process: the kernel refused memory for a buffer that is already bounded by the limits.
public func outOfMemory(_ bytes: Int) -> Never {
    preconditionFailure("out of memory: \(bytes) bytes refused")
}

/// Writes a number of 10 to 9999 into `room`, which has been checked; returns the number of digits.
@inlinable
func writeShortDecimal(_ number: UInt32, to room: UnsafeMutableRawBufferPointer) -> Int {
    let (high, low) = (number / 100, number % 100)
    var digits = 0
    if high >= 10 {
        unsafe room[0] = UInt8(truncatingIfNeeded: high / 10 &+ 48)
        digits = 1
    }
    if high > 0 {
        unsafe room[digits] = UInt8(truncatingIfNeeded: high % 10 &+ 48)
        digits &+= 1
    }
    unsafe room[digits] = UInt8(truncatingIfNeeded: low / 10 &+ 48)
    unsafe room[digits &+ 1] = UInt8(truncatingIfNeeded: low % 10 &+ 48)
    return digits &+ 2
}

/// Writes `number` in decimal into `room` (20 bytes or more) and returns the number of digits.
@inlinable
public func writeDecimal(_ number: UInt64, to room: UnsafeMutableRawBufferPointer) -> Int {
    invariant(room.count >= 20)
    if number < 10 {
        unsafe room[0] = UInt8(truncatingIfNeeded: number) &+ 48
        return 1
    }
    if number < 10_000 { return unsafe writeShortDecimal(UInt32(truncatingIfNeeded: number), to: room) }
    var digits = 5
    var power: UInt64 = 100_000
    while digits < 20, number >= power {
        digits &+= 1
        if digits == 20 { break }
        power &*= 10
    }
    var rest = number
    var position = digits
    while position > 0 {
        position &-= 1
        let (quotient, digit) = rest.quotientAndRemainder(dividingBy: 10)
        unsafe room[position] = UInt8(truncatingIfNeeded: digit) &+ 48
        rest = quotient
    }
    return digits
}
