// One client's conversation: bytes in, replies out. No sockets, no threads: tests feed it plain buffers.
//
//                 line                    retrieval cut short by a full output
//     .command ----------> executed       .keys ----> goes on with the next key
//        |  store whose data has not all come
//        +-----------> .body ----> .storing (complete; may wait for the engine) ----> .command
//        |  refused store
//        +-----------> .swallow ----> .command
//        |  a list of keys                    watch
//        +-----------> .dumping ----> .command  +---> .watching, to the end
//
// `process` executes what the input holds until something stops it (`Stall`). Nothing here waits: what memory cannot
// answer becomes a slot of `replies`, or, for changes, stops the session until the engine's completion arrives. The
// families of commands are in Commands/. Owned by a connection, used on its worker's thread.

import CacheEngine
import Primitives
import Protocol

/// Why a session executes nothing more for now.
enum Stall {
    /// More bytes must come from the client.
    case input
    /// Its share of the turn is used up; there may be more to do in the input.
    case turn
    /// The output must be sent first.
    case output
    /// Replies that wait for the engine must leave first.
    case slots
    /// The engine must clear the way for the request at hand.
    case engine
    /// Something must happen that this client watches; requests are not executed any more.
    case watching
    /// No more requests: send what is queued, then close.
    case closing
    /// The reply under way cannot be finished: close at once.
    case broken
}

/// What one step did to the input, and whether the session goes on.
struct Step {
    var consumed: Int
    var stall: Stall?

    /// Done with so many bytes; go on.
    @inline(__always)
    static func done(_ bytes: Int) -> Step { Step(consumed: bytes, stall: nil) }

    /// Nothing can be done; the input stays as it is.
    @inline(__always)
    static func stalled(_ stall: Stall) -> Step { Step(consumed: 0, stall: stall) }
}

/// A client's conversation.
struct Session: ~Copyable {
    /// What the front of the input is.
    enum Phase {
        /// A line of a client that has not authenticated itself.
        case login
        /// The block with its name and password, so many bytes and CR LF.
        case token(bytes: Int)
        /// The next line, when the authenticator has looked at them.
        case verifying
        /// The same, with the answer at hand.
        case verdict(LoginVerdict)
        /// A command line.
        case command
        /// The rest of a retrieval's line, `lineBytes` of it, with the keys not answered yet.
        case keys(Retrieval, lineBytes: Int)
        /// The rest of the data block of `draft`.
        case body(StoreTarget)
        /// `draft` is complete and is being stored; the front is what follows its data block.
        case storing(StoreTarget)
        /// So many bytes to be dropped.
        case swallow(bytes: Int)
        /// The next command line, when the list of keys is complete.
        case dumping(KeyDump)
        /// The next command line, when it is known what the key holds.
        case explaining(Explanation)
        /// Bytes to be dropped: the client is a watcher, by this number.
        case watching(UInt64)
    }

    /// Slot number in the tokens of the request at hand, as opposed to those of slots.
    static let requestNumber: UInt32 = 0
    /// The same for a blocked upload, whose wake may come when nobody waits for it any more.
    static let streamNumber = UInt32.max

    /// Names the connection in the engine's completions.
    let id: UInt32
    var parser: RequestParser
    var phase = Phase.command
    /// Why the last `process` stopped.
    private(set) var stall = Stall.input
    /// Replies that wait for the engine, and those behind them.
    var replies = ReplyQueue()
    /// The value being received, in `.body` and `.storing`.
    var draft: EntryDraft?
    /// What the engine found for the request at hand, to be passed when it is executed again.
    var proof: Flight?
    /// The slot whose commit is still to be requested at the end of this turn.
    var unrequestedCommit: UInt32?
    /// The change at hand, while it waits for the engine.
    var waiting: WaitingChange?
    /// The store under way, while somebody watches stores.
    var observedStore: ObservedStore?
    /// The count of the request that was observed and waits to be executed again, which counts it once more.
    ///
    /// `UInt32.max`: none.
    var unfinishedRequest = UInt32.max
    /// Why framing was lost.
    private(set) var fatal: RequestError?
    /// Counts requests, for the connection's deadlines.
    var requestCount: UInt32 = 0
    /// Whether clients must authenticate themselves.
    let needsLogin: Bool
    /// What the client may do, once it has; nil without authentication, and before.
    private(set) var grant: AccessGrant?
    /// Whether `grant` has to be asked about each request.
    private(set) var isLimited = false
    /// Refused attempts to authenticate.
    var loginFailures = 0

    init(id: UInt32, limits: ProtocolLimits, needsLogin: Bool = false) {
        self.id = id
        self.needsLogin = needsLogin
        parser = RequestParser(limits: limits)
        if needsLogin { phase = .login }
    }

    // MARK: Executing

    /// Executes what `input` holds and returns how many of its bytes are done with; `stall` says why it stopped.
    mutating func process(_ input: UnsafeRawBufferPointer, _ turn: inout Turn) -> Int {
        guard canGoOn else { return 0 }
        var consumed = 0
        while true {
            // SAFETY: all parts of the input lie within it, and it stays in place during the call.
            let rest = unsafe UnsafeRawBufferPointer(rebasing: input[consumed...])
            let step =
                switch phase {
                case .command: unsafe command(rest, &turn)
                case .login: unsafe logIn(rest, &turn)
                case .token(let bytes): unsafe takeToken(bytes: bytes, rest, &turn)
                case .verifying: Step.stalled(.engine)
                case .verdict(let verdict): answer(verdict, &turn)
                case .keys(let retrieval, let lineBytes):
                    unsafe retrieve(retrieval, lineBytes: lineBytes, rest, &turn, isResumed: true)
                case .body(let target): unsafe receive(target, rest, &turn)
                case .storing(let target): storeDraft(target, &turn)
                case .swallow(let bytes): swallow(bytes, of: rest.count)
                case .dumping(let dump): continueDump(dump, &turn)
                case .explaining(let explanation): continueExplanation(explanation, &turn)
                case .watching(let watcher): continueWatch(watcher, inputBytes: rest.count, &turn)
                }
            consumed += step.consumed
            if let stall = step.stall {
                self.stall = stall
                break
            }
        }
        requestCommit(turn)
        return consumed
    }

    /// Whether a value is on its way in.
    var isReceivingValue: Bool { if case .body = phase { true } else { false } }

    /// Whether no request is under way.
    var isBetweenRequests: Bool {
        switch phase {
        case .command, .login: true
        default: false
        }
    }

    /// Says what the client may do from now on.
    mutating func hold(_ grant: AccessGrant) {
        self.grant = grant
        isLimited = grant.isLimited
    }

    /// Lets a session that waited go on.
    mutating func resume() { if stall == .engine { stall = .turn } }

    /// Whether `process` may do something.
    var canGoOn: Bool {
        switch stall {
        case .input, .turn, .output, .watching: true
        case .slots: !replies.isFull
        case .engine, .closing, .broken: false
        }
    }

    /// Parses and executes the request at the front of `input`.
    @inline(__always)
    private mutating func command(_ input: UnsafeRawBufferPointer, _ turn: inout Turn) -> Step {
        let plainBytes = unsafe executePlain(input, &turn)
        if plainBytes > 0 { return .done(plainBytes) }
        if let stall = stallBeforeNext(turn) { return .stalled(stall) }
        if replies.openChanges > 0 { return .stalled(.slots) }
        switch unsafe parser.parse(input) {
        case .incomplete:
            return .stalled(.input)
        case .request(let request, let lineBytes):
            if turn.tracesRequests { unsafe trace(input, lineBytes, turn) }
            turn.requestsLeft &-= 1
            requestCount &+= 1
            if turn.isPlain, !isLimited {
                return unsafe execute(request, lineBytes: lineBytes, input, &turn)
            }
            return unsafe executeChecked(request, lineBytes: lineBytes, input, &turn)
        case .refused(let error, let lineBytes, let swallowBytes, let isQuiet):
            turn.requestsLeft &-= 1
            requestCount &+= 1
            if !isQuiet { reply(.error(error), &turn) }
            if swallowBytes > 0 { phase = .swallow(bytes: swallowBytes) }
            return .done(lineBytes)
        case .fatal(let error):
            return loseFraming(error, consuming: input.count, &turn)
        }
    }

    /// Says why the connection cannot go on, and drops the rest of the input.
    mutating func loseFraming(_ error: RequestError, consuming bytes: Int, _ turn: inout Turn) -> Step {
        fatal = error
        reply(.error(error), &turn)
        return Step(consumed: bytes, stall: .closing)
    }

    /// Why the next request, or key of a retrieval, must not be executed now.
    @inline(__always)
    func stallBeforeNext(_ turn: borrowing Turn) -> Stall? {
        if turn.requestsLeft <= 0 { return .turn }
        if turn.output.isFull { return .output }
        if replies.isEmpty { return nil }
        return replies.isFull || turn.isMemoryScarce ? .slots : nil
    }

    /// Logs a request's line, cut and escaped.
    private func trace(_ input: UnsafeRawBufferPointer, _ lineBytes: Int, _ turn: borrowing Turn) {
        let line = unsafe UnsafeRawBufferPointer(rebasing: input[..<lineBytes])
        turn.service.log.write(
            .debug, "request", ["connection": "\(id)", "line": unsafe Log.escaped(line)])
    }

    private mutating func swallow(_ bytes: Int, of available: Int) -> Step {
        let dropped = min(bytes, available)
        if dropped == bytes {
            phase = needsLogin && grant == nil ? .login : .command
            return .done(dropped)
        }
        phase = .swallow(bytes: bytes - dropped)
        return Step(consumed: dropped, stall: .input)
    }

    // MARK: Replying

    /// Appends a reply, behind those that wait.
    @inline(__always)
    mutating func reply(_ reply: Reply, _ turn: inout Turn) {
        if replies.isEmpty { turn.output.append(reply) } else { replies.last?.following.append(reply) }
    }

    /// Appends bytes to the replies, behind those that wait.
    mutating func reply(_ turn: inout Turn, _ body: (inout ByteBuffer) -> Void) {
        if let last = replies.last { body(&last.following.bytes) } else { body(&turn.output.bytes) }
    }

    /// Appends the reply to an executed change; at durability `always` it waits until the change is durable.
    @inline(__always)
    mutating func acknowledge(_ reply: Reply, isQuiet: Bool, _ turn: inout Turn) {
        guard !isQuiet else { return }
        if turn.waitsForCommit { openCommit() }
        self.reply(reply, &turn)
    }

    /// Lets everything said from here on wait until the changes of this turn are durable.
    mutating func openCommit() {
        if unrequestedCommit == nil { unrequestedCommit = replies.append(Slot(.commit)) }
    }

    /// Asks once per turn for everything that was changed in it.
    private mutating func requestCommit(_ turn: borrowing Turn) {
        guard let number = unrequestedCommit else { return }
        unrequestedCommit = nil
        turn.cache.commitBarrier(waiter(number, turn))
    }

    /// Moves replies that waited and are complete now into the output, which must be empty.
    mutating func sendReady(_ turn: inout Turn) {
        guard !replies.isEmpty else { return }
        moveReady(turn: &turn)
        while !turn.output.isFull, let (slot, number) = replies.takeDeferredFront() {
            askAgain(slot, number, turn)
            moveReady(turn: &turn)
        }
    }

    private mutating func moveReady(turn: inout Turn) {
        let (id, completions) = (id, turn.completions)
        replies.moveReady(to: &turn.output) { stream, number in
            stream.requestNext(Waiter(queue: completions, token: Token(connection: id, number: number).bits))
        }
    }

    // MARK: The engine's answers

    /// Whom the engine tells: a slot, or the request at hand.
    func waiter(_ number: UInt32, _ turn: borrowing Turn) -> Waiter {
        Waiter(queue: turn.completions, token: Token(connection: id, number: number).bits)
    }

    /// Stops the session until the engine has cleared the way for the request at hand, which names `key`.
    mutating func overcome(
        _ obstacle: Obstacle, key: UnsafeRawBufferPointer, _ turn: borrowing Turn
    ) -> Step {
        settle(turn)
        waiting = unsafe WaitingChange(since: turn.began, key: Array(key))
        turn.cache.overcome(
            obstacle, key: unsafe Span(_unsafeBytes: key), waiter: waiter(Self.requestNumber, turn))
        return .stalled(.engine)
    }

    /// Gives back what the engine found for the request at hand, which has been executed.
    @inline(__always)
    mutating func settle(_ turn: borrowing Turn) {
        guard let proof else { return }
        turn.cache.finish(proof)
        self.proof = nil
    }

    /// Takes an answer of the engine.
    mutating func complete(_ completion: Completion, number: UInt32, _ turn: inout Turn) {
        if number == Self.requestNumber {
            settle(turn)
            proof = completion.flight
            if let waiting { turn.noteWait(.changeDisk, since: waiting.since, key: waiting.key) }
            waiting = nil
            if stall == .engine { stall = .turn }
            return
        }
        if number == Self.streamNumber {
            if case .body = phase, stall == .engine { stall = .turn }
            return
        }
        if number == Self.dumpNumber {
            if completeDump(), stall == .engine { stall = .turn }
            return
        }
        if number == Self.lookNumber {
            if completeExplanation(), stall == .engine { stall = .turn }
            return
        }
        if let slot = replies[number] { complete(slot, number, completion, &turn) }
        if let flight = completion.flight { turn.cache.finish(flight) }
    }

    /// The reply under way cannot be finished.
    mutating func breakOff() { stall = .broken }

    /// Lets go of the engine when the connection dies.
    mutating func abandon(_ turn: borrowing Turn) {
        settle(turn)
        draft = nil
        withdrawLogin(turn)
        endDump(turn)
        endWatch(turn)
    }
}

/// A change that waits for the engine.
struct WaitingChange {
    /// In ns of the boot clock.
    let since: Int64
    /// Empty when the draft has it.
    let key: [UInt8]
}

/// What the engine's completions carry: which connection, and which of its slots.
struct Token {
    let connection: UInt32
    let number: UInt32

    init(connection: UInt32, number: UInt32) {
        self.connection = connection
        self.number = number
    }

    init(bits: UInt64) {
        connection = UInt32(truncatingIfNeeded: bits >> 32)
        number = UInt32(truncatingIfNeeded: bits)
    }

    var bits: UInt64 { UInt64(connection) << 32 | UInt64(number) }
}
