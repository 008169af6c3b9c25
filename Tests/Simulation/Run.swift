// One seed, from an empty disk to its last step.
//
// The scheduler draws what happens next: a client asks, a connection, the disk writer, a reader or the background
// thread takes a turn, the clock moves, the process ends and begins anew. Calls on files are where threads meet: before
// each, others may run, the call may fail, or the process may die. Who has died runs on to the end of his turn, on a
// disk that nobody looks at any more; the next process finds what was kept at that call. All on one thread.

import Glibc
import Primitives
import SimulatedSystem
import TestSupport

@testable import CacheEngine

/// What a run came to, for the report.
struct Counts {
    var answers = 0
    var hits = 0
    var misses = 0
    var refusals = 0
    var kills = 0
    var powerCuts = 0
    var stops = 0
    var calls = 0
    var failedCalls = 0
    var switches = 0
    var flips = 0
    var failedStarts = 0
    /// How often writes began to go on without the journal.
    var closings = 0

    private static var fields: [(String, WritableKeyPath<Counts, Int>)] {
        [
            ("answers", \.answers), ("hits", \.hits), ("misses", \.misses), ("refused", \.refusals), ("kills", \.kills),
            ("power cuts", \.powerCuts), ("stops", \.stops), ("calls", \.calls), ("failed", \.failedCalls),
            ("switches", \.switches), ("flips", \.flips), ("failed starts", \.failedStarts),
            ("closings", \.closings),
        ]
    }

    mutating func add(_ other: Counts) {
        for (_, field) in Self.fields { self[keyPath: field] += other[keyPath: field] }
    }

    var summary: String { Self.fields.map { "\(self[keyPath: $0.1]) \($0.0)" }.joined(separator: ", ") }
}

/// The simulation of one seed.
final class Run {
    static let directory = "/sim/cache"
    static let roomBytes: Int64 = 256 << 20
    static let roomFiles: Int64 = 1 << 20

    let plan: Plan
    let random: Dice
    static let civilBegin: Int64 = 1_700_000_000_000
    let clock = ManualClock(boot: 1_000_000, civil: Run.civilBegin)
    /// Time that passes whatever the clocks say, in ms.
    var trueClock: Int64 = 0
    private(set) var time = 0
    var version = 0
    let keys: [KeyModel]
    var counts = Counts()
    /// Of everything that was decided and answered.
    private(set) var hash: UInt64 = 0xcbf2_9ce4_8422_2325
    var daemon: SimulatedDaemon?
    var clients: [ClientConnection] = []
    var nextClient = 1
    private(set) var step = 0
    /// Entries may be gone without a reason that the oracle knows.
    var mayVanish = false
    /// Delayed flushes that may still come.
    var flushes: [DelayedFlush] = []
    /// A client has asked for one, and has no answer.
    var isFlushing = false
    // Faults.
    var isDead = false
    var isPowerCut = false
    var isStarting = false
    var callsToDeath = Int.max
    var depth = 0
    var isCalm = false
    var failures: (share: Int, code: Int32) = (0, 0)
    var isBarred = false
    /// The disk is full, because the seed is about that.
    var isShort = false
    var boots = 1
    var storeTime = StoreTimeModel()
    var problem: (any Error)?
    private let prints: Bool

    init(_ plan: Plan, prints: Bool) {
        self.plan = plan
        self.prints = prints
        random = Dice(seed: plan.seed)
        let keepsPast = plan.powerCuts && plan.options.disk?.afterPowerLoss == .keep
        keys = (0..<plan.keys).map {
            KeyModel($0 % 4 == 3 ? "n\($0)" : "k\($0)", keepsPast: keepsPast, losesUnanswered: plan.powerCuts)
        }
        mayVanish = plan.mayVanish || plan.faults != .none
        sim_format(Self.roomBytes, Self.roomFiles)
        sim_boot("boot-1", plan.seed)
    }

    /// A new point in time.
    func tick() -> Int {
        time += 1
        return time
    }

    func trace(_ text: @autoclosure () -> String) {
        let text = text()
        if prints { output("\(step).\(time) [\(depth)] \(text)\n") }
        for byte in text.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
    }

    /// Runs all steps; throws what is wrong.
    func run(_ steps: Int) throws {
        try start()
        while step < steps {
            step += 1
            try advance()
        }
        try finish()
    }

    // MARK: Steps

    private func advance() throws {
        act()
        if let problem { throw problem }
        passFlush()
        if isDead { return try restart() }
        if daemon?.isDoubtful ?? false { mayVanish = true }
        // Nobody may hold the daemon meanwhile: its directories stay open as long as it is there.
        if endsBarred() { return try restart() }
        try Simulation.quietly { try daemon?.check(isThorough: step % 40 == 0, isDamaged: plan.faults == .damage) }
    }

    /// Kills where it is rare to be: while the journal is closed, and when it has just been opened again.
    private func endsBarred() -> Bool {
        let wasBarred = isBarred
        isBarred = daemon?.isBarred ?? false
        if isBarred, !wasBarred { counts.closings += 1 }
        guard isBarred || wasBarred, random.isOne(in: isBarred ? 50 : 3) else { return false }
        die()
        return true
    }

    /// What the scheduler draws at the top.
    private func act() {
        switch draw() {
        case .ask: letAsk()
        case .connection: runConnection()
        case .writer: runWriter()
        case .reader: runReader()
        case .background: runBackground()
        case .moment: pass(Int64(random.below(60)))
        case .period: pass(Int64(random.below(4000)))
        case .disconnect: disconnect()
        case .jump: jump()
        case .fault: causeFault()
        case .end: endProcess()
        }
    }

    private func draw() -> StepKind {
        var left = random.below(plan.weights.reduce(0, +))
        for (kind, weight) in zip(StepKind.allCases, plan.weights) {
            if left < weight { return kind }
            left -= weight
        }
        return .ask
    }

    private func endProcess() {
        let draw = random.below(30)
        if draw < plan.kills {
            isPowerCut = plan.powerCuts && random.below(3) < plan.cutShare
            if random.isOne(in: 4) { die() } else { callsToDeath = 1 + random.below(60) }
        } else if draw < plan.kills + plan.stops {
            stop()
        }
    }

    func letAsk() {
        guard !clients.isEmpty else { return }
        let client = clients[random.below(clients.count)]
        guard !client.isClosed, client.asked.count < 6 else { return runConnection() }
        ask(client)
    }

    func runConnection() {
        let ready = clients.filter(\.canRun)
        guard !ready.isEmpty else { return runWriter() }
        let client = ready[random.below(ready.count)]
        client.run(random, isSlow: random.isOne(in: 8))
        finishTurn(client)
    }

    /// What came out of a turn; the dead are not listened to.
    func finishTurn(_ client: ClientConnection) {
        guard !isDead else { return }
        do { try takeAnswers(client) } catch { problem = problem ?? error }
        if client.isClosed { reconnect(client) }
    }

    private func reconnect(_ client: ClientConnection) {
        guard let daemon, let index = clients.firstIndex(where: { $0 === client }) else { return }
        clients[index] = daemon.connect(nextClient)
        nextClient += 1
    }

    private func disconnect() {
        guard !clients.isEmpty else { return }
        let client = clients[random.below(clients.count)]
        guard random.isOne(in: 3), client.canRun else { return }
        trace("disconnect \(client.number)")
        forget(client)
        reconnect(client)
    }

    func runWriter() { daemon?.runWriter() }

    func runReader() {
        guard let daemon else { return }
        daemon.runReader(random.below(max(1, daemon.readerCount)))
    }

    private func runBackground() { daemon?.runBackground(isDue: random.isOne(in: 2)) }

    func pass(_ milliseconds: Int64) {
        clock.advance(milliseconds: milliseconds)
        trueClock += milliseconds
        passFlush()
    }

    private func jump() {
        guard plan.jumps else { return }
        let by = Int64(random.below(7_200_000)) - 3_600_000
        trace("jump \(by)")
        clock.jump(civilMilliseconds: by)
        storeTime.civil += by
    }
}
