// Checks names and passwords on a thread of its own, and holds refusals back, longer with each failure of an address.
//
//     session --submit--> attempts --check--> verdict --------------------> mailbox of the worker, at once
//                                        \--> refusal, held back by FailureLedger --> the same, later
//
// An event loop never waits for a hash. While `heldMax` refusals of one address are held back, further attempts from
// there wait unchecked, so that connections in parallel guess no faster, and only so many, so that they take no places.
// Shared by all workers; thread-safe. Nothing here logs or shows a password.

import Glibc
import Primitives

/// What became of an attempt.
enum LoginVerdict: Sendable {
    case granted(AccessGrant)
    case refused
    /// Refused unchecked, because too many others of its address wait: the connection is to be closed.
    case turnedAway
}

/// Who is told a verdict.
protocol LoginReceiver: AnyObject, Sendable {
    /// Takes the verdict for a connection.
    ///
    /// Called on the authenticator's thread.
    func deliver(_ verdict: LoginVerdict, connection: UInt32)
}

/// One client's name and password.
struct LoginAttempt: Sendable {
    var name: [UInt8]
    var password: [UInt8]
    /// Whose failures count together.
    let network: String
    let connection: UInt32
    let receiver: any LoginReceiver
}

/// The accounts, and the thread that checks attempts.
final class Authenticator: Sendable {
    /// Refusals of one address that are held back at a time.
    static let heldMax = 4
    /// Attempts of such an address that wait unchecked; further ones are refused at once.
    static let waitingMax = 16
    /// Refusals that are held back in all; further ones are not.
    static let heldTotalMax = 4096

    private struct Held {
        let attempt: LoginAttempt
        let due: Instant
    }

    private struct State {
        var grants: [AccessGrant]
        /// Changes with each reading of the file.
        var version = 0
        var attempts: [LoginAttempt] = []
        /// Refusals to be delivered.
        var held: [Held] = []
        var isStopping = false

        func heldCount(of network: String) -> Int { held.count { $0.attempt.network == network } }

        /// Holds a refusal back, and takes out the attempts that are too many then, the newest ones.
        mutating func hold(_ refusal: Held) -> [LoginAttempt] {
            held.append(refusal)
            let network = refusal.attempt.network
            guard heldCount(of: network) >= Authenticator.heldMax else { return [] }
            let surplus = attempts.indices.filter { attempts[$0].network == network }
                .dropFirst(Authenticator.waitingMax)
            defer { for index in surplus.reversed() { attempts.remove(at: index) } }
            return surplus.map { attempts[$0] }
        }
    }

    /// What the thread does next.
    private enum Work {
        case check(LoginAttempt, [AccessGrant], version: Int)
        case deliver([Held])
        case stop
    }

    let path: String
    private let clock: any TimeSource
    /// Guards the accounts and what waits.
    private let state: Monitor<State>
    /// Guards the thread, from start to stop.
    private let thread = Guarded<OSThread?>(nil, rank: .lifecycle)

    /// Reads the accounts at `path`; checks nothing before `start`.
    init(path: String, clock: any TimeSource) throws(AuthFileError) {
        self.path = path
        self.clock = clock
        let grants = try AuthFile.read(path: path).accounts.map { AccessGrant($0) }
        state = Monitor(State(grants: grants), rank: .diskQueue)
    }

    /// Starts the thread.
    func start() {
        thread.withLock { $0 = OSThread(name: "login") { [self] in run() } }
    }

    /// Ends the thread; attempts that wait get no verdict.
    func stop() {
        state.update { $0.isStopping = true }
        let running = thread.withLock { $0.take() }
        running?.join()
    }

    /// Reads the file again; on an error the accounts stay as they are.
    func reload() throws(AuthFileError) {
        let grants = try AuthFile.read(path: path).accounts.map { AccessGrant($0) }
        state.update {
            $0.grants = grants
            $0.version += 1
        }
    }

    /// How many accounts there are.
    var accountCount: Int { state.withLock { $0.grants.count } }

    /// What an earlier grant is worth now: the same account's rights today, or nil if it is gone or its secret changed.
    func renewed(_ grant: AccessGrant) -> AccessGrant? {
        state.withLock { state in
            state.grants.first { $0 === grant } ?? state.grants.first { $0.account.isSame(as: grant.account) }
        }
    }

    /// Asks for a verdict on an attempt; false if it is refused unchecked, because its address has too many others.
    func submit(_ attempt: LoginAttempt) -> Bool {
        state.update { state in
            let network = attempt.network
            if state.heldCount(of: network) >= Self.heldMax,
                state.attempts.count(where: { $0.network == network }) >= Self.waitingMax
            {
                return false
            }
            state.attempts.append(attempt)
            return true
        }
    }

    /// Forgets an attempt that is not checked yet: its connection is gone, and must not leave memory behind.
    ///
    /// A refusal that is held back stays, or reconnecting would be a way round the delay.
    func withdraw(connection: UInt32, from receiver: any LoginReceiver) {
        state.withLock { state in
            state.attempts.removeAll { $0.connection == connection && $0.receiver === receiver }
        }
    }

    /// Attempts that are not checked yet, and refusals that are held back.
    var waiting: (attempts: Int, refusals: Int) { state.withLock { ($0.attempts.count, $0.held.count) } }

    // MARK: The thread

    private func run() {
        var ledger = FailureLedger()
        var check = LoginCheck([])
        var checkVersion = -1
        while true {
            switch nextWork() {
            case .stop: return
            case .deliver(let held):
                for entry in held { entry.attempt.receiver.deliver(.refused, connection: entry.attempt.connection) }
            case .check(var attempt, let grants, let version):
                if version != checkVersion { check = LoginCheck(grants) }
                checkVersion = version
                let grant = check.check(name: attempt.name, password: attempt.password)
                attempt.forget()
                guard let grant else {
                    let now = clock.now()
                    let due = now.advanced(byMilliseconds: ledger.fail(attempt.network, now: now))
                    let surplus = state.withLock { state in
                        let isCrowded = state.held.count >= Self.heldTotalMax
                        return state.hold(Held(attempt: attempt, due: isCrowded ? now : due))
                    }
                    for one in surplus { one.receiver.deliver(.turnedAway, connection: one.connection) }
                    continue
                }
                attempt.receiver.deliver(.granted(grant), connection: attempt.connection)
            }
        }
    }

    /// Waits until a refusal is due or an attempt may be checked.
    private func nextWork() -> Work {
        while true {
            let now = clock.now()
            let firstDue = state.withLock { $0.held.map(\.due).min() }
            let pause = firstDue.map { max(0, $0.milliseconds - now.milliseconds) }
            let work: Work? = state.wait(milliseconds: pause) { state in
                if state.isStopping { return .stop }
                let now = clock.now()
                let due = state.held.filter { $0.due <= now }
                if !due.isEmpty {
                    state.held.removeAll { $0.due <= now }
                    return .deliver(due)
                }
                let free = state.attempts.firstIndex { state.heldCount(of: $0.network) < Self.heldMax }
                guard let free else { return nil }
                return .check(state.attempts.remove(at: free), state.grants, version: state.version)
            }
            if let work { return work }
        }
    }
}

extension LoginAttempt {
    /// Overwrites the password, which nobody needs any more.
    mutating func forget() {
        // SAFETY: the array lends its bytes, as many as it says, for the call.
        unsafe explicit_bzero(&password, password.count)
        password = []
    }
}
