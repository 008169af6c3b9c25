// A daemon inside the test's process, and a plain blocking client.

import CacheEngine
import Foundation
import Primitives
import TestSupport
import Testing

@testable import CacheDaemon

/// A server on a thread of its own, on free ports.
final class RunningServer: Sendable {
    private struct State {
        var addresses: [String] = []
        var adminAddresses: [String] = []
        var port: Int?
        var service: Service?
        var failure: StartError?
        var status: Int32?
    }

    let control: ServerControl
    let log = LogLines()
    private let state = Monitor(State(), rank: .leaf)
    private let next: Guarded<Settings?>

    /// Starts a server and waits until it listens.
    init(_ settings: Settings, clock: any TimeSource = SystemClock()) throws {
        control = try ServerControl()
        next = Guarded(settings, rank: .leaf)
        _ = OSThread(name: "server") { [self] in
            do {
                let log = Log(level: .debug) { [lines = self.log] in lines.add($0) }
                let server = try Server(
                    settings, log: log, control: control, handlesSignals: false, clock: clock
                ) { [self] in next.withLock { $0 } }
                state.update {
                    $0.addresses = server.addresses
                    $0.port = server.port
                    $0.service = server.service
                    $0.adminAddresses = server.adminAddresses
                }
                let status = server.run()
                state.update {
                    $0.status = status
                    $0.service = nil
                }
            } catch let error as StartError {
                state.update { $0.failure = error }
            } catch {
                Issue.record("\(error)")
            }
        }
        let failure: StartError?? = state.wait(milliseconds: 10_000 * Int64(patience)) { state in
            state.failure != nil || !state.addresses.isEmpty ? .some(state.failure) : nil
        }
        if let failure = failure ?? nil { throw failure }
    }

    var addresses: [String] { state.withLock { $0.addresses } }
    /// What the server's threads share, while it runs.
    var service: Service? { state.withLock { $0.service } }
    var adminAddress: String { state.withLock { $0.adminAddresses.first ?? "" } }
    var port: Int { state.withLock { $0.port ?? 0 } }

    /// What the next reload reads.
    func setReloaded(_ settings: Settings?) { next.withLock { $0 = settings } }

    /// Waits for the end; returns the exit status.
    func wait() -> Int32? { state.wait(milliseconds: 20_000 * Int64(patience)) { $0.status } }

    /// Stops the server and waits for its end.
    @discardableResult
    func stop() -> Int32? {
        control.requestStop()
        return wait()
    }

    /// Waits until a log line contains `text`.
    func waitForLog(_ text: String) -> Bool {
        for _ in 0..<2000 * patience {
            if log.all.contains(where: { $0.contains(text) }) { return true }
            usleep(5000)
        }
        return false
    }
}

/// Settings for a server inside a test: one free port, no disk.
func testSettings(_ change: (inout Settings) -> Void = { _ in }) -> Settings {
    var settings = Settings()
    settings.listen = [ListenAddress(host: "127.0.0.1", port: 0)]
    settings.threads = 2
    settings.disk.isEnabled = false
    settings.memory.warmsUp = false
    settings.connectionsMax = 100
    change(&settings)
    return settings
}

/// A blocking client.
final class PlainClient {
    private let fd: Int32
    /// Bytes that were received; those before `consumed` have been read.
    private var buffered: [UInt8] = []
    private var consumed = 0

    /// Connects to `127.0.0.1:port`, `[::1]:port` or `unix:path`.
    init(_ address: String) throws {
        if let path = address.hasPrefix("unix:") ? String(address.dropFirst(5)) : nil {
            fd = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
            var raw = sockaddr_un()
            raw.sun_family = sa_family_t(AF_UNIX)
            withUnsafeMutableBytes(of: &raw.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
            let size = socklen_t(MemoryLayout<sockaddr_un>.size)
            let result = withUnsafePointer(to: raw) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { connect(fd, $0, size) }
            }
            guard result == 0 else { throw POSIXError(.init(rawValue: errno) ?? .EIO) }
        } else {
            let colon = address.lastIndex(of: ":") ?? address.endIndex
            let host = address[..<colon].trimmingCharacters(in: ["[", "]"])
            var list: UnsafeMutablePointer<addrinfo>?
            var hints = addrinfo()
            hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
            hints.ai_flags = AI_NUMERICHOST
            guard getaddrinfo(host, String(address[colon...].dropFirst()), &hints, &list) == 0, let info = list else {
                throw POSIXError(.EINVAL)
            }
            defer { freeaddrinfo(list) }
            fd = socket(info.pointee.ai_family, Int32(SOCK_STREAM.rawValue), 0)
            guard connect(fd, info.pointee.ai_addr, info.pointee.ai_addrlen) == 0 else {
                throw POSIXError(.init(rawValue: errno) ?? .EIO)
            }
        }
        var limit = timeval(tv_sec: 20 * patience, tv_usec: 0)
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
    }

    deinit { close(fd) }

    /// Sends all of it; false when the server has closed.
    @discardableResult
    func send(_ bytes: [UInt8]) -> Bool {
        var sent = 0
        while sent < bytes.count {
            let count = bytes[sent...].withUnsafeBytes { Glibc.send(fd, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            if count <= 0 { return false }
            sent += count
        }
        return true
    }

    @discardableResult
    func send(_ text: String) -> Bool { send(Array(text.utf8)) }

    /// Resets the connection, with whatever is unread.
    func abort() {
        var option = linger(l_onoff: 1, l_linger: 0)
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
        var nobody = sockaddr()
        nobody.sa_family = sa_family_t(AF_UNSPEC)
        connect(fd, &nobody, socklen_t(MemoryLayout<sockaddr>.size))
    }

    /// Says that nothing more will be sent.
    func finishSending() { shutdown(fd, Int32(SHUT_WR)) }

    /// Reads until there are `count` bytes; fewer when the server closes or nothing comes for 20 s.
    func read(_ count: Int) -> [UInt8] {
        while buffered.count - consumed < count, fill() {}
        return take(min(count, buffered.count - consumed))
    }

    /// Reads one line without its CR LF.
    func line() -> String {
        var searched = 0
        while true {
            let rest = buffered[(consumed + searched)...]
            if let end = rest.firstIndex(of: 10) {
                let line = take(end + 1 - consumed).dropLast()
                return String(decoding: line.last == 13 ? line.dropLast() : line, as: UTF8.self)
            }
            searched = buffered.count - consumed
            guard fill() else { return String(decoding: take(searched), as: UTF8.self) }
        }
    }

    /// Receives once; false at the end of the stream.
    private func fill() -> Bool {
        if consumed > 0 {
            buffered.removeFirst(consumed)
            consumed = 0
        }
        var chunk = [UInt8](repeating: 0, count: 1 << 16)
        let got = recv(fd, &chunk, chunk.count, 0)
        guard got > 0 else { return false }
        buffered += chunk.prefix(got)
        return true
    }

    private func take(_ count: Int) -> [UInt8] {
        defer { consumed += count }
        return Array(buffered[consumed..<consumed + count])
    }

    /// Reads everything until the server closes.
    func readToEnd() -> String { String(decoding: read(1 << 30), as: UTF8.self) }

    /// Sends a request and reads a one-line reply.
    func ask(_ text: String) -> String {
        send(text)
        return line()
    }

    /// The statistics, by name.
    func statistics(_ group: String = "") -> [String: String] {
        send("stats\(group.isEmpty ? "" : " " + group)\r\n")
        var values: [String: String] = [:]
        while true {
            let words = line().split(separator: " ", maxSplits: 2)
            guard words.count >= 2, words[0] == "STAT" else { return values }
            values[String(words[1])] = words.count > 2 ? String(words[2]) : ""
        }
    }
}

/// Waits until `condition` holds, for at most ten seconds, times `patience`.
func eventually(_ condition: () -> Bool) -> Bool {
    for _ in 0..<2000 * patience {
        if condition() { return true }
        usleep(5000)
    }
    return false
}
