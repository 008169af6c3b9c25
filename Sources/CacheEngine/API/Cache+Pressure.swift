// Giving memory back when the system is short of it: step by step, never all at once, never more than asked for.

import Primitives

extension Cache {
    /// Evicts least recently used entries until the memory tier holds `fraction` of what it holds now; returns the
    /// bytes freed.
    ///
    /// Limits do not change, and what is on disk stays there. Call it again, with the same fraction, while the pressure
    /// lasts. The calling thread works. When freed memory goes back to the kernel is the allocator's business.
    @discardableResult
    public func shrinkMemory(toFraction fraction: Double) -> Int {
        let before = byteCount(in: .memory)
        let share = min(1, max(0, fraction.isNaN ? 1 : fraction))
        _ = Trim.down(toEntries: .max, bytes: Int(Double(before) * share), in: memory)
        return max(0, before - byteCount(in: .memory))
    }
}
