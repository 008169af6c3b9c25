// What a session works with during one turn of its worker. One per worker, lent to one connection at a time.

import CacheEngine
import Primitives
import Protocol

/// The worker's tools, and the output that the present connection's replies go into.
@safe
struct Turn: ~Copyable {
    /// Requests and keys executed for one connection before the others get their turn.
    static let requestsMax = 128

    let cache: Cache
    // SAFETY: `cache`, not counted: the request path takes it from here.
    let cacheReference: Unmanaged<Cache>
    /// Lookups on disk that need not wait; nil without a disk tier.
    let reads: ReadsAtHand?
    let service: Service
    let counters: Counters
    /// Where the engine's answers go.
    let completions: any CompletionQueue & ConnectionWaker & LoginReceiver
    /// Whether replies to changes wait until these are durable.
    let waitsForCommit: Bool
    /// Whether every request is logged.
    private(set) var tracesRequests = false
    /// The time of all decisions of this turn.
    private(set) var now = Instant(milliseconds: 0)
    /// The same in ns, for measuring.
    private(set) var began: Int64 = 0
    /// What is recorded about turns.
    var recorder: TurnRecorder
    private let slow: SlowLog
    private let clientMemory: ClientMemory
    /// Whether the keys of this turn are noted.
    private(set) var isSampled = false
    /// Whether nobody wants to know about the single requests of this turn.
    private(set) var isPlain = true
    /// What somebody wants to know about the requests of this turn.
    private(set) var observation: Observation = []
    /// The connection whose turn it is, as log lines name it.
    private(set) var descriptor: Int32 = -1
    /// How many more requests may be executed in this turn.
    var requestsLeft = 0
    /// Of the turn's requests, those that a costly one stood for.
    private var requestsForgone = 0
    /// Replies of this turn.
    ///
    /// Empty between turns.
    var output = Output()

    init(
        service: Service, counters: Counters, completions: any CompletionQueue & ConnectionWaker & LoginReceiver,
        reads: ReadsAtHand? = nil
    ) {
        cache = service.cache
        self.reads = reads
        unsafe cacheReference = .passUnretained(service.cache)
        self.service = service
        self.counters = counters
        self.completions = completions
        waitsForCommit = service.cache.waitsForCommit
        recorder = TurnRecorder(service.telemetry.makeWorker(now: service.startedAt))
        slow = service.telemetry.slow
        clientMemory = service.clientMemory
    }

    /// Begins the turn of one connection; `executes` unless it is only about an answer of the engine's.
    mutating func begin(descriptor: Int32 = -1, executes: Bool = true) {
        began = cache.clock.nanoseconds()
        now = Instant(milliseconds: began / 1_000_000)
        requestsLeft = Self.requestsMax
        requestsForgone = 0
        tracesRequests = service.log.isOn(.debug)
        observation = service.watchers.observation
        isSampled = executes && recorder.sampling.draw(now.milliseconds)
        isPlain = observation.isEmpty && !isSampled && !tracesRequests
        self.descriptor = descriptor
        let isScarce = clientMemory.isScarce
        if isScarce != output.isNarrow { output.isNarrow = isScarce }
    }

    /// What was executed costs as much as many requests: the others' turns come before this connection's next one.
    mutating func endShare() {
        requestsForgone += max(0, requestsLeft)
        requestsLeft = 0
    }

    /// Whether memory for clients is scarce: a connection that waits for a part of its replies executes nothing.
    var isMemoryScarce: Bool { output.isNarrow }

    /// Records what was executed in this turn, whose replies are with the kernel.
    @inline(__always)
    mutating func end() {
        guard requestsLeft != Self.requestsMax else { return }
        let nanoseconds = cache.clock.nanoseconds() &- began
        recorder.record(counters, nanoseconds: nanoseconds)
        if isSampled { recorder.sampling.noted(Self.requestsMax - requestsLeft - requestsForgone) }
        if nanoseconds >= slow.threshold { noteSlow(nanoseconds) }
    }

    private func noteSlow(_ nanoseconds: Int64) {
        slow.add(
            SlowRequest(
                time: cache.clock.wall(), nanoseconds: nanoseconds, place: .worker, command: "turn",
                requests: Self.requestsMax - requestsLeft - requestsForgone, key: [], descriptor: descriptor))
    }

    /// Records one request that was asked at `since` (in ns) and has waited for the engine until this turn.
    func noteWait(_ kind: LatencyKind, since: Int64, key: [UInt8]) {
        let nanoseconds = began &- since
        recorder.record(kind, nanoseconds: nanoseconds)
        guard nanoseconds >= slow.threshold else { return }
        slow.add(
            SlowRequest(
                time: cache.clock.wall(), nanoseconds: nanoseconds, place: kind == .changeDisk ? .write : .disk,
                command: kind.command, requests: 1, key: key, descriptor: descriptor))
    }

    /// Shows an entry that memory does not hold, and the output, to `body`, if the disk can be asked without waiting.
    ///
    /// Recorded as a get that the disk has answered.
    mutating func readAtHand(
        _ key: Span<UInt8>, _ hash: KeyHash, _ body: (inout Output, EntryView) -> Void
    ) -> Lookup {
        guard let reads else { return .unresolved }
        let start = cache.clock.nanoseconds()
        let lookup = reads.withEntry(key, hash, now: now) { body(&output, $0) }
        if lookup != .unresolved {
            recorder.recordAtHand(isHit: lookup == .hit, nanoseconds: cache.clock.nanoseconds() &- start)
        }
        return lookup
    }

    /// The point in time that a client's expiry means.
    ///
    /// A TTL of n seconds never ends early: `now` may be up to a millisecond before the true time, so one is added.
    @inline(__always)
    func deadline(_ expiration: Expiration) -> Instant {
        switch expiration {
        case .never: .never
        case .after(let seconds): now.advanced(byMilliseconds: seconds &* 1000 &+ 1)
        // Past for every worker, however old the time of its turn is.
        case .immediately: Instant(milliseconds: 0)
        case .at(let unixSeconds): deadline(unixSeconds: unixSeconds)
        }
    }

    private func deadline(unixSeconds: Int64) -> Instant {
        let (milliseconds, overflow) = unixSeconds.multipliedReportingOverflow(by: 1000)
        if overflow { return unixSeconds > 0 ? .never : now }
        return now.advanced(byMilliseconds: max(0, milliseconds - cache.clock.wall().milliseconds))
    }
}
