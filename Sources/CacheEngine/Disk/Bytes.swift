// Comparing runs of bytes without copying them.

import Glibc

/// Whether two runs of bytes are the same.
func areEqual(_ left: Span<UInt8>, _ right: Span<UInt8>) -> Bool {
    guard left.count == right.count else { return false }
    let count = left.count
    // SAFETY: both have `count` bytes, and memcmp(3) reads no further. An empty span may have no address.
    return unsafe left.withUnsafeBytes { left in
        unsafe right.withUnsafeBytes { right in
            guard let left = left.baseAddress, let right = right.baseAddress else { return count == 0 }
            return unsafe memcmp(left, right, count) == 0
        }
    }
}
