// What encryption adds to a connection: the handshake before the first request, and reading through the session.
//
// Plain connections have no session and pay one test of a nil for each read and each send. A handshake gets a deadline
// of its own and a share of the worker's turn: each of its steps costs about as much as a thousand requests. Belongs to
// the worker's thread.

import CacheEngine
import Glibc
import Libevent
import Primitives
import TLS

/// Where a connection's TLS session is.
struct EncryptionState {
    /// The handshake is not over; no request is looked at before.
    var isShakingHands = false
    /// The worker lets the handshake begin, or it has begun.
    var isAdmitted = false
    /// The session holds bytes that a read would give out at once.
    var hasPending = false
    /// Reading goes on once the socket takes bytes: TLS has to answer something first.
    var wantsWrite = false
}

extension Connection {
    /// Goes on with the handshake.
    func shakeHands(_ turn: inout Turn) {
        guard let tls else { return }
        guard encryption.isAdmitted || worker.admits(self) else {
            // Nothing is read until the worker calls back: what is level-triggered would spin.
            readWatch?.stop()
            return
        }
        encryption.isAdmitted = true
        // The watch is level-triggered: it fires again in the next turn.
        guard worker.handshakeStepsLeft > 0 else { return }
        worker.handshakeStepsLeft -= 1
        turn.begin(descriptor: fd)
        switch tls.shakeHands() {
        case .moved:
            encryption.isShakingHands = false
            turn.counters.add(.tlsHandshakes)
            card.lastActivity = turn.now
            writeWatch?.stop()
            note("encrypted")
            run(canRead: true, &turn)
        case .wantsRead: writeWatch?.stop()
        case .wantsWrite: watchWritable(&turn)
        case .failed(let reason):
            turn.counters.add(.tlsHandshakeErrors)
            worker.service.log.write(
                .info, "TLS handshake failed", ["peer": "\(PeerAddress(fd))", "reason": reason])
            close(&turn)
        case .ended, .broken:
            turn.counters.add(.tlsHandshakeErrors)
            close(&turn)
        }
    }

    /// It is this connection's turn to begin its handshake.
    func beginHandshake() {
        guard encryption.isShakingHands, let readWatch else { return }
        encryption.isAdmitted = true
        start(readWatch, &worker.turn)
    }

    // SAFETY: both reads write within the room that they are given, which the caller owns during the call.

    /// Reads what is there into `room`, then into `shared`; returns what recv(2) would, with `errno` set.
    func read(
        _ tls: TLSSession, _ room: UnsafeMutableRawBufferPointer,
        then shared: UnsafeMutableRawBufferPointer? = nil
    ) -> Int {
        var (count, end) = unsafe read(tls, filling: room)
        if end == nil, let shared = unsafe shared {
            let rest = unsafe read(tls, filling: shared)
            count += rest.count
            end = rest.end
        }
        if count > 0 {
            // What ends the session is told by the next read; the socket may not become readable again.
            encryption.hasPending = end != .wantsRead
            return count
        }
        encryption.hasPending = false
        switch end {
        case nil, .moved, .wantsRead: errno = EAGAIN
        case .wantsWrite:
            // Not now: the connection is in the middle of reading.
            errno = EAGAIN
            encryption.wantsWrite = true
        case .ended: return 0
        case .failed(let reason):
            worker.counters.add(.tlsProtocolErrors)
            worker.service.log.write(.info, "TLS failed", ["peer": "\(PeerAddress(fd))", "reason": reason])
            errno = EPROTO
        case .broken: errno = ECONNRESET
        }
        return -1
    }

    /// Reads until `room` is full, then `end` is nil, or nothing more is there.
    private func read(
        _ tls: TLSSession, filling room: UnsafeMutableRawBufferPointer
    ) -> (count: Int, end: TLSStep?) {
        var count = 0
        while count < room.count {
            switch unsafe tls.read(into: UnsafeMutableRawBufferPointer(rebasing: room[count...])) {
            case .moved(let bytes):
                count += bytes
                if !tls.hasPending { return (count, .wantsRead) }
            case let end: return (count, end)
            }
        }
        return (count, nil)
    }
}
