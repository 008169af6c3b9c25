// One client's connection: the daemon's end of it, fed and emptied as its worker would.
//
// Bytes arrive in pieces, the client may be slow to take its replies, completions wait until the scheduler lets this
// connection run. What the client asked, and what the answers mean, is in `Requests.swift`.

import CacheEngine
import Primitives
import Protocol
import SimulatedSystem
import TestSupport

/// Completions of one connection until its turn comes.
final class HeldCompletions: CompletionQueue, ConnectionWaker, LoginReceiver {
    private let completions = Guarded([Completion](), rank: .mailbox)

    func post(_ completion: Completion) { completions.withLock { $0.append(completion) } }
    func wake(connection: UInt32) {}
    func deliver(_ verdict: LoginVerdict, connection: UInt32) {}

    var isEmpty: Bool { completions.withLock { $0.isEmpty } }

    func take(_ count: Int) -> [Completion] {
        completions.withLock { waiting in
            let taken = Array(waiting.prefix(count))
            waiting.removeFirst(taken.count)
            return taken
        }
    }
}

/// A client, and the daemon's end of its connection.
final class ClientConnection {
    let number: Int
    private let held = HeldCompletions()
    private var session: Session
    private var turn: Turn
    /// Sent by the client, not read by the daemon.
    private var wire: [UInt8] = []
    /// Read by the daemon, not executed.
    private var input: [UInt8] = []
    private var unsent = Output()
    private let vectors = SendVectors()
    private let sink: Int32
    private var isRunning = false
    private(set) var isClosed = false
    /// What came back and was not understood yet.
    var received: [UInt8] = []
    /// Without a whole answer, oldest first.
    var asked: [AskedRequest] = []

    init(_ number: Int, _ service: Service, _ reads: ReadsAtHand?) {
        self.number = number
        session = Session(id: UInt32(number), limits: service.limits)
        turn = Turn(service: service, counters: service.makeCounters(), completions: held, reads: reads)
        sink = sim_sink()
    }

    deinit { sim_sink_close(sink) }

    func say(_ bytes: [UInt8]) { wire += bytes }

    /// Whether a turn would do something.
    var canRun: Bool {
        guard !isRunning, !isClosed else { return false }
        if !held.isEmpty || !unsent.isEmpty || session.replies.hasReadyFront { return true }
        switch session.stall {
        case .input: return !wire.isEmpty
        case .turn, .output, .closing, .broken: return true
        case .slots: return !session.replies.isFull
        case .engine, .watching: return false
        }
    }

    /// One turn of the worker for this connection.
    func run(_ random: Dice, isSlow: Bool) {
        guard canRun else { return }
        isRunning = true
        defer { isRunning = false }
        for completion in held.take(1 + random.below(3)) {
            turn.begin(executes: false)
            session.complete(completion, number: Token(bits: completion.token).number, &turn)
        }
        sim_sink_room(sink, isSlow ? Int64(random.below(3000)) : .max)
        turn.begin()
        transmit(&unsent)
        if unsent.isEmpty { execute(random) }
        takeReplies()
        turn.reads?.endTurn()
        if session.stall == .broken || session.stall == .closing, unsent.isEmpty, !session.replies.hasReadyFront {
            close()
        }
    }

    private func execute(_ random: Dice) {
        session.sendReady(&turn)
        if session.canGoOn, session.stall != .input { consume() }
        if session.stall == .input, !wire.isEmpty, !turn.output.isFull { read(random) }
        transmit(&turn.output)
        if !turn.output.isEmpty { unsent.take(&turn.output) }
    }

    /// A part of what the client has sent, first straight into the value that is being received.
    private func read(_ random: Dice) {
        let count = random.isOne(in: 4) ? 1 + random.below(wire.count) : wire.count
        let room = session.bodyRoom()
        let direct = min(room.count, count)
        if direct > 0, input.isEmpty {
            room.copyBytes(from: wire.prefix(direct))
            wire.removeFirst(direct)
            session.receiveDirectly(direct)
        } else {
            input += wire.prefix(count)
            wire.removeFirst(count)
        }
        consume()
    }

    private func consume() {
        let consumed = input.withUnsafeBytes { session.process($0, &turn) }
        input.removeFirst(consumed)
    }

    private func transmit(_ output: inout Output) {
        while !output.isEmpty {
            guard case .sent = output.send(to: sink, vectors) else { return }
        }
    }

    private func takeReplies() {
        var room = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = Int(sim_sink_take(sink, &room, Int64(room.count)))
            if count == 0 { return }
            received += room.prefix(count)
        }
    }

    /// The end of the connection, from either side.
    func close() {
        guard !isClosed else { return }
        isClosed = true
        turn.output.removeAll()
        unsent.removeAll()
        session.abandon(turn)
    }

    /// For a report.
    var state: String { "stall \(session.stall), \(wire.count)+\(input.count) bytes unread, \(asked.count) asked" }
}
