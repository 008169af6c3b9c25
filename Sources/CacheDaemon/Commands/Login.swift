// Before authentication: lines refused, a name and password taken, a verdict awaited; afterwards, rights checked.
//
//     .login --announced--> .token --complete--> .verifying --verdict--> .verdict --granted--> .command
//        ^                                                                   |
//        +-------------------------- refused --------------------------------+   the third time: the connection closes
//
// Nothing of a token is logged, traced or shown to watchers. The connection sets the deadline (`auth.timeout`).

import CacheEngine
import Primitives
import Protocol

extension Session {
    /// Refusals after which a connection is closed.
    static let loginFailuresMax = 3

    /// Reads the line at the front of `input`.
    mutating func logIn(_ input: UnsafeRawBufferPointer, _ turn: inout Turn) -> Step {
        if let stall = stallBeforeNext(turn) { return .stalled(stall) }
        let result = unsafe parser.parseLogin(input)
        if case .incomplete = result { return .stalled(.input) }
        turn.requestsLeft &-= 1
        switch result {
        case .incomplete:
            return .stalled(.input)
        case .announced(let bytes, let lineBytes):
            phase = .token(bytes: bytes)
            return .done(lineBytes)
        case .quit(let lineBytes):
            return Step(consumed: lineBytes, stall: .closing)
        case .refused(let error, let lineBytes, let swallowBytes):
            reply(.error(error), &turn)
            if swallowBytes > 0 { phase = .swallow(bytes: swallowBytes) }
            return .done(lineBytes)
        case .fatal(let error):
            return loseFraming(error, consuming: input.count, &turn)
        }
    }

    /// Takes the block with name and password, of `bytes` bytes and CR LF.
    mutating func takeToken(bytes: Int, _ input: UnsafeRawBufferPointer, _ turn: inout Turn) -> Step {
        guard input.count >= bytes + 2 else { return .stalled(.input) }
        phase = .login
        guard unsafe input[bytes] == 0x0D, unsafe input[bytes + 1] == 0x0A else {
            reply(.error(.badAuthenticationEnd), &turn)
            return .done(bytes + 2)
        }
        // SAFETY: the block lies within the input; it is copied.
        let token = unsafe LoginToken(UnsafeRawBufferPointer(rebasing: input[..<bytes]))
        guard let token, let authenticator = turn.service.authenticator else {
            reply(.error(.badAuthenticationToken), &turn)
            return .done(bytes + 2)
        }
        let attempt = LoginAttempt(
            name: token.name, password: token.password,
            network: FailureLedger.network(of: PeerAddress(turn.descriptor).host), connection: id,
            receiver: turn.completions)
        guard authenticator.submit(attempt) else {
            phase = .verdict(.turnedAway)
            return .done(bytes + 2)
        }
        phase = .verifying
        return Step(consumed: bytes + 2, stall: .engine)
    }

    /// Whether the client has not authenticated itself, and the next step is its own.
    var isLoginDue: Bool {
        switch phase {
        case .login, .token: true
        case .swallow: grant == nil && needsLogin
        case .verifying, .verdict, .command, .keys, .body, .storing, .dumping, .explaining, .watching: false
        }
    }

    /// Takes the authenticator's verdict; `process` answers it.
    mutating func take(_ verdict: LoginVerdict) {
        guard case .verifying = phase else { return }
        phase = .verdict(verdict)
        resume()
    }

    /// Answers a verdict.
    mutating func answer(_ verdict: LoginVerdict, _ turn: inout Turn) -> Step {
        turn.counters.add(.loginCommands)
        // The file may have been read again since.
        if case .granted(let given) = verdict, let grant = turn.service.authenticator?.renewed(given) {
            hold(grant)
            phase = .command
            reply(.stored, &turn)
            return .done(0)
        }
        turn.counters.add(.loginFailures)
        if case .turnedAway = verdict { loginFailures = Self.loginFailuresMax } else { loginFailures += 1 }
        phase = .login
        reply(.error(.authenticationFailure), &turn)
        let peer = PeerAddress(turn.descriptor)
        turn.service.log.write(.warning, "authentication failed", ["client": peer.host])
        return Step(consumed: 0, stall: loginFailures >= Self.loginFailuresMax ? .closing : nil)
    }

    /// Forgets the attempt of a connection that dies.
    func withdrawLogin(_ turn: borrowing Turn) {
        guard case .verifying = phase else { return }
        turn.service.authenticator?.withdraw(connection: id, from: turn.completions)
    }

    // MARK: Rights

    /// Executes a request of a client with limited rights, or one that somebody wants to know about.
    mutating func executeChecked(
        _ request: Request, lineBytes: Int, _ input: UnsafeRawBufferPointer, _ turn: inout Turn
    ) -> Step {
        if isLimited, let grant, unsafe !grant.allows(request, in: input) {
            if !request.hidesRefusal { reply(.error(.notPermitted), &turn) }
            turn.counters.add(.requestsNotPermitted)
            let blockBytes = request.dataBlockBytes
            if blockBytes > 0 { phase = .swallow(bytes: blockBytes) }
            return .done(lineBytes)
        }
        if turn.isPlain { return unsafe execute(request, lineBytes: lineBytes, input, &turn) }
        return unsafe executeObserved(request, lineBytes: lineBytes, input, &turn)
    }
}
