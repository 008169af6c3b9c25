// What all threads of a running daemon share: the cache, the log, the settings that may change, everybody's counters.
//
// Made by the server before the first worker starts and alive until the last one ended. Thread-safe.

import CacheEngine
import Libevent
import Primitives
import Protocol
import Synchronization
import TLS

/// Shared by the main thread and all workers.
final class Service: Sendable {
    let cache: Cache
    let log: Log
    let control: ServerControl
    /// Who clients must be; nil: anybody.
    let authenticator: Authenticator?
    /// What the wire allows; does not change while the daemon runs.
    let limits: ProtocolLimits
    let acceptsShutdownCommand: Bool
    /// Whether clients may empty the cache.
    let allowsFlush: Bool
    /// Whether keys may be listed.
    let allowsDumps: Bool
    /// Whether clients may watch others.
    let allowsWatching: Bool
    let startedAt: Instant
    let startedAtWall: WallTime
    /// The settings in force.
    private let current: Guarded<Settings>
    /// The deadlines in force.
    ///
    /// Read by the workers' sweeps, once a second for each connection.
    private let currentDeadlines: Guarded<Deadlines>
    /// Guards the names of options that wait for a restart.
    private let waiting = Guarded<[String]>([], rank: .leaf)
    /// How new TCP connections are encrypted; nil: not at all.
    private let encryption = Guarded(Encryption(), rank: .leaf)
    /// `idle_timeout` in milliseconds, for the workers' sweeps; 0: none.
    private let idleMilliseconds: Atomic<Int64>
    /// `auth.timeout` in milliseconds.
    private let loginLimit: Atomic<Int64>
    /// `tls.handshake_rate`, shared out to the workers.
    private let handshakeLimit: Atomic<Int64>
    /// Guards the list of everybody's counters, and their sums at the last `stats reset`.
    private let tally = Guarded(Tally(), rank: .leaf)

    /// Guards the addresses of clients that were told about the binary protocol.
    private let binaryClients = Guarded(Set<String>(), rank: .leaf)
    private static let binaryClientsMax = 256
    /// Guards what is known of open connections, by descriptor.
    private let cards = Guarded([Int32: ConnectionCard](), rank: .leaf)
    /// Guards the engine's events for watchers of evictions; nil while there are none.
    private let evictions = Guarded<CacheObservation?>(nil, rank: .lifecycle)
    /// What connections hold.
    let clientMemory: ClientMemory
    let watchers: WatchHub
    let telemetry: Telemetry
    let history = History()
    let prefixes = PrefixTally()
    let crawler = Crawler()
    /// What the control group leaves of `memory.limit`.
    private let memoryAllowance = Atomic<Int>(.max)
    /// Times that the memory tier gave way because the control group was short of memory.
    private let memoryShortages = Atomic<Int>(0)
    /// `max_connections`, for the main thread's listeners.
    private let connectionLimit: Atomic<Int>
    /// Workers whose thread is about to end.
    let workersEnded = Atomic<Int>(0)
    /// Whether one of them ended because the system refused what it needs.
    private let hasFailedWorkers = Atomic<Bool>(false)
    /// Answers of workers to pings.
    let pongs = Atomic<Int>(0)

    private struct Tally {
        var threads: [Counters] = []
        var baseline = CounterTotals()
        var engineBaseline: CacheStatistics?
    }

    init(
        cache: Cache, settings: Settings, log: Log, control: ServerControl, watchers: WatchHub = WatchHub(),
        authenticator: Authenticator? = nil
    ) {
        self.watchers = watchers
        self.authenticator = authenticator
        self.cache = cache
        clientMemory = ClientMemory(cache, bytesMax: settings.clientBytesMax)
        self.log = log
        self.control = control
        limits = ProtocolLimits(valueBytesMax: settings.entryBytesMax)
        acceptsShutdownCommand = settings.acceptsShutdownCommand
        allowsFlush = settings.allowsFlush
        allowsDumps = settings.allowsDumps
        allowsWatching = settings.allowsWatching
        startedAt = cache.clock.now()
        startedAtWall = cache.clock.wall()
        current = Guarded(settings, rank: .leaf)
        telemetry = Telemetry(slowThreshold: settings.slowThreshold)
        currentDeadlines = Guarded(Deadlines(settings), rank: .leaf)
        idleMilliseconds = Atomic(settings.idleTimeout?.milliseconds ?? 0)
        loginLimit = Atomic(settings.access.loginTimeout.milliseconds)
        handshakeLimit = Atomic(Self.handshakesPerWorker(settings))
        connectionLimit = Atomic(settings.connectionsMax)
    }

    // MARK: Settings

    /// The settings in force.
    var settings: Settings { current.withLock { $0 } }

    /// Puts changed settings in force; the caller has checked that they may change.
    func apply(_ settings: Settings) {
        current.withLock { $0 = settings }
        cache.apply(CacheOptions(settings, memoryAllowance: memoryAllowance.load(ordering: .relaxed)))
        currentDeadlines.withLock { $0 = Deadlines(settings) }
        idleMilliseconds.store(settings.idleTimeout?.milliseconds ?? 0, ordering: .relaxed)
        loginLimit.store(settings.access.loginTimeout.milliseconds, ordering: .relaxed)
        handshakeLimit.store(Self.handshakesPerWorker(settings), ordering: .relaxed)
        connectionLimit.store(settings.connectionsMax, ordering: .relaxed)
        clientMemory.bytesMax = settings.clientBytesMax
        log.setLevel(settings.logLevel)
        telemetry.slow.setThreshold(settings.slowThreshold)
    }

    /// Names of options that changed in the last reload and wait for the next start.
    var waitingForRestart: [String] {
        get { waiting.withLock { $0 } }
        set { waiting.withLock { $0 = newValue } }
    }

    /// How many client connections are served at a time.
    var connectionsMax: Int { connectionLimit.load(ordering: .relaxed) }

    /// Changes the memory limit, until the next start or reload.
    func setMemoryLimit(bytes: Int) {
        current.withLock { $0.memory.bytesMax = bytes }
        allowMemory(bytes: memoryAllowance.load(ordering: .relaxed))
    }

    /// Holds the memory tier to so many bytes, or to `memory.limit` where that is less.
    func allowMemory(bytes: Int) {
        memoryAllowance.store(bytes, ordering: .relaxed)
        let limit = min(bytes, settings.memory.bytesMax)
        if cache.statistics().memoryBytesMax == limit { return }
        cache.changeMemoryLimitsInBackground { $0.bytesMax = limit }
    }

    /// Times that the memory tier gave way to a shortage.
    var memoryShortageCount: Int { memoryShortages.load(ordering: .relaxed) }

    /// Counts that the control group is short of memory.
    func noteMemoryShortage() { memoryShortages.add(1, ordering: .relaxed) }

    /// After how long a silent connection is closed; nil: never.
    var idleTimeout: Int64? {
        let milliseconds = idleMilliseconds.load(ordering: .relaxed)
        return milliseconds > 0 ? milliseconds : nil
    }

    /// How long a client may take to authenticate itself.
    var loginMilliseconds: Int64 { loginLimit.load(ordering: .relaxed) }

    /// How many TLS handshakes one worker may begin in a second.
    var handshakesPerSecond: Int64 { handshakeLimit.load(ordering: .relaxed) }

    private static func handshakesPerWorker(_ settings: Settings) -> Int64 {
        Int64((settings.tls.handshakesPerSecondMax + settings.threads - 1) / settings.threads)
    }

    /// How long clients may take.
    var deadlines: Deadlines { currentDeadlines.withLock { $0 } }

    // MARK: Encryption

    /// What encrypts new connections.
    struct Encryption {
        var context: TLSContext?
        var loadedAt: Instant?
        var expiresAt: Instant?
    }

    /// What encrypts new connections, and since when.
    var encryptionInForce: Encryption { encryption.withLock { $0 } }

    /// Encrypts connections that begin from now on with `context`; those that are open keep theirs.
    func encrypt(with context: TLSContext?) {
        let now = cache.clock.now()
        let expiresAt = context.map { now.advanced(byMilliseconds: $0.secondsLeft * 1000) }
        encryption.withLock {
            $0 = Encryption(context: context, loadedAt: context.map { _ in now }, expiresAt: expiresAt)
        }
    }

    // MARK: Counters

    /// New counters for a thread; they are part of all sums from now on.
    func makeCounters() -> Counters {
        let counters = Counters()
        tally.withLock { $0.threads.append(counters) }
        return counters
    }

    /// Sums over all threads since the start.
    var totals: CounterTotals { tally.withLock { CounterTotals($0.threads) } }

    /// Sums over all threads, and the engine's counters, as of the last `stats reset`.
    var baselines: (counters: CounterTotals, engine: CacheStatistics?) {
        tally.withLock { ($0.baseline, $0.engineBaseline) }
    }

    /// Lets all counters begin at zero.
    func resetCounters() {
        prefixes.reset()
        telemetry.reset()
        let engine = cache.statistics()
        tally.withLock {
            $0.baseline = CounterTotals($0.threads)
            $0.engineBaseline = engine
        }
    }

    // MARK: Watching

    /// Adds a client that watches; nil if there are too many.
    func watch(_ topics: WatchTopics, waker: any ConnectionWaker, connection: UInt32) -> UInt64? {
        let watcher = watchers.add(topics, waker: waker, connection: connection)
        followEvictions()
        return watcher
    }

    /// Forgets a client that watched.
    func unwatch(_ watcher: UInt64) {
        watchers.remove(watcher)
        followEvictions()
    }

    /// Takes the engine's events while somebody watches evictions.
    private func followEvictions() {
        evictions.withLock { observation in
            guard watchers.observation.includes(.evictions) else { return observation = nil }
            guard observation == nil else { return }
            observation = cache.observe { [watchers, clock = cache.clock] events, _ in
                for event in events where event.reason == .evicted { watchers.publishEviction(event, clock) }
            }
        }
    }

    /// Says once for each address that a client speaks the binary protocol, and what to change.
    func noteBinaryClient(of peer: PeerAddress) {
        let isNew = binaryClients.withLock { $0.count < Self.binaryClientsMax && $0.insert(peer.host).inserted }
        guard isNew else { return }
        log.write(
            .warning, "binary protocol refused",
            ["client": peer.host, "hint": "set the client to the text protocol (binary=false, or protocol ascii)"])
    }

    /// Client connections now open.
    var connectionCount: Int {
        tally.withLock { tally in
            var count = 0
            for thread in tally.threads {
                count += Int(thread.read(.connectionsOpened)) - Int(thread.read(.connectionsClosed))
            }
            return count
        }
    }

    /// Says that a worker could not begin to serve.
    func workerFailed() { hasFailedWorkers.store(true, ordering: .relaxed) }

    /// Whether a worker could not begin to serve.
    var isCrippled: Bool { hasFailedWorkers.load(ordering: .relaxed) }

    /// Says that a worker serves nothing any more.
    func workerEnded() {
        workersEnded.add(1, ordering: .releasing)
        control.wakeup.signal()
    }

    // MARK: Connections, for `stats conns`

    /// Takes note of an open connection.
    func register(_ card: ConnectionCard, fd: Int32) { cards.withLock { $0[fd] = card } }

    /// Forgets a connection that is about to be closed.
    func unregister(fd: Int32) { cards.withLock { $0[fd] = nil } }

    /// Every open connection, by descriptor.
    var connectionCards: [(Int32, ConnectionCard)] {
        cards.withLock { cards in cards.sorted { $0.key < $1.key } }
    }
}

/// Wishes that any thread may send to the main thread.
final class ServerControl: Sendable {
    private let stops = Atomic<Int>(0)
    private let wantsReload = Atomic<Bool>(false)
    let wakeup: Wakeup

    init() throws(EventLoopError) { wakeup = try Wakeup() }

    /// Asks for an orderly stop; a second time, for one at once.
    func requestStop() {
        stops.add(1, ordering: .relaxed)
        wakeup.signal()
    }

    /// Asks for the settings to be read again.
    func requestReload() {
        wantsReload.store(true, ordering: .relaxed)
        wakeup.signal()
    }

    /// How often a stop was asked for.
    var stopRequests: Int { stops.load(ordering: .relaxed) }

    /// Whether a reload was asked for since the last call.
    func takeReload() -> Bool { wantsReload.exchange(false, ordering: .relaxed) }
}
