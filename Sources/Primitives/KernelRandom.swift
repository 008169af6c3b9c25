// Random bits for seeds and epochs: what nobody outside may guess, or two processes must not share.
//
// Asked of the kernel with one call of the C library. Swift's own generator gives the same bits, but its call is bound
// within Swift's library, where the simulation cannot put a seed in its place. Any thread.

import Glibc

/// The kernel's random number generator.
public enum KernelRandom {
    /// 64 random bits, see getentropy(3).
    public static func word() -> UInt64 {
        var word: UInt64 = 0
        // SAFETY: the call writes the local word's bytes only.
        let result = unsafe withUnsafeMutableBytes(of: &word) { unsafe getentropy($0.baseAddress, $0.count) }
        invariant(result == 0, "the kernel gives no random numbers")
        return word
    }
}
