// How long a client may keep a connection waiting, and what happens then.
//
// A request has to arrive, replies have to be taken, a handshake has to end; the worker's sweep asks each connection
// once a second. All clocks begin with progress of the client, not of ours: who waits for the engine is not blamed.
// Belongs to the worker's thread.

import CacheEngine
import Primitives
import Protocol

/// How long clients may take; in milliseconds.
struct Deadlines: Sendable {
    /// For a request to arrive, before what it is given for its bytes.
    var requestMilliseconds: Int64 = 10_000
    /// A request is given another second for so many bytes received.
    var requestBytesPerSecondMin: Int64 = 1024
    /// While others wait for memory to receive their values, a value has to come so many times as fast.
    static let hurry: Int64 = 64
    /// For a socket to take a byte of its replies.
    var sendMilliseconds: Int64 = 60_000
    /// For a TLS handshake.
    var handshakeMilliseconds: Int64 = 5000

    /// The deadlines that the settings name.
    init(_ settings: Settings) {
        requestMilliseconds = settings.requestTimeout.milliseconds
        requestBytesPerSecondMin = Int64(settings.requestBytesPerSecondMin)
        sendMilliseconds = settings.sendTimeout.milliseconds
        handshakeMilliseconds = settings.tls.handshakeTimeout.milliseconds
    }

    /// How long a request may take of which so many bytes have come.
    func requestMilliseconds(afterBytes bytes: Int64) -> Int64 {
        // Bytes of one request: far below 2^53, so that this cannot overflow.
        requestMilliseconds + bytes * 1000 / max(1, requestBytesPerSecondMin)
    }
}

extension Connection {
    /// Notes since when a request has been arriving.
    func notePartialRequest(_ now: Instant) {
        guard session.stall == .input, !session.isBetweenRequests || !input.isEmpty else {
            return partialSince = .never
        }
        if partialSince == .never || partialRequest != session.requestCount {
            partialSince = now
            partialRequest = session.requestCount
            // Of a value, what came with its line counts already; at most one read.
            partialBytes = session.isBetweenRequests ? Int64(input.count) : lastReadBytes
        }
    }

    /// Closes the connection if the client has kept it waiting for too long.
    func checkDeadlines(_ now: Instant) {
        let limits = worker.service.deadlines
        func isOver(_ since: Instant, _ milliseconds: Int64) -> Bool {
            now > since.advanced(byMilliseconds: milliseconds)
        }
        if isLingering {
            if isOver(card.lastActivity, Self.lingerMilliseconds) { close(&worker.turn) }
        } else if encryption.isShakingHands {
            // Nothing but the connection itself is an activity before.
            if isOver(card.lastActivity, limits.handshakeMilliseconds) { kick(.handshakeTimeouts) }
        } else if session.isLoginDue, isOver(loginSince, worker.service.loginMilliseconds) {
            kick(.loginTimeouts)
        } else if let since = session.dumpPageSince, !unsent.isEmpty, isOver(since, limits.sendMilliseconds) {
            kick(.sendTimeouts)
        } else if session.isWatching {
            // Its ring is bounded: it may read as slowly as it likes.
        } else if !unsent.isEmpty {
            if isOver(card.lastActivity, limits.sendMilliseconds) { kick(.sendTimeouts) }
        } else if partialSince != .never {
            // A value that others wait for has to come faster.
            let holdsOthersUp = session.isReceivingValue && worker.service.cache.hasWaitingBodies
            let bytes = holdsOthersUp ? partialBytes / Deadlines.hurry : partialBytes
            if isOver(partialSince, limits.requestMilliseconds(afterBytes: bytes)) { kick(.requestTimeouts) }
        } else if let idle = worker.service.idleTimeout, session.stall == .input, session.replies.isEmpty {
            if isOver(card.lastActivity, idle) { kick(.idleKicks) }
        }
    }

    func kick(_ counter: Counter) {
        worker.counters.add(counter)
        tellClosed(.idleTimeout)
        close(&worker.turn)
    }
}
