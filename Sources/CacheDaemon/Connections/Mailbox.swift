// How other threads reach a worker: new connections from the main thread, completions from the engine's disk threads.
//
// A guarded array and a wakeup. Posting never blocks for long and never calls back; the worker takes everything at
// once in its own turn.

import CacheEngine
import Libevent
import Primitives
import TLS

/// What a worker is told.
enum Message: Sendable {
    /// Serve this descriptor, and own it; `tls` encrypts it, and `id` names it among all connections.
    case connection(fd: Int32, id: UInt32, tls: TLSContext?)
    /// The engine has an answer.
    case completion(Completion)
    /// Lines wait for a connection that watches.
    case linesReady(connection: UInt32)
    /// Say that you live.
    case ping
    /// The authenticator has an answer for a connection.
    case verdict(LoginVerdict, connection: UInt32)
    /// The file of accounts was read again.
    case accountsChanged
    /// Connections hold too much memory: some have to go.
    case memoryExhausted
    /// Finish what is complete, close all connections, end.
    case drain
    /// End now.
    case stop
}

/// A worker's queue of messages.
final class Mailbox: CompletionQueue, ConnectionWaker, LoginReceiver {
    /// Guards the messages not taken yet.
    ///
    /// Posted to last by holders of other locks, so it ranks above them.
    private let messages = Guarded([Message](), rank: .mailbox)
    let wakeup: Wakeup

    init() throws(EventLoopError) { wakeup = try Wakeup() }

    /// Adds a message.
    ///
    /// Any thread.
    func post(_ message: Message) {
        messages.withLock { $0.append(message) }
        wakeup.signal()
    }

    /// Adds a completion.
    ///
    /// Any thread.
    func post(_ completion: Completion) { post(.completion(completion)) }

    /// Says that lines wait for a watching connection.
    ///
    /// Any thread.
    func wake(connection: UInt32) { post(.linesReady(connection: connection)) }

    /// Adds the authenticator's answer for a connection.
    ///
    /// Any thread.
    func deliver(_ verdict: LoginVerdict, connection: UInt32) { post(.verdict(verdict, connection: connection)) }

    /// Takes all messages, leaving `emptied` and its capacity for the next ones.
    func take(replacedBy emptied: consuming [Message]) -> [Message] {
        var taken = emptied
        messages.withLock { swap(&$0, &taken) }
        return taken
    }
}
