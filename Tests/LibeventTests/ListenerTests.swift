// Accepting, and pausing when descriptors run out.

import Foundation
import Libevent
import Testing

/// A non-blocking listener on a free loopback port, with its port.
private func listeningSocket() -> (fd: Int32, port: UInt16) {
    let fd = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = inet_addr("127.0.0.1")
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    withUnsafeMutablePointer(to: &address) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { generic in
            precondition(bind(fd, generic, length) == 0)
            precondition(listen(fd, 128) == 0)
            precondition(getsockname(fd, generic, &length) == 0)
        }
    }
    return (fd, UInt16(bigEndian: address.sin_port))
}

private func connectTo(_ port: UInt16) -> Int32 {
    let fd = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = inet_addr("127.0.0.1")
    address.sin_port = port.bigEndian
    let result = withUnsafePointer(to: &address) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            connect(fd, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
        }
    }
    precondition(result == 0)
    return fd
}

@Suite("listener")
struct ListenerTests {
    @Test("accepts all that wait, non-blocking and close-on-exec")
    func accepts() throws {
        let (fd, port) = listeningSocket()
        let loop = try EventLoop()
        var accepted: [Int32] = []
        let listener = try Listener(
            loop: loop, fd: fd, onConnection: { accepted.append($0) }, onShortage: { _ in Issue.record("shortage") })
        let clients = (0..<100).map { _ in connectTo(port) }
        loop.run { accepted.count < 100 ? .wait : .stop }
        for connection in accepted {
            #expect(fcntl(connection, F_GETFL) & O_NONBLOCK != 0)
            #expect(fcntl(connection, F_GETFD) & FD_CLOEXEC != 0)
        }
        for fd in clients + accepted { close(fd) }
        withExtendedLifetime(listener) {}
    }

    @Test("without descriptors it pauses instead of spinning, and goes on when there are some")
    func shortage() async {
        await #expect(processExitsWith: .exitCode(7)) {
            let (fd, port) = listeningSocket()
            let loop = try EventLoop()
            var accepted = 0
            var shortages: [Int32] = []
            var turns = 0
            let listener = try Listener(
                loop: loop, fd: fd, onConnection: { _ in accepted += 1 }, onShortage: { shortages.append($0) })
            var limit = rlimit()
            getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
            let old = limit
            for _ in 0..<5 {
                (accepted, shortages, turns) = (0, [], 0)
                let client = connectTo(port)
                limit.rlim_cur = rlim_t(client + 1)
                setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
                loop.run {
                    turns += 1
                    return shortages.count < 4 && accepted == 0 ? .wait : .stop
                }
                // Another thread of the test program may let a descriptor go meanwhile, which is then taken.
                if accepted == 0 { break }
                limit = old
                setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
            }
            guard accepted == 0, !listener.isAccepting, shortages == [EMFILE, EMFILE, EMFILE, EMFILE] else { exit(1) }
            // One turn for each failing accept and one for each timer: spinning would be thousands.
            guard turns <= 10 else { exit(2) }
            limit = old
            setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
            loop.run { accepted == 0 ? .wait : .stop }
            exit(listener.isAccepting ? 7 : 3)
        }
    }
}
