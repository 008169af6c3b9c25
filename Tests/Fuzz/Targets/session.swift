// Whole conversations: any bytes from one client, cut anywhere, against a cache in memory. Every command is executed.
//
// The first byte says how the input is cut and whether the client reads its replies at once. The cache is flushed
// before each input, so that an input's outcome does not depend on those before it. No sockets, no disk.

import CacheEngine
import Primitives
import Protocol

@testable import CacheDaemon

/// Keeps the engine's answers until the conversation takes them.
private final class Answers: CompletionQueue, ConnectionWaker, LoginReceiver {
    private let waiting = Guarded([Completion](), rank: .mailbox)
    func post(_ completion: Completion) { waiting.withLock { $0.append(completion) } }
    func wake(connection: UInt32) {}
    func deliver(_ verdict: LoginVerdict, connection: UInt32) {}
    func take() -> [Completion] {
        waiting.withLock { waiting in
            defer { waiting = [] }
            return waiting
        }
    }
}

private struct World: ~Copyable {
    let answers = Answers()
    let service: Service
    var turn: Turn

    init() throws {
        var options = CacheOptions()
        options.memory.bytesMax = 16 << 20
        let cache = try Cache.open(options, clock: SystemClock())
        var settings = Settings()
        settings.disk.isEnabled = false
        settings.entryBytesMax = 1 << 20
        let log = Log(level: .debug) { _ in }
        service = Service(cache: cache, settings: settings, log: log, control: try ServerControl())
        turn = Turn(service: service, counters: service.makeCounters(), completions: answers)
    }
}

nonisolated(unsafe) private var world: World = {
    do { return try World() } catch { preconditionFailure("\(error)") }
}()

/// Plays the input to a session that begins.
func fuzz(_ bytes: UnsafeRawBufferPointer) {
    guard let first = bytes.first else { return }
    var session = Session(id: 1, limits: world.service.limits)
    say(&session, Array("flush_all\r\n".utf8), step: 64, readsAtOnce: true)
    let step = first & 0x80 == 0 ? bytes.count : Int(first & 0x3F) + 1
    say(&session, Array(bytes.dropFirst()), step: step, readsAtOnce: first & 0x40 == 0)
    session.abandon(world.turn)
    world.turn.output.removeAll()
    for answer in world.answers.take() { if let flight = answer.flight { world.service.cache.finish(flight) } }
}

private func say(_ session: inout Session, _ bytes: [UInt8], step: Int, readsAtOnce: Bool) {
    var input: [UInt8] = []
    var rest = bytes[...]
    for _ in 0..<100_000 {
        if input.isEmpty || session.stall == .input {
            guard !rest.isEmpty else { return }
            let room = session.bodyRoom()
            let direct = input.isEmpty ? min(room.count, step, rest.count) : 0
            if direct > 0 {
                room.copyBytes(from: rest.prefix(direct))
                session.receiveDirectly(direct)
                rest = rest.dropFirst(direct)
            }
            input += rest.prefix(max(1, step - direct))
            rest = rest.dropFirst(max(1, step - direct))
        }
        world.turn.begin()
        for answer in world.answers.take() {
            session.complete(answer, number: Token(bits: answer.token).number, &world.turn)
        }
        session.sendReady(&world.turn)
        if session.canGoOn {
            let consumed = input.withUnsafeBytes { session.process($0, &world.turn) }
            precondition(consumed >= 0 && consumed <= input.count)
            input.removeFirst(consumed)
        }
        if readsAtOnce || world.turn.output.isFull { world.turn.output.removeAll() }
        switch session.stall {
        case .closing, .broken, .watching: return
        case .engine, .slots: if session.replies.isEmpty && session.stall == .slots { return }
        case .input, .turn, .output: break
        }
    }
}
