// Listening sockets that the service manager opened and hands over: descriptors from 3 on, as sd_listen_fds(3) says.
//
// The manager keeps its copies, so a client that connects while the daemon restarts waits in the kernel's queue and is
// refused by nobody. A socket named `admin` (FileDescriptorName=) is the admin port; all others are for clients. What
// is handed over replaces `listen`, `unix` or `admin`.

import Glibc
import Primitives

/// What was handed over.
struct InheritedSockets: Sendable {
    static let firstDescriptor: Int32 = 3
    static let adminName = "admin"

    var clients: [ListeningSocket] = []
    var admin: [ListeningSocket] = []

    /// Nothing.
    init() {}

    /// Takes what `LISTEN_FDS`, `LISTEN_PID` and `LISTEN_FDNAMES` say is there.
    ///
    /// - Throws: `ListenError` for a descriptor that is no listening stream socket.
    init(environment: (String) -> String?) throws(ListenError) {
        guard environment("LISTEN_PID") == "\(getpid())",
            let count = environment("LISTEN_FDS").flatMap({ Int32($0) }), count > 0, count < 1024
        else { return }
        let names = (environment("LISTEN_FDNAMES") ?? "").split(separator: ":", omittingEmptySubsequences: false)
        for index in 0..<count {
            let socket = try Self.take(Self.firstDescriptor + index)
            let name = Int(index) < names.count ? names[Int(index)] : ""
            if name == Self.adminName { admin.append(socket) } else { clients.append(socket) }
        }
    }

    private static func take(_ fd: Int32) throws(ListenError) -> ListeningSocket {
        let name = "descriptor \(fd)"
        guard ListeningSocket.option(fd, SO_ACCEPTCONN) == 1,
            ListeningSocket.option(fd, SO_TYPE) == Int32(SOCK_STREAM.rawValue)
        else { throw ListenError(name, "the service manager handed over something that is no listening socket") }
        guard fcntl(fd, F_SETFD, FD_CLOEXEC) == 0, fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0 else {
            throw ListenError(name, "fcntl", errno)
        }
        let bound = PeerAddress.local(fd)
        // As for sockets of our own: what does not leave the machine is not encrypted.
        let isPlain = bound.portNumber == nil
        return ListeningSocket(fd: fd, address: "\(bound)", port: bound.portNumber, isPlain: isPlain)
    }
}
