// The socket side of a session: when to read, what to send, when to stop listening to a client, when to close.
//
// One turn of a connection, whatever woke it (`run`):
//
//     send what was left over -> move replies that became ready -> execute, reading once -> send in one call -> decide
//
// It reads only when the session wants input and everything said so far was taken by the socket: a client that does not
// read its replies is not listened to. Requests are parsed in the worker's shared read memory; only a part of a request
// is kept in the connection's own buffer, so an idle connection holds none. Belongs to its worker's thread.

import CacheEngine
import Glibc
import Libevent
import Primitives
import Protocol
import TLS

/// One client's connection.
@safe
final class Connection {
    /// How long the client's last bytes are thrown away after the last reply, so that the kernel delivers that one.
    static let lingerMilliseconds: Int64 = 2000

    let id: UInt32
    let fd: Int32
    /// Holds the connection while it is open, and outlives it.
    let worker: Worker
    /// Encrypts; nil where bytes go straight to the socket.
    let tls: TLSSession?
    /// What a turn changes.
    private struct State: ~Copyable {
        var encryption = EncryptionState()
        var session: Session
        var input = ByteBuffer()
        var unsent = Output()
        var held = HeldMemory()
    }
    // SAFETY: allocated in init, freed in deinit. Behind a pointer, so that the run time does not note each of the many
    // accesses of a turn; one action of its worker uses a connection at a time, and none is called from within a turn.
    private let state: UnsafeMutablePointer<State>
    /// Where TLS is; see Connection+TLS.swift.
    var encryption: EncryptionState {
        @inline(__always) _read { yield unsafe state.pointee.encryption }
        @inline(__always) _modify { yield unsafe &state.pointee.encryption }
    }
    var session: Session {
        @inline(__always) _read { yield unsafe state.pointee.session }
        @inline(__always) _modify { yield unsafe &state.pointee.session }
    }
    /// The front of a request that has only come in part.
    var input: ByteBuffer {
        @inline(__always) _read { yield unsafe state.pointee.input }
        @inline(__always) _modify { yield unsafe &state.pointee.input }
    }
    /// Replies that the socket did not take at once.
    ///
    /// While there are any, nothing more is executed.
    var unsent: Output {
        @inline(__always) _read { yield unsafe state.pointee.unsent }
        @inline(__always) _modify { yield unsafe &state.pointee.unsent }
    }
    /// See Connection+Memory.swift.
    var held: HeldMemory {
        @inline(__always) _read { yield unsafe state.pointee.held }
        @inline(__always) _modify { yield unsafe &state.pointee.held }
    }
    private(set) var readWatch: Watch?
    private(set) var writeWatch: Watch?
    /// Nothing more will be read: the client said so, or the daemon is stopping.
    private var isInputOver = false
    private var hasClientFinished = false
    private var isScheduled = false
    var isLingering = false
    private var isClosed = false
    var isCloseTold = false

    let card: ConnectionCard
    var partialSince = Instant.never
    var partialBytes: Int64 = 0
    var partialRequest: UInt32 = 0
    /// When the client was last asked to authenticate itself.
    var loginSince: Instant
    var lastReadBytes: Int64 = 0

    /// Begins to serve `fd`; does not own it when it throws.
    init(id: UInt32, fd: Int32, tls: TLSSession?, worker: Worker) throws(EventLoopError) {
        self.id = id
        self.fd = fd
        self.tls = tls
        self.worker = worker
        unsafe state = .allocate(capacity: 1)
        unsafe state.initialize(
            to: State(
                session: Session(
                    id: id, limits: worker.service.limits, needsLogin: worker.service.authenticator != nil)))
        loginSince = worker.service.cache.clock.now()
        card = ConnectionCard(now: loginSince)
        encryption.isShakingHands = tls != nil
        let watch = Watch(loop: worker.loop, fd: fd, .readable) { [unowned self] in becameReadable() }
        readWatch = watch
        try watch.start()
        worker.service.register(card, fd: fd)
        note("connected")
        tell(closed: nil)
    }

    deinit {
        unsafe state.deinitialize(count: 1)
        unsafe state.deallocate()
    }

    // MARK: What wakes a connection

    private func becameReadable() {
        if encryption.isShakingHands { return shakeHands(&worker.turn) }
        if isLingering || session.isWatching { return discardInput(&worker.turn) }
        guard wantsInput else {
            // The watch is level-triggered: without this it would fire every turn. `settle` starts it again.
            readWatch?.stop()
            return
        }
        run(canRead: true, &worker.turn)
    }

    private func becameWritable() {
        if encryption.isShakingHands { return shakeHands(&worker.turn) }
        // What waits may be an answer of TLS itself, before it can read on.
        if tls != nil, unsent.isEmpty { writeWatch?.stop() }
        run(canRead: tls != nil, &worker.turn)
    }

    /// The worker's turn for connections that had work left.
    func runScheduled() {
        isScheduled = false
        run(canRead: false, &worker.turn)
    }

    /// The engine has an answer.
    ///
    /// Replies go out at the end of the worker's turn, together with those of other answers that came with it.
    func complete(_ completion: Completion, number: UInt32) {
        worker.turn.begin(descriptor: fd, executes: false)
        session.complete(completion, number: number, &worker.turn)
        worker.turn.recorder.skip(worker.counters)
        schedule()
    }

    /// Lines wait for this connection, which watches.
    func linesReady() { schedule() }

    /// The authenticator has an answer.
    func take(_ verdict: LoginVerdict) {
        session.take(verdict)
        loginSince = worker.service.cache.clock.now()
        schedule()
    }

    /// The accounts may have changed: takes today's rights, or closes where the account is gone.
    func renewGrant() {
        guard !isClosed, let grant = session.grant else { return }
        guard let renewed = worker.service.authenticator?.renewed(grant) else { return close(&worker.turn) }
        session.hold(renewed)
    }

    /// The daemon stops: executes what has come whole, then closes.
    func drain() {
        if isLingering { return discardInput(&worker.turn) }
        if encryption.isShakingHands { return close(&worker.turn) }
        if wantsInput { run(canRead: true, &worker.turn) }
        isInputOver = true
        run(canRead: false, &worker.turn)
    }

    // MARK: A turn

    private var wantsInput: Bool { session.stall == .input && unsent.isEmpty && !isInputOver }

    func run(canRead: Bool, _ turn: inout Turn) {
        guard !isClosed, !isLingering, !encryption.isShakingHands else { return }
        turn.begin(descriptor: fd)
        guard sendLeftover(&turn) else { return countHeldMemory(turn.now) }
        session.sendReady(&turn)
        if session.canGoOn, session.stall != .input {
            // SAFETY: a session uses its input only during the call, and the input stays in place meanwhile.
            input.consume(unsafe session.process(input.readable, &turn))
        }
        if canRead || encryption.hasPending, wantsInput, !turn.output.isFull { readAndProcess(&turn) }
        guard !isClosed, send(&turn) else { return }
        turn.end()
        settle(&turn)
        countHeldMemory(turn.now)
    }

    /// Reads once and executes what came.
    private func readAndProcess(_ turn: inout Turn) {
        let shared = unsafe worker.readMemory
        guard input.isEmpty else {
            let room = unsafe input.reserve(Self.partialReadBytes)
            guard let count = unsafe received(read(room), &turn) else { return }
            input.commit(count)
            return input.consume(unsafe session.process(input.readable, &turn))
        }
        let body = unsafe session.bodyRoom()
        guard let count = unsafe received(read(body, then: shared), &turn) else { return }
        let direct = min(count, body.count)
        if direct > 0 { session.receiveDirectly(direct) }
        let rest = unsafe UnsafeRawBufferPointer(rebasing: shared[..<(count - direct)])
        let consumed = unsafe session.process(rest, &turn)
        if consumed < rest.count { unsafe input.append(UnsafeRawBufferPointer(rebasing: rest[consumed...])) }
    }

    /// Room made for the rest of a request that has come in part.
    private static let partialReadBytes = 16 << 10

    /// Reads once; returns what recv(2) would.
    private func read(_ room: UnsafeMutableRawBufferPointer) -> Int {
        if let tls { return unsafe read(tls, room) }
        return unsafe recv(fd, room.baseAddress, room.count, 0)
    }

    /// Reads into the value being received first, and what follows it into the shared memory.
    private func read(_ body: UnsafeMutableRawBufferPointer, then shared: UnsafeMutableRawBufferPointer) -> Int {
        if unsafe body.isEmpty { return unsafe read(shared) }
        if let tls { return unsafe read(tls, body, then: shared) }
        var vectors = unsafe (
            iovec(iov_base: body.baseAddress, iov_len: body.count),
            iovec(iov_base: shared.baseAddress, iov_len: shared.count)
        )
        return unsafe withUnsafeMutablePointer(to: &vectors) { pair in
            unsafe pair.withMemoryRebound(to: iovec.self, capacity: 2) { unsafe readv(fd, $0, 2) }
        }
    }

    /// Interprets what recv(2) or readv(2) returned: the number of bytes, or nil if there are none.
    private func received(_ count: Int, _ turn: inout Turn) -> Int? {
        if count > 0 {
            turn.counters.add(.bytesRead, count)
            card.lastActivity = turn.now
            partialBytes += Int64(count)
            lastReadBytes = Int64(count)
            return count
        }
        if count == 0 {
            isInputOver = true
            hasClientFinished = true
        } else if errno != EAGAIN && errno != EINTR {
            close(&turn)
        }
        return nil
    }

    // MARK: Sending

    /// Sends what the socket did not take before; false if there is still some, or the connection died.
    private func sendLeftover(_ turn: inout Turn) -> Bool {
        guard !unsent.isEmpty else { return true }
        guard note(transmit(&unsent), &turn), unsent.isEmpty else { return false }
        unsent.releaseIfEmpty()
        held.since = turn.now
        writeWatch?.stop()
        return true
    }

    /// Sends the turn's replies; what the socket does not take is kept.
    ///
    /// False if the connection died.
    private func send(_ turn: inout Turn) -> Bool {
        guard !turn.output.isEmpty else { return true }
        guard note(transmit(&turn.output), &turn) else { return false }
        if turn.output.isEmpty { return true }
        unsent.take(&turn.output)
        return watchWritable(&turn)
    }

    private func transmit(_ output: inout Output) -> SendOutcome {
        if let tls { return output.send(through: tls, worker.vectors) }
        return output.send(to: fd, worker.vectors)
    }

    /// Interprets what became of sending; false if the connection died.
    private func note(_ outcome: SendOutcome, _ turn: inout Turn) -> Bool {
        switch outcome {
        case .sent(let bytes):
            turn.counters.add(.bytesWritten, bytes)
            card.lastActivity = turn.now
        case .full:
            break
        case .failed:
            close(&turn)
            return false
        }
        return true
    }

    @discardableResult
    func watchWritable(_ turn: inout Turn) -> Bool {
        let watch =
            writeWatch ?? Watch(loop: worker.loop, fd: fd, .writable) { [unowned self] in becameWritable() }
        writeWatch = watch
        return start(watch, &turn)
    }

    @discardableResult
    func start(_ watch: Watch, _ turn: inout Turn) -> Bool {
        do throws(EventLoopError) {
            try watch.start()
            return true
        } catch {
            worker.service.log.write(.warning, "connection dropped", ["reason": "\(error)"])
            close(&turn)
            return false
        }
    }

    // MARK: What next

    private func settle(_ turn: inout Turn) {
        let stall = session.stall
        if stall == .broken { return close(&turn) }
        guard unsent.isEmpty else { return partialSince = .never }
        notePartialRequest(turn.now)
        switch stall {
        case .closing, .broken:
            if session.replies.isEmpty { return linger(&turn) }
        case .input where isInputOver:
            // Half a request is dropped.
            if session.replies.isEmpty { return hasClientFinished ? close(&turn) : linger(&turn) }
        case .input:
            guard let readWatch, start(readWatch, &turn) else { return }
            input.releaseIfEmpty()
            // The socket does not become readable for what TLS has taken from it already.
            if encryption.hasPending { schedule() }
            if encryption.wantsWrite {
                encryption.wantsWrite = false
                watchWritable(&turn)
            }
        case .turn:
            worker.counters.add(.yields)
            schedule()
        case .output:
            schedule()
        case .watching:
            // Only to see the client's end.
            card.isWatching = true
            if isInputOver { return linger(&turn) }
            guard let readWatch, start(readWatch, &turn) else { return }
        case .slots, .engine:
            break
        }
        if session.replies.hasReadyFront { schedule() }
    }

    private func schedule() {
        guard !isScheduled else { return }
        isScheduled = true
        worker.schedule(self)
    }

    // MARK: The end

    /// Says good-bye: the client sees the end of the replies, and what it still sends is thrown away for a while.
    ///
    /// Closing with unread input makes the kernel reset the connection, and the client may lose the last reply.
    private func linger(_ turn: inout Turn) {
        logFatal()
        tellClosed(session.fatal != nil ? .error : worker.isDraining ? .shutdown : .normal)
        isLingering = true
        card.lastActivity = turn.now
        tls?.sayGoodbye()
        if shutdown(fd, Int32(SHUT_WR)) != 0 { return close(&turn) }
        if let readWatch { start(readWatch, &turn) }
        if !isClosed { discardInput(&turn) }
    }

    private func discardInput(_ turn: inout Turn) {
        let memory = unsafe worker.readMemory
        let count = unsafe recv(fd, memory.baseAddress, memory.count, 0)
        if count > 0 { return }
        if count == 0 { hasClientFinished = true }
        // A stopping daemon waits only for clients that were just sending.
        if count == 0 || (errno != EAGAIN && errno != EINTR) || worker.isDraining { close(&turn) }
    }

    /// Closes now.
    func close(_ turn: inout Turn) {
        guard !isClosed else { return }
        isClosed = true
        note("disconnected")
        // Whoever had another reason has told it before.
        tellClosed(worker.isDraining ? .shutdown : hasClientFinished ? .normal : .error)
        turn.output.removeAll()
        session.abandon(turn)
        releaseHeldMemory()
        readWatch = nil
        writeWatch = nil
        worker.service.unregister(fd: fd)
        Glibc.close(fd)
        worker.remove(self)
    }
}
