// Work that programs have done on the disk writer's thread, one slice at a time: the caller drives, so that nothing of
// the caller's runs on that thread, and a long job leaves room for writes between its slices.

import Primitives

extension Cache {
    /// Runs `body` on the writer's thread and waits for its result; nil if there is no disk tier, or it is stopping.
    @discardableResult
    func onWriter<Result: Sendable>(_ body: @escaping @Sendable (DiskWriter) -> Result) -> Result? {
        let box = Mailbox()
        guard let answer = ask(box.waiter(), body) else { return nil }
        _ = box.next()
        return answer.value
    }

    /// Runs `body` on the writer's thread and waits for its result; nil if there is no disk tier, or it is stopping.
    func onWriterSuspending<Result: Sendable>(_ body: @escaping @Sendable (DiskWriter) -> Result) async -> Result? {
        let box = Mailbox()
        guard let answer = ask(box.waiter(), body) else { return nil }
        _ = await box.nextSuspending()
        return answer.value
    }

    private func ask<Result: Sendable>(
        _ waiter: Waiter, _ body: @escaping @Sendable (DiskWriter) -> Result
    ) -> Answer<Result?>? {
        guard let disk else { return nil }
        let answer = Answer<Result?>(nil)
        let isAccepted = disk.ask { writer in
            answer.value = body(writer)
            waiter.complete(.retry)
        }
        return isAccepted ? answer : nil
    }

    /// Waits until everything applied so far is in the index.
    func settleIndex() {
        guard let disk, disk.isServing else { return }
        let box = Mailbox()
        disk.commitBarrier(box.waiter())
        _ = box.next()
    }

    /// Waits until everything applied so far is in the index.
    func settleIndexSuspending() async {
        guard let disk, disk.isServing else { return }
        let box = Mailbox()
        disk.commitBarrier(box.waiter())
        _ = await box.nextSuspending()
    }
}
