// Which turns of a worker have their keys noted for the list of hot keys.
//
// Each turn by itself has the same chance, whatever it brings: an estimate made of such turns favours no key, neither
// one that comes after a pause nor one that comes in step with others. The chance is a power of two and follows the
// load, so that notes cost the same few thousandths of a core at any rate; where clients ask less often than that,
// every turn is noted, and counts are exact. Belongs to a turn; no locks, one step of a generator per turn.

/// Draws the turns whose keys are noted.
struct KeySampling {
    /// So often the chance is reconsidered.
    static let windowMilliseconds: Int64 = 8
    /// After so many notes in a window the chance is halved.
    static let notesMax = 16
    /// The chance is at least one in 2 to the power of this.
    static let shiftMax = 16

    /// The chance is one in 2 to the power of this.
    private var shift = 0
    private var notes = 0
    private var windowBegan: Int64 = 0
    /// How many turns were drawn.
    private(set) var turn: UInt64 = 0
    private var state: UInt64 = 0x9e37_79b9_7f4a_7c15

    /// How many turns a drawn one stands for.
    var weight: Double { Double(1 << shift) }

    /// Whether the keys of the turn that begins at `now` (ms) are to be noted.
    @inline(__always)
    mutating func draw(_ now: Int64) -> Bool {
        if now &- windowBegan >= Self.windowMilliseconds { open(now) }
        // Marsaglia's xorshift64 (Journal of Statistical Software, 2003); its high bits decide.
        state ^= state &<< 13
        state ^= state &>> 7
        state ^= state &<< 17
        guard state &>> 48 < (1 &<< 16) &>> shift else { return false }
        turn &+= 1
        return true
    }

    /// Takes into account that the drawn turn had so many requests; before the next one is drawn.
    mutating func noted(_ requests: Int) {
        notes += requests
        while notes > Self.notesMax {
            notes >>= 1
            shift = min(shift + 1, Self.shiftMax)
        }
    }

    private mutating func open(_ now: Int64) {
        // Few notes, and windows without any: the chance doubles for each.
        var idle = (now &- windowBegan) / Self.windowMilliseconds
        if notes > Self.notesMax / 2 { idle -= 1 }
        shift = max(0, shift - Int(min(idle, Int64(Self.shiftMax))))
        windowBegan = now
        notes = 0
    }
}
