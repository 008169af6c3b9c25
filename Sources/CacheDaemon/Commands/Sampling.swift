// What a session tells the records: the keys of a sampled turn, and large values.

import CacheEngine
import Primitives
import Protocol

extension BigEntries {
    /// Smaller values are not worth a look at the list.
    static let valueBytesMin = 16 << 10
}

extension Session {
    /// Notes the keys that a request names.
    func sample(_ request: Request, _ input: UnsafeRawBufferPointer, _ turn: borrowing Turn) {
        // SAFETY: keys are parts of the input, which stays in place during the call.
        switch request {
        case .retrieve(let retrieval):
            var keys = unsafe KeyIterator(input, retrieval.keys)
            while let range = keys.next() { unsafe turn.sample(input[range]) }
        case .store(let header): unsafe turn.sample(input[header.key])
        case .delete(let key, _), .touch(let key, _, _), .arithmetic(let key, _, _, _): unsafe turn.sample(input[key])
        case .meta(let meta):
            guard meta.operation != .noOperation else { return }
            unsafe meta.withKey(in: input) { unsafe turn.sample($0) }
        default: break
        }
    }
}

extension Turn {
    /// Notes one sampled key.
    fileprivate func sample(_ key: UnsafeRawBufferPointer) {
        let (weight, turn) = (recorder.sampling.weight, recorder.sampling.turn)
        let now = now.milliseconds
        // SAFETY: the key is copied if it is kept.
        recorder.worker.hotKeys.withLock { unsafe $0.note(key, weight: weight, turn: turn, now: now) }
    }

    /// Notes a large value that is about to be stored.
    func noteBig(_ key: UnsafeRawBufferPointer, _ valueBytes: Int) {
        unsafe service.telemetry.big.note(key, valueBytes: valueBytes, at: cache.clock.wall())
    }
}
