// Tells the service manager how the daemon is: ready, reloading, stopping, alive, and a line of status.
//
// One datagram per message to the socket that $NOTIFY_SOCKET names, as sd_notify(3) describes; no library. Without the
// variable nothing is sent, and a datagram that is refused is lost: the manager has its own timeouts. Owned by the
// server, used on the main thread.

import Glibc
import Primitives

/// The service manager's ear.
struct Notifier: Sendable {
    /// Where messages go: a path, or a name in the abstract namespace after `@`; nil: nowhere.
    private let address: String?
    /// How often the manager wants to hear that the daemon is alive, in ms; nil: never.
    let watchdogMilliseconds: Int64?

    /// Nobody listens.
    static let none = Notifier(address: nil, watchdogMicroseconds: nil)

    init(address: String?, watchdogMicroseconds: Int64?) {
        self.address = address
        watchdogMilliseconds = watchdogMicroseconds.map { max(1, $0 / 1000) }
    }

    /// What the environment says: `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID`.
    init(environment: (String) -> String?) {
        let isForUs = environment("WATCHDOG_PID").map { $0 == "\(getpid())" } ?? true
        let period = environment("WATCHDOG_USEC").flatMap { Int64($0) }.flatMap { $0 > 0 && isForUs ? $0 : nil }
        self.init(address: environment("NOTIFY_SOCKET").flatMap { $0.isEmpty ? nil : $0 }, watchdogMicroseconds: period)
    }

    /// Whether somebody listens.
    var isOn: Bool { address != nil }

    /// The daemon serves.
    func ready(_ status: String) { send("READY=1\nSTATUS=\(status)") }

    /// The daemon reads its options again; `ready` ends it.
    ///
    /// The time, of CLOCK_MONOTONIC, lets the manager tell this reload from an earlier one.
    func reloading(microseconds: Int64) {
        send("RELOADING=1\nMONOTONIC_USEC=\(microseconds)\nSTATUS=reading the options")
    }

    /// The daemon stops.
    func stopping() { send("STOPPING=1\nSTATUS=stopping") }

    /// The daemon lives.
    func alive() { send("WATCHDOG=1") }

    /// One line about what goes on.
    func status(_ text: String) { send("STATUS=\(text)") }

    private func send(_ text: String) {
        guard let address, let target = UnixAddress(notifying: address) else { return }
        let fd = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue), 0)
        guard fd >= 0 else { return }
        defer { close(fd) }
        var text = text
        // SAFETY: the bytes are sent during the call.
        text.withUTF8 { bytes in
            if unsafe target.call(fd, connect) == 0 {
                _ = unsafe Glibc.send(fd, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL))
            }
        }
    }
}
