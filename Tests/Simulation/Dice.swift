// The one source of chance of a run. A class: whoever draws may be inside somebody else's turn.

import TestSupport

/// Random numbers from one seed.
final class Dice {
    private var random: SeededRandom

    init(seed: UInt64) { random = SeededRandom(seed: seed) }

    func next() -> UInt64 { random.next() }
    func below(_ bound: Int) -> Int { random.below(bound) }
    func isOne(in times: Int) -> Bool { random.isOne(in: times) }
}
