// Values that are on their way in: what their drafts hold is outside the memory tier's limit, and bounded here.
//
// A draft takes its bytes out of the budget when it is made and gives them back when it is stored or dropped. Who would
// exceed the budget is told to wait, and is woken when bytes come back; nobody is refused. One value larger than all of
// it may pass alone. Small values are not counted: they come and go within one turn of an event loop. Any thread.

import Primitives
import Synchronization

/// The budget of one cache.
final class BodyBudget: Sendable {
    /// Values below this are not counted.
    static let countedBytesMin = 16 << 10

    private struct State {
        var used = 0
        var waiters: [Waiter] = []
        var waits = 0
    }

    private let state = Guarded(State(), rank: .diskQueue)
    private let bytesMax: Int

    /// A sixteenth of the memory tier, at least 16 MiB.
    init(_ memory: MemoryOptions) { bytesMax = max(16 << 20, (memory.bytesMax ?? 1 << 30) / 16) }

    var usedBytes: Int { state.withLock { $0.used } }
    var waits: Int { state.withLock { $0.waits } }
    var hasWaiters: Bool { state.withLock { !$0.waiters.isEmpty } }

    /// Whether a value of `bytes` may begin; if not, `waiter` gets `.retry` when it is worth asking again.
    func mayBegin(_ bytes: Int, _ waiter: @autoclosure () -> Waiter) -> Bool {
        guard bytes >= Self.countedBytesMin else { return true }
        return state.withLock { state in
            if state.used == 0 || state.used + bytes <= bytesMax { return true }
            state.waiters.append(waiter())
            state.waits += 1
            return false
        }
    }

    /// Takes what a draft holds out of the budget, however much is left; nil if it is not counted.
    func charge(_ bytes: Int) -> BodyCharge? {
        guard bytes >= Self.countedBytesMin else { return nil }
        state.withLock { $0.used += bytes }
        return BodyCharge(self, bytes)
    }

    fileprivate func release(_ bytes: Int) {
        let waiters = state.withLock { state in
            state.used -= bytes
            let waiters = state.waiters
            state.waiters = []
            return waiters
        }
        for waiter in waiters { waiter.complete(.retry) }
    }
}

/// What one draft has taken out of the budget; gives it back on deinit.
final class BodyCharge: Sendable {
    private let budget: BodyBudget
    private let bytes: Int

    init(_ budget: BodyBudget, _ bytes: Int) {
        self.budget = budget
        self.bytes = bytes
    }

    deinit { budget.release(bytes) }
}

extension Cache {
    /// Values below this may always be received.
    public static var smallBodyBytes: Int { BodyBudget.countedBytesMin }

    /// Whether a value waits until others, which are on their way in, have come.
    public var hasWaitingBodies: Bool { bodies.hasWaiters }

    /// Whether a value of `bytes` may be received now; if not, `waiter` gets `.retry` when it is worth asking again.
    ///
    /// For event loops, before `makeDraft`: what clients are sending is outside the memory tier's limit.
    public func mayReceive(valueBytes bytes: Int, waiter: @autoclosure () -> Waiter) -> Bool {
        bodies.mayBegin(min(bytes, max(memory.valueBytesMax, ValueUpload.heldBytesMax)), waiter())
    }
}
