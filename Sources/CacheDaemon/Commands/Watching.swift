// watch: a client that reads what others do; and what sessions tell such clients while there are any.
//
// A request is observed in one place, before it is executed (`executeObserved`): its line, the look at its keys, and
// the counts by prefix. What becomes of stores and deletions is told by their handlers. A key that only the disk knows
// is told when the disk has answered. All of this costs a branch per request while nobody watches.

import CacheEngine
import Primitives
import Protocol

/// Wakes a connection of a worker, from any thread.
protocol ConnectionWaker: AnyObject, Sendable {
    /// Lines wait in the ring of that connection's watcher.
    func wake(connection: UInt32)
}

/// A store under observation.
struct ObservedStore {
    var key: [UInt8]
    let command: StaticString
    let valueBytes: Int
    /// Seconds; 0: never.
    let timeToLive: Int64
}

/// What memory knows about a key.
private enum Peek {
    case found(valueBytes: Int)
    case notFound
    case unknown
}

// MARK: The watcher

extension Session {
    /// Executes `watch`: the connection becomes a stream of lines.
    mutating func beginWatch(_ topics: WatchTopics, lineBytes: Int, _ turn: inout Turn) -> Step {
        if let refusal = watchRefusal(turn) {
            reply(.error(refusal), &turn)
            return .done(lineBytes)
        }
        guard let watcher = turn.service.watch(topics, waker: turn.completions, connection: id) else {
            reply(.error(.tooManyWatchers), &turn)
            return .done(lineBytes)
        }
        turn.output.append(.ok)
        phase = .watching(watcher)
        return .done(lineBytes)
    }

    private func watchRefusal(_ turn: borrowing Turn) -> RequestError? {
        guard turn.service.allowsWatching else { return .watchNotAllowed }
        return turn.output.isEmpty && replies.isEmpty ? nil : .pipelinedWatch
    }

    /// Moves lines that wait for this watcher to the output; its input is not looked at any more.
    func continueWatch(_ watcher: UInt64, inputBytes: Int, _ turn: inout Turn) -> Step {
        turn.service.watchers.take(watcher, into: &turn.output.bytes)
        return Step(consumed: inputBytes, stall: .watching)
    }

    /// Whether this connection is a stream of lines.
    var isWatching: Bool { if case .watching = phase { true } else { false } }

    /// Forgets the watcher when its connection ends.
    func endWatch(_ turn: borrowing Turn) {
        if case .watching(let watcher) = phase { turn.service.unwatch(watcher) }
    }
}

// MARK: The watched

extension Session {
    /// Executes a request that somebody wants to know about.
    mutating func executeObserved(
        _ request: Request, lineBytes: Int, _ input: UnsafeRawBufferPointer, _ turn: inout Turn
    ) -> Step {
        // A request that had to wait for the engine is executed again: it is told once.
        if unfinishedRequest &+ 1 != requestCount {
            if turn.isSampled { unsafe sample(request, input, turn) }
            unsafe observe(request, lineBytes: lineBytes, input, turn)
        }
        let step = unsafe execute(request, lineBytes: lineBytes, input, &turn)
        let isUnfinished = step.consumed == 0 && step.stall != nil && step.stall != .closing
        unfinishedRequest = isUnfinished ? requestCount : .max
        return step
    }

    private mutating func observe(
        _ request: Request, lineBytes: Int, _ input: UnsafeRawBufferPointer, _ turn: borrowing Turn
    ) {
        observedStore = nil
        if turn.observation.includes(.rawCommands) { unsafe observeLine(input, lineBytes, turn) }
        // SAFETY: keys are parts of the input, which stays in place during the call.
        switch request {
        case .retrieve(let retrieval):
            var keys = unsafe KeyIterator(input, retrieval.keys)
            while let range = keys.next() { unsafe observeLook(at: input[range], isGet: true, turn) }
        case .store(let header):
            let key = unsafe input[header.key]
            unsafe observeLook(at: key, isGet: false, turn)
            unsafe observeStore(
                key, header.mode.command, header.valueBytes, header.expiration, turn)
        case .delete(let key, _):
            unsafe observeLook(at: input[key], isGet: false, turn)
            unsafe tally(.delete, input[key], turn)
        case .touch(let key, _, _), .arithmetic(let key, _, _, _):
            unsafe observeLook(at: input[key], isGet: false, turn)
        case .meta(let meta):
            unsafe observe(meta, input, turn)
        default: break
        }
    }

    private mutating func observe(_ request: MetaRequest, _ input: UnsafeRawBufferPointer, _ turn: borrowing Turn) {
        guard request.operation != .noOperation else { return }
        unsafe request.withKey(in: input) { key in
            unsafe observeLook(at: key, isGet: request.operation == .get, turn)
            switch request.operation {
            case .set:
                unsafe observeStore(
                    key, request.storeMode.classic.command, request.valueBytes, request.expiration ?? .never, turn)
            case .delete: unsafe tally(.delete, key, turn)
            case .get, .arithmetic, .inspect, .noOperation: break
            }
        }
    }

    private func observeLine(_ input: UnsafeRawBufferPointer, _ lineBytes: Int, _ turn: borrowing Turn) {
        // SAFETY: the line lies within the input.
        var line = unsafe UnsafeRawBufferPointer(rebasing: input[..<lineBytes])
        while let last = unsafe line.last, last == 0x0A || last == 0x0D {
            unsafe line = UnsafeRawBufferPointer(rebasing: line.dropLast())
        }
        let descriptor = turn.descriptor
        turn.service.watchers.publish(.rawCommands, at: turn.cache.clock.wall()) {
            unsafe $0.appendWatchedRequest(line, descriptor: descriptor)
        }
    }

    /// Tells about a look at a key, as far as memory can; nothing for a key that only the disk knows.
    private func observeLook(at key: UnsafeRawBufferPointer, isGet: Bool, _ turn: borrowing Turn) {
        let counts = isGet && turn.observation.contains(.prefixes)
        guard counts || turn.observation.includes(.fetchers) else { return }
        switch unsafe peek(at: key, turn) {
        case .found(let valueBytes): unsafe noteLook(at: key, valueBytes: valueBytes, isGet: isGet, turn)
        case .notFound: unsafe noteLook(at: key, valueBytes: nil, isGet: isGet, turn)
        case .unknown: break
        }
    }

    /// Tells about a look at a key that is found (with so many bytes) or not (nil).
    func noteLook(at key: UnsafeRawBufferPointer, valueBytes: Int?, isGet: Bool, _ turn: borrowing Turn) {
        if isGet { unsafe tally(.get(isHit: valueBytes != nil), key, turn) }
        let descriptor = turn.descriptor
        turn.service.watchers.publish(.fetchers, at: turn.cache.clock.wall()) {
            unsafe $0.appendWatchedFetch(
                key: key, valueBytes == nil ? .notFound : .found, descriptor: descriptor, valueBytes: valueBytes ?? 0)
        }
    }

    /// Tells about a look at a key that had to wait for the disk.
    func noteDiskLook(at key: UnsafeRawBufferPointer, isHit: Bool, _ turn: borrowing Turn) {
        var valueBytes: Int?
        if isHit {
            if case .found(let bytes) = unsafe peek(at: key, turn) { valueBytes = bytes } else { valueBytes = 0 }
        }
        unsafe noteLook(at: key, valueBytes: valueBytes, isGet: true, turn)
    }

    private func peek(at key: UnsafeRawBufferPointer, _ turn: borrowing Turn) -> Peek {
        var peek = Peek.notFound
        let outcome = turn.cache.edit(unsafe Span(_unsafeBytes: key), now: turn.now) { edit in
            edit.isRead = false
            if edit.isPresent { peek = .found(valueBytes: edit.valueBytes) }
        }
        return outcome == .done ? peek : .unknown
    }

    // MARK: Stores and deletions

    private mutating func observeStore(
        _ key: UnsafeRawBufferPointer, _ command: StaticString, _ valueBytes: Int, _ expiration: Expiration,
        _ turn: borrowing Turn
    ) {
        unsafe tally(.set, key, turn)
        guard turn.observation.includes(.mutations) else { return }
        let deadline = turn.deadline(expiration)
        let left = deadline == .never ? 0 : max(0, deadline.milliseconds - turn.now.milliseconds) / 1000
        // SAFETY: the bytes are copied.
        observedStore = unsafe ObservedStore(
            key: Array(key), command: command, valueBytes: valueBytes, timeToLive: left)
    }

    /// Tells what became of the store under observation, if there is one.
    @inline(__always)
    mutating func noteStore(_ status: @autoclosure () -> StoreStatus?, _ turn: borrowing Turn) {
        if observedStore != nil { tellStore(status(), turn) }
    }

    private mutating func tellStore(_ status: StoreStatus?, _ turn: borrowing Turn) {
        guard let status, let store = observedStore else { return }
        observedStore = nil
        let descriptor = turn.descriptor
        turn.service.watchers.publish(.mutations, at: turn.cache.clock.wall()) { line in
            unsafe store.key.withUnsafeBytes { key in
                unsafe line.appendWatchedStore(
                    key: key, status, command: store.command, timeToLive: store.timeToLive, descriptor: descriptor,
                    valueBytes: store.valueBytes)
            }
        }
    }

    /// Tells that a client has deleted an entry.
    func noteDeletion(
        _ key: UnsafeRawBufferPointer, command: StaticString, valueBytes: Int, _ turn: borrowing Turn
    ) {
        turn.service.watchers.publish(.deletions, at: turn.cache.clock.wall()) {
            unsafe $0.appendWatchedDeletion(key: key, command: command, valueBytes: valueBytes)
        }
    }

    /// The size of the entry that is about to be deleted, if deletions are watched and memory knows it.
    func bytesBeforeDeletion(of key: UnsafeRawBufferPointer, _ turn: borrowing Turn) -> Int? {
        guard turn.observation.includes(.deletions), case .found(let valueBytes) = unsafe peek(at: key, turn) else {
            return nil
        }
        return valueBytes
    }

    private func tally(_ event: PrefixTally.Event, _ key: UnsafeRawBufferPointer, _ turn: borrowing Turn) {
        if turn.observation.contains(.prefixes) { unsafe turn.service.prefixes.note(event, key: key) }
    }
}

extension StoreMode {
    /// The command's name in log lines.
    fileprivate var command: StaticString {
        switch self {
        case .set: "set"
        case .add: "add"
        case .replace: "replace"
        case .append: "append"
        case .prepend: "prepend"
        case .compare: "cas"
        }
    }
}

extension StoreStatus {
    /// What a log line says; nil for what is no outcome yet.
    init?(_ outcome: StoreOutcome) {
        switch outcome {
        case .stored: self = .stored
        case .notStored: self = .notStored
        case .exists: self = .exists
        case .notFound: self = .notFound
        case .noRoom: self = .noMemory
        case .unresolved: return nil
        }
    }
}
