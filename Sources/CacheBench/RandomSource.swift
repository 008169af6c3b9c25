// Random numbers from a seed: the same seed gives the same load on every machine. Not for secrets.

/// xoshiro256++ by Blackman and Vigna (prng.di.unimi.it): 1 ns per number, period 2^256 - 1.
///
/// One owner.
struct RandomSource: Sendable {
    private var a: UInt64
    private var b: UInt64
    private var c: UInt64
    private var d: UInt64

    /// A source of its own for each `stream` of one seed, such as a thread's index.
    init(seed: UInt64, stream: UInt64) {
        var state = seed &+ mixed(stream &+ 1)
        func next() -> UInt64 {
            state &+= 0x9E37_79B9_7F4A_7C15
            return mixed(state)
        }
        a = next()
        b = next()
        c = next()
        d = next()
    }

    /// 64 random bits.
    @inline(__always)
    mutating func next() -> UInt64 {
        let sum = a &+ d
        let result = (sum << 23 | sum >> 41) &+ a
        let shifted = b << 17
        c ^= a
        d ^= b
        b ^= c
        a ^= d
        c ^= shifted
        d = d << 45 | d >> 19
        return result
    }

    /// Uniform in `0..<bound`, biased by less than bound / 2^64.
    @inline(__always)
    mutating func below(_ bound: UInt64) -> UInt64 { next().multipliedFullWidth(by: bound).high }

    /// Uniform in 0..<1 with 53 bits.
    @inline(__always)
    mutating func unit() -> Double { Double(next() >> 11) * 0x1p-53 }
}

/// Spreads the bits of `value`: the finalizer of SplitMix64.
@inline(__always)
func mixed(_ value: UInt64) -> UInt64 {
    var value = value
    value = (value ^ value >> 30) &* 0xBF58_476D_1CE4_E5B9
    value = (value ^ value >> 27) &* 0x94D0_49BB_1331_11EB
    return value ^ value >> 31
}
