// One thread, one event loop, its share of the connections, and the memory that they take turns to use.
//
// The worker is made, used and freed on its own thread; others reach it through its mailbox. It never waits for disk.

import CacheEngine
import Glibc
import Libevent
import Primitives
import Protocol
import Synchronization
import TLS

/// The other threads' handle on a worker.
struct WorkerThread: Sendable {
    let mailbox: Mailbox
    let thread: OSThread

    /// Starts a worker.
    ///
    /// - Throws: `EventLoopError` when the kernel refuses a descriptor for its mailbox.
    static func start(number: Int, service: Service) throws(EventLoopError) -> WorkerThread {
        let mailbox = try Mailbox()
        let counters = service.makeCounters()
        let thread = OSThread(name: "worker-\(number)") {
            defer { service.workerEnded() }
            do throws(EventLoopError) {
                let worker = try Worker(service: service, counters: counters, mailbox: mailbox)
                worker.run()
            } catch {
                // Without its loop this thread cannot serve: better to stop than to leave its connections hanging.
                service.log.write(.error, "worker failed", ["number": "\(number)", "reason": "\(error)"])
                service.workerFailed()
                service.control.requestStop()
                service.control.requestStop()
            }
        }
        return WorkerThread(mailbox: mailbox, thread: thread)
    }
}

/// Serves connections.
///
/// Belongs to one thread.
@safe
final class Worker {
    /// Bytes read from a socket at a time.
    static let readBytes = 64 << 10
    /// Time between two looks at the connections' deadlines.
    static let sweepMilliseconds: Int64 = 1000
    /// Steps of TLS handshakes in one turn, about a millisecond each, so that a flood of them delays nobody for long.
    static let handshakeStepsMax = 2
    /// How long an orderly stop waits for clients to take their replies.
    static let drainMilliseconds: Int64 = 5000

    let loop: EventLoop
    let service: Service
    let counters: Counters
    private let mailbox: Mailbox
    private var connections: [UInt32: Connection] = [:]
    /// Connections with work left over from this turn.
    private var ready: [Connection] = []
    private var spareReady: [Connection] = []
    private var spareMessages: [Message] = []
    private var wakeWatch: Watch?
    private var sweep: Timer?
    private var drainTimer: Timer?
    private var handshakeGate = HandshakeGate()
    private var handshakeTimer: Timer?
    private(set) var isDraining = false
    /// Steps of TLS handshakes that may still be done in this turn.
    var handshakeStepsLeft = Worker.handshakeStepsMax
    private var isStopping = false

    /// What sessions work with; lent to one connection at a time.
    var turn: Turn {
        @inline(__always) _read { yield unsafe turnPlace.pointee }
        @inline(__always) _modify { yield unsafe &turnPlace.pointee }
    }
    // SAFETY: allocated in init, freed in deinit. Behind a pointer, so that the run time does not note each access of
    // each connection's turn; one connection has it at a time, because a worker's actions run one after the other.
    private let turnPlace: UnsafeMutablePointer<Turn>
    // SAFETY: allocated in init, freed in deinit; used by one connection at a time, within one call.
    let readMemory: UnsafeMutableRawBufferPointer
    let vectors = SendVectors()

    /// Makes a worker of the current thread.
    init(service: Service, counters: Counters, mailbox: Mailbox) throws(EventLoopError) {
        loop = try EventLoop()
        self.service = service
        self.counters = counters
        self.mailbox = mailbox
        unsafe turnPlace = .allocate(capacity: 1)
        let reads = service.cache.readsAtHand(loops: service.settings.threads)
        unsafe turnPlace.initialize(
            to: Turn(service: service, counters: counters, completions: mailbox, reads: reads))
        unsafe readMemory = .allocate(byteCount: Self.readBytes, alignment: 4096)
        wakeWatch = try mailbox.wakeup.watch(on: loop) { [unowned self] in takeMessages() }
        service.clientMemory.join(mailbox)
        sweep = Timer(loop: loop) { [unowned self] in checkDeadlines() }
        drainTimer = Timer(loop: loop) { [unowned self] in isStopping = true }
        handshakeTimer = Timer(loop: loop) { [unowned self] in admitWaiting() }
    }

    deinit {
        unsafe turnPlace.deinitialize(count: 1)
        unsafe turnPlace.deallocate()
        unsafe readMemory.deallocate()
    }

    /// Serves until told to drain or stop.
    func run() {
        loop.run {
            handshakeStepsLeft = Self.handshakeStepsMax
            runReady()
            turn.reads?.endTurn()
            if service.clientMemory.isExhausted { service.clientMemory.tellWorkers() }
            if isStopping || (isDraining && connections.isEmpty) { return .stop }
            return ready.isEmpty ? .wait : .poll
        }
        for connection in Array(connections.values) { connection.close(&turn) }
    }

    // MARK: Connections

    /// Gives the connection another turn after all others that are ready had theirs.
    func schedule(_ connection: Connection) { ready.append(connection) }

    private func runReady() {
        guard !ready.isEmpty else { return }
        var now: [Connection] = []
        swap(&now, &spareReady)
        swap(&now, &ready)
        for connection in now { connection.runScheduled() }
        now.removeAll(keepingCapacity: true)
        swap(&now, &spareReady)
    }

    /// The connection has closed its descriptor and is not to be called any more.
    func remove(_ connection: Connection) {
        connections[connection.id] = nil
        counters.add(.connectionsClosed)
    }

    private func open(_ fd: Int32, _ id: UInt32, _ context: TLSContext?) {
        if isDraining || connections[id] != nil { return refuse(fd) }
        var tls: TLSSession?
        if let context {
            tls = TLSSession(context, fd: fd)
            guard tls != nil else {
                service.log.write(.warning, "connection refused", ["reason": "no memory for TLS"])
                return refuse(fd)
            }
        }
        do throws(EventLoopError) {
            let connection = try Connection(id: id, fd: fd, tls: tls, worker: self)
            connections[id] = connection
            if connections.count == 1 { try sweep?.set(afterMilliseconds: Self.sweepMilliseconds) }
        } catch {
            service.log.write(.warning, "connection refused", ["reason": "\(error)"])
            connections[id] = nil
            refuse(fd)
        }
    }

    private func refuse(_ fd: Int32) {
        Glibc.close(fd)
        counters.add(.connectionsClosed)
    }

    /// Closes connections whose replies, or requests, have waited for the longest, until memory is not exhausted.
    private func relieveMemory() {
        let memory = service.clientMemory
        guard memory.isExhausted else { return memory.noteLook() }
        let holders = connections.values.filter { $0.isHolding }.sorted { $0.held.since < $1.held.since }
        var closed = 0
        for connection in holders where connection.giveableBytes >= ClientMemory.countedBytesMin {
            if memory.isRelieved { break }
            connection.kick(.memoryKicks)
            closed += 1
        }
        // Who finds nothing to close is not to look again before the next sweep.
        guard closed > 0 else { return }
        memory.noteLook()
        service.log.write(
            .warning, "connections closed for memory",
            ["count": "\(closed)", "client_memory": "\(ByteSize(bytes: memory.bytesMax))"])
    }

    private func checkDeadlines() {
        let now = service.cache.clock.now()
        service.clientMemory.noteLook()
        for connection in Array(connections.values) { connection.checkDeadlines(now) }
        guard !connections.isEmpty else { return }
        do throws(EventLoopError) {
            try sweep?.set(afterMilliseconds: Self.sweepMilliseconds)
        } catch {
            service.log.write(.warning, "no timer for deadlines", ["reason": "\(error)"])
        }
    }

    // MARK: Handshakes

    /// Whether the connection may begin its handshake; if not, it will be told when it may.
    func admits(_ connection: Connection) -> Bool {
        let rate = service.handshakesPerSecond
        if handshakeGate.admits(at: service.cache.clock.now(), perSecond: rate) { return true }
        counters.add(.handshakesDelayed)
        handshakeGate.wait(connection.id)
        if handshakeGate.waiting == 1 { setHandshakeTimer(rate) }
        return false
    }

    private func admitWaiting() {
        let rate = service.handshakesPerSecond
        let now = service.cache.clock.now()
        while let id = handshakeGate.next(at: now, perSecond: rate, isOpen: { connections[$0] != nil }) {
            connections[id]?.beginHandshake()
        }
        if handshakeGate.waiting > 0 { setHandshakeTimer(rate) }
    }

    private func setHandshakeTimer(_ rate: Int64) {
        do throws(EventLoopError) {
            try handshakeTimer?.set(afterMilliseconds: handshakeGate.millisecondsUntilNext(perSecond: rate))
        } catch {
            // Who waits is closed by tls.handshake_timeout.
            service.log.write(.warning, "no timer for handshakes", ["reason": "\(error)"])
        }
    }

    // MARK: Messages

    private func takeMessages() {
        var messages: [Message] = []
        swap(&messages, &spareMessages)
        messages = mailbox.take(replacedBy: messages)
        for message in messages {
            switch message {
            case .connection(let fd, let id, let tls): open(fd, id, tls)
            case .completion(let completion): deliver(completion)
            case .linesReady(let connection): connections[connection]?.linesReady()
            case .ping: service.pongs.add(1, ordering: .relaxed)
            case .verdict(let verdict, let connection): connections[connection]?.take(verdict)
            case .accountsChanged: for connection in Array(connections.values) { connection.renewGrant() }
            case .memoryExhausted: relieveMemory()
            case .drain: drain()
            case .stop: isStopping = true
            }
        }
        messages.removeAll(keepingCapacity: true)
        swap(&messages, &spareMessages)
    }

    /// Hands an answer of the engine to its connection, or gives it back when that is gone.
    private func deliver(_ completion: Completion) {
        let token = Token(bits: completion.token)
        if let connection = connections[token.connection] {
            connection.complete(completion, number: token.number)
        } else if let flight = completion.flight {
            service.cache.finish(flight)
        }
    }

    private func drain() {
        isDraining = true
        for connection in Array(connections.values) { connection.drain() }
        do throws(EventLoopError) {
            try drainTimer?.set(afterMilliseconds: Self.drainMilliseconds)
        } catch {
            isStopping = true
        }
    }
}
