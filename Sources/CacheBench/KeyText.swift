// Key numbers as key text: prefix, zeros, decimal digits, always the same length. Belongs to one thread.

import Glibc

/// Writes keys of one fixed length.
@safe
struct KeyText: ~Copyable {
    // SAFETY: `template` holds `count` bytes, allocated in `init`, freed in deinit, never written afterwards.
    private let template: UnsafeMutablePointer<UInt8>
    /// Bytes of every key.
    let count: Int

    /// `count` has room for the prefix and for the digits of the largest key.
    init(prefix: String, count: Int) {
        precondition(prefix.utf8.count < count)
        self.count = count
        unsafe template = .allocate(capacity: count)
        unsafe template.initialize(repeating: 48, count: count)
        for (index, byte) in prefix.utf8.enumerated() { unsafe template[index] = byte }
    }

    deinit { unsafe template.deallocate() }

    /// Writes the key's `count` bytes to `room`.
    @inline(__always)
    func write(_ key: UInt32, to room: UnsafeMutablePointer<UInt8>) {
        unsafe memcpy(room, template, count)
        var rest = key
        var position = count &- 1
        while rest > 0 {
            let (quotient, digit) = rest.quotientAndRemainder(dividingBy: 10)
            unsafe room[position] = UInt8(truncatingIfNeeded: digit) &+ 48
            rest = quotient
            position &-= 1
        }
    }
}
