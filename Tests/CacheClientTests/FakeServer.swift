// A small memcached on a loopback port inside the test, which can be told to lie: the proof that the client and the
// load generator notice. One thread per connection; every thread ends when its peer closes or the server is stopped.

import CacheClient
import Foundation
import Glibc
import Primitives

/// How a fake server misbehaves.
enum Lie: Sendable {
    case none
    /// A get brings the value of some other key.
    case foreign
    /// One bit of the value, at this position, is wrong.
    case flippedBit(at: Int)
    /// The value's first half, then the second half of another version.
    case mixed
    /// The value lacks its last byte, the length says so.
    case truncated
    /// Only the first set of each key is kept; all are acknowledged.
    case stale
    /// Every reply is nonsense.
    case garbage
    /// Sets are answered by `SERVER_ERROR out of memory storing object`.
    case refuseSets
    /// The connection is closed after so many requests.
    case closeAfter(Int)
    /// Replies come one byte at a time.
    case drip
    /// Nothing is answered, ever.
    case mute
    /// An extra `STORED` follows each reply.
    case chatty
}

/// The fake server.
final class FakeServer: Sendable {
    private struct State {
        var values: [String: [UInt8]] = [:]
        var versions: [String: [[UInt8]]] = [:]
        var open: Set<Int32> = []
        var isStopped = false
        var connectionsTotal = 0
    }

    let address: ServerAddress
    private let listener: Int32
    private let lie: Lie
    private let script: (@Sendable (String) -> String?)?
    private let state = Guarded(State(), rank: .leaf)

    /// Listens on a free loopback port; `script` answers lines, before the built-in commands do.
    init(lie: Lie = .none, script: (@Sendable (String) -> String?)? = nil) throws {
        self.lie = lie
        self.script = script
        (listener, address) = boundSocket()
        precondition(listen(listener, 128) == 0, "listen: errno \(errno)")
        Thread.detachNewThread { [self] in acceptLoop() }
    }

    /// Connections taken so far.
    var connectionsTotal: Int { state.withLock { $0.connectionsTotal } }

    /// Puts a value there without a client.
    func put(_ key: String, _ value: [UInt8]) { state.withLock { $0.values[key] = value } }

    /// Closes everything.
    func stop() {
        let descriptors = state.withLock { state in
            state.isStopped = true
            return Array(state.open)
        }
        shutdown(listener, Int32(SHUT_RDWR))
        for descriptor in descriptors { shutdown(descriptor, Int32(SHUT_RDWR)) }
    }

    private func acceptLoop() {
        while true {
            let descriptor = accept(listener, nil, nil)
            if descriptor < 0 { break }
            let isStopped = state.withLock { state in
                state.connectionsTotal += 1
                state.open.insert(descriptor)
                return state.isStopped
            }
            // A dripping server must not wait for acknowledgements of each byte.
            var one: Int32 = 1
            setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &one, socklen_t(MemoryLayout<Int32>.size))
            if isStopped { shutdown(descriptor, Int32(SHUT_RDWR)) }
            Thread.detachNewThread { [self] in
                serve(descriptor)
                state.withLock { _ = $0.open.remove(descriptor) }
                close(descriptor)
            }
        }
        close(listener)
    }

    private func serve(_ descriptor: Int32) {
        var input = Input(descriptor: descriptor)
        var requests = 0
        while let line = input.line() {
            requests += 1
            if case .closeAfter(let most) = lie, requests > most { return }
            guard var reply = answer(line, &input) else { return }
            if case .garbage = lie { reply = Array("?!#\r\n".utf8) }
            if case .mute = lie { continue }
            if case .chatty = lie { reply += Array("STORED\r\n".utf8) }
            if case .drip = lie {
                for byte in reply where !send([byte], descriptor) { return }
            } else if !send(reply, descriptor) {
                return
            }
        }
    }

    private func answer(_ line: String, _ input: inout Input) -> [UInt8]? {
        let words = line.split(separator: " ").map(String.init)
        if let reply = script?(line) { return Array(reply.utf8) }
        switch words.first {
        case "get", "gets":
            return words.dropFirst().reduce(into: []) { $0 += value($1, gets: words[0] == "gets") }
                + Array("END\r\n".utf8)
        case "set":
            guard words.count == 5, let count = Int(words[4]), let bytes = input.bytes(count + 2) else { return nil }
            if case .refuseSets = lie { return Array("SERVER_ERROR out of memory storing object\r\n".utf8) }
            store(words[1], Array(bytes.dropLast(2)))
            return Array("STORED\r\n".utf8)
        case "delete":
            let existed = state.withLock { $0.values.removeValue(forKey: words[1]) != nil }
            return Array((existed ? "DELETED\r\n" : "NOT_FOUND\r\n").utf8)
        case "version": return Array("VERSION 1.6.99-fake\r\n".utf8)
        case "flush_all":
            state.withLock { $0.values = [:] }
            return Array("OK\r\n".utf8)
        case "stats": return Array("STAT pid 7\r\nSTAT version 1.6.99-fake\r\nSTAT uptime 100\r\nEND\r\n".utf8)
        default: return Array("ERROR\r\n".utf8)
        }
    }

    private func store(_ key: String, _ bytes: [UInt8]) {
        state.withLock { state in
            state.versions[key, default: []].append(bytes)
            if case .stale = lie, state.values[key] != nil { return }
            state.values[key] = bytes
        }
    }

    private func value(_ key: String, gets: Bool) -> [UInt8] {
        let found: [UInt8]? = state.withLock { state in
            guard var bytes = state.values[key] else { return nil }
            switch lie {
            case .foreign: return state.values.first { $0.key != key }?.value ?? bytes
            case .flippedBit(let position): bytes[min(position, bytes.count - 1)] ^= 1
            case .truncated: bytes.removeLast()
            case .mixed:
                let versions = state.versions[key] ?? []
                if versions.count > 1 {
                    let half = bytes.count / 2
                    bytes = Array(
                        versions[versions.count - 1].prefix(half) + versions[versions.count - 2].dropFirst(half))
                }
            default: break
            }
            return bytes
        }
        guard let found else { return [] }
        return Array("VALUE \(key) 0 \(found.count)\(gets ? " 42" : "")\r\n".utf8) + found + Array("\r\n".utf8)
    }

    private func send(_ bytes: [UInt8], _ descriptor: Int32) -> Bool {
        var sent = 0
        while sent < bytes.count {
            let count = bytes[sent...].withUnsafeBytes {
                Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            if count <= 0 { return false }
            sent += count
        }
        return true
    }

    /// Buffered blocking reads.
    private struct Input {
        let descriptor: Int32
        private var buffer: [UInt8] = []
        private var start = 0

        init(descriptor: Int32) { self.descriptor = descriptor }

        mutating func line() -> String? {
            while true {
                if let end = buffer[start...].firstIndex(of: 10) {
                    let text = String(decoding: buffer[start..<end], as: UTF8.self)
                    start = end + 1
                    return text.hasSuffix("\r") ? String(text.dropLast()) : text
                }
                if !fill() { return nil }
            }
        }

        mutating func bytes(_ count: Int) -> [UInt8]? {
            while buffer.count - start < count {
                if !fill() { return nil }
            }
            defer { start += count }
            return Array(buffer[start..<start + count])
        }

        private mutating func fill() -> Bool {
            buffer.removeFirst(start)
            start = 0
            var chunk = [UInt8](repeating: 0, count: 65_536)
            let count = recv(descriptor, &chunk, chunk.count, 0)
            if count <= 0 { return false }
            buffer += chunk.prefix(count)
            return true
        }
    }
}

/// A socket that is bound to a free loopback port; until it listens, connections to it are refused.
func boundSocket() -> (descriptor: Int32, address: ServerAddress) {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    var name = sockaddr_in()
    name.sin_family = sa_family_t(AF_INET)
    name.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    var size = socklen_t(MemoryLayout<sockaddr_in>.size)
    let isBound = withUnsafeMutablePointer(to: &name) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { raw in
            bind(descriptor, raw, size) == 0 && getsockname(descriptor, raw, &size) == 0
        }
    }
    precondition(isBound, "bind: errno \(errno)")
    return (descriptor, .tcp(host: "127.0.0.1", port: UInt16(bigEndian: name.sin_port)))
}
