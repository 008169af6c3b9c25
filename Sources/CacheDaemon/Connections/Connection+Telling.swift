// What operators hear of a connection: log lines, and the lines of those who watch connections.
//
// Nothing here changes what is read, sent or closed. Belongs to the worker's thread, like the connection.

import CacheEngine
import Primitives
import Protocol

extension Connection {
    /// Logs why the client can no longer be understood, if that is so.
    func logFatal() {
        guard let fatal = session.fatal else { return }
        if fatal == .binaryProtocol {
            worker.counters.add(.binaryRejected)
            worker.service.noteBinaryClient(of: PeerAddress(fd))
        }
        worker.service.log.write(
            .info, "framing lost", ["peer": "\(PeerAddress(fd))", "reason": "\(fatal.reason)"])
    }

    /// Tells those who watch connections that this one ends, once.
    func tellClosed(_ reason: CloseReason) {
        guard !isCloseTold else { return }
        isCloseTold = true
        tell(closed: reason)
    }

    /// Tells those who watch connections that this one begins, or ends for `reason`.
    func tell(closed reason: CloseReason?) {
        let service = worker.service
        guard service.watchers.observation.includes(.connectionEvents) else { return }
        let peer = PeerAddress(fd)
        let watched = WatchedPeer(host: peer.host, port: peer.portNumber, descriptor: fd)
        service.watchers.publish(.connectionEvents, at: service.cache.clock.wall()) {
            $0.appendWatchedConnection(watched, closed: reason)
        }
    }

    /// Logs what became of the connection.
    func note(_ event: String) {
        let log = worker.service.log
        if log.isOn(.info) { log.write(.info, event, ["connection": "\(id)", "peer": "\(PeerAddress(fd))"]) }
    }
}
