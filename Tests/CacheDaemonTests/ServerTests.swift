// Whole servers over loopback: where they listen, whom they refuse, how they stop and reload.

import CacheEngine
import Foundation
import Primitives
import Testing

@testable import CacheDaemon

@Suite("server", .serialized)
struct ServerTests {
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    // MARK: Listening

    @Test("serves on several TCP addresses and a Unix socket at once")
    func listeners() throws {
        let path = directory.path + "/socket"
        let server = try RunningServer(
            testSettings {
                $0.listen = [
                    ListenAddress(host: "127.0.0.1", port: 0), ListenAddress(host: "::1", port: 0),
                    ListenAddress(host: "localhost", port: 0),
                ]
                $0.unixPath = path
                $0.unixMode = 0o770
            })
        #expect(server.addresses.count >= 4)
        for (index, address) in server.addresses.enumerated() {
            let client = try PlainClient(address)
            #expect(client.ask("set k\(index) 0 0 1\r\n\(index)\r\n") == "STORED", "\(address)")
        }
        let last = try PlainClient(server.addresses[0])
        #expect(last.ask("get k\(server.addresses.count - 1)\r\n").hasPrefix("VALUE"), "one cache behind them all")
        var status = stat()
        #expect(stat(path, &status) == 0)
        #expect(status.st_mode & 0o777 == 0o770)
        #expect(server.stop() == 0)
        #expect(access(path, F_OK) != 0, "the socket file is removed")
    }

    @Test("a stale socket file is replaced, a live one and other files are left alone")
    func unixSocketFile() throws {
        let path = directory.path + "/socket"
        let stale = try ListeningSocket.open(path: path, mode: 0o700)
        close(stale.fd)
        let settings = testSettings {
            $0.listen = []
            $0.unixPath = path
        }
        let server = try RunningServer(settings)
        #expect(try PlainClient("unix:" + path).ask("version\r\n").hasPrefix("VERSION"))
        #expect(throws: StartError.self) { try RunningServer(settings) }
        #expect(try PlainClient("unix:" + path).ask("version\r\n").hasPrefix("VERSION"), "still there")
        server.stop()
        try Data("precious".utf8).write(to: URL(fileURLWithPath: path))
        #expect(throws: StartError.self) { try RunningServer(settings) }
        #expect(try String(contentsOfFile: path, encoding: .utf8) == "precious")
    }

    @Test("a socket file that another process has put in ours' place is not removed")
    func replacedSocketFile() throws {
        let path = directory.path + "/replaced"
        let settings = testSettings {
            $0.listen = []
            $0.unixPath = path
        }
        let first = try RunningServer(settings)
        try FileManager.default.removeItem(atPath: path)
        let second = try RunningServer(settings)
        #expect(first.stop() == 0)
        #expect(try PlainClient("unix:" + path).ask("version\r\n").hasPrefix("VERSION"), "the second one's")
        #expect(second.stop() == 0)
        #expect(access(path, F_OK) != 0, "removed by the one that made it")
    }

    @Test("an address in use, or a directory in use, is an error with its own status")
    func startErrors() throws {
        let first = try RunningServer(
            testSettings {
                $0.disk.isEnabled = true
                $0.disk.directory = directory.path + "/cache"
            })
        let taken = testSettings { $0.listen = [ListenAddress(host: "127.0.0.1", port: first.port)] }
        do {
            _ = try RunningServer(taken)
            Issue.record("two servers on one port")
        } catch let error as StartError {
            #expect(error.status == 71)
            #expect(error.description.contains("127.0.0.1:\(first.port)"))
        }
        do {
            _ = try RunningServer(
                testSettings {
                    $0.disk.isEnabled = true
                    $0.disk.directory = directory.path + "/cache"
                })
            Issue.record("two servers in one directory")
        } catch let error as StartError {
            #expect(error.status == 75)
            #expect(error.description.contains("\(getpid())"), "names the holder")
        }
        #expect(first.stop() == 0)
    }

    // MARK: Limits

    @Test("over the connection limit a client gets one line; room is there again when another leaves")
    func connectionLimit() throws {
        let server = try RunningServer(testSettings { $0.connectionsMax = 3 })
        let address = server.addresses[0]
        var clients = try (0..<3).map { _ in try PlainClient(address) }
        for client in clients { #expect(client.ask("version\r\n").hasPrefix("VERSION")) }
        #expect(try PlainClient(address).readToEnd() == "ERROR Too many open connections\r\n")
        #expect(clients[0].statistics()["rejected_connections"] == "1")
        clients.removeLast()
        #expect(
            eventually {
                guard let client = try? PlainClient(address) else { return false }
                return client.ask("version\r\n").hasPrefix("VERSION")
            })
        server.stop()
    }

    @Test("silent clients are closed after the idle timeout, others are not")
    func idleTimeout() throws {
        let server = try RunningServer(testSettings { $0.idleTimeout = TimeSpan(milliseconds: 1500) })
        let idle = try PlainClient(server.addresses[0])
        let busy = try PlainClient(server.addresses[0])
        #expect(idle.ask("version\r\n").hasPrefix("VERSION"))
        #expect(eventually { busy.ask("version\r\n").isEmpty || busy.statistics()["idle_kicks"] == "1" })
        #expect(idle.readToEnd() == "")
        #expect(busy.ask("version\r\n").hasPrefix("VERSION"))
        server.stop()
    }

    @Test(
        "a request that does not arrive in time closes its connection, a slow but steady one does not",
        arguments: ["get abc", "set a 0 0 100\r\nhalf", "set b 0 0 2000000\r\nhalf", "ms a 5\r\n", "set a 0 0 1\r\nx"])
    func slowRequest(beginning: String) throws {
        let clock = ManualClock()
        let server = try RunningServer(testSettings(), clock: clock)
        let slow = try PlainClient(server.addresses[0])
        let steady = try PlainClient(server.addresses[0])
        let idle = try PlainClient(server.addresses[0])
        #expect(idle.ask("version\r\n").hasPrefix("VERSION"))
        slow.send(beginning)
        let value = String(repeating: "v", count: 20_000)
        let front = "set c 0 0 20000\r\n" + value.prefix(15_000)
        steady.send(front)
        // Every byte of both must have come before time goes on; each question adds its own.
        var due = beginning.utf8.count + front.utf8.count + "version\r\n".utf8.count
        #expect(
            eventually {
                due += "stats\r\n".utf8.count
                return idle.statistics()["bytes_read"].flatMap { Int($0) } ?? 0 >= due
            })
        clock.advance(Settings().requestTimeout.milliseconds + 2000)
        let rest = slow.readToEnd()
        #expect(rest == "" || rest == "SERVER_ERROR object too large for cache\r\n", "closed")
        steady.send(value.dropFirst(15_000) + "\r\n")
        #expect(steady.line() == "STORED")
        let statistics = idle.statistics()
        #expect(statistics["stalled_kicks"] == "1" && statistics["request_timeouts"] == "1")
        #expect(statistics["curr_connections"] == "2")
        server.stop()
    }

    @Test("a client that takes no byte of its replies for a minute is closed")
    func stalledReader() throws {
        let clock = ManualClock()
        let server = try RunningServer(testSettings(), clock: clock)
        let client = try PlainClient(server.addresses[0])
        let value = String(repeating: "v", count: 1_000_000)
        #expect(client.ask("set big 0 0 1000000\r\n\(value)\r\n") == "STORED")
        let stalled = try PlainClient(server.addresses[0])
        stalled.send(String(repeating: "get big\r\n", count: 100))
        #expect(eventually { client.statistics()["bytes_written"].flatMap { Int($0) } ?? 0 > 100_000 })
        clock.advance(Settings().sendTimeout.milliseconds + 2000)
        #expect(eventually { client.statistics()["send_timeouts"] == "1" })
        server.stop()
    }

    // MARK: Odd clients

    @Test("a client that closes its side first gets all its replies")
    func halfClose() throws {
        let server = try RunningServer(testSettings())
        let client = try PlainClient(server.addresses[0])
        client.send("set a 0 0 1\r\nx\r\n" + String(repeating: "get a\r\n", count: 1000) + "get ")
        client.finishSending()
        #expect(client.readToEnd() == "STORED\r\n" + String(repeating: "VALUE a 0 1\r\nx\r\nEND\r\n", count: 1000))
        server.stop()
    }

    @Test("the binary protocol is closed at once, counted, and explained once per address")
    func binary() throws {
        let server = try RunningServer(testSettings())
        for _ in 0..<3 {
            let client = try PlainClient(server.addresses[0])
            client.send([0x80, 0x0B] + [UInt8](repeating: 0, count: 22))
            #expect(client.readToEnd() == "")
        }
        let client = try PlainClient(server.addresses[0])
        #expect(client.statistics()["binary_rejected"] == "3")
        #expect(server.log.all.filter { $0.contains("binary protocol refused") }.count == 1)
        server.stop()
    }

    @Test("a last reply arrives although the client goes on sending")
    func lostFraming() throws {
        let server = try RunningServer(testSettings())
        for _ in 0..<20 {
            let client = try PlainClient(server.addresses[0])
            client.send("version\r\nquit\r\n" + String(repeating: "x", count: 200_000))
            #expect(client.readToEnd() == "VERSION \(ProductVersion.wire)\r\n")
        }
        server.stop()
    }

    @Test("a client that does not read is not read from, and the others are served")
    func neverReading() throws {
        let server = try RunningServer(testSettings { $0.threads = 1 })
        let value = String(repeating: "v", count: 1_000_000)
        let client = try PlainClient(server.addresses[0])
        #expect(client.ask("set big 0 0 1000000\r\n\(value)\r\n") == "STORED")
        let greedy = try PlainClient(server.addresses[0])
        greedy.send(String(repeating: "get big\r\n", count: 100))
        for _ in 0..<50 { #expect(client.ask("version\r\n").hasPrefix("VERSION")) }
        let sent = UInt64(client.statistics()["bytes_written"] ?? "") ?? 0
        #expect(sent < 50_000_000, "100 MB were asked for; only what the socket took was sent")
        let expected = "VALUE big 0 1000000\r\n\(value)\r\nEND\r\n"
        for _ in 0..<100 { #expect(greedy.read(expected.utf8.count) == Array(expected.utf8)) }
        server.stop()
    }

    @Test("many clients on several threads see their own writes")
    func concurrency() async throws {
        let server = try RunningServer(
            testSettings {
                $0.threads = 4
                $0.disk.isEnabled = true
                $0.disk.directory = directory.path + "/cache"
                $0.memory.bytesMax = 2 << 20
            })
        let address = server.addresses[0]
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<8 {
                group.addTask {
                    let client = try PlainClient(address)
                    for round in 0..<60 {
                        let size = [10, 3000, 30_000, 200_000][round % 4]
                        let value = String(repeating: "\(number)-\(round).", count: size / 4)
                        let key = "key-\(number)-\(round)"
                        #expect(client.ask("set \(key) 1 0 \(value.utf8.count)\r\n\(value)\r\n") == "STORED")
                        client.send("get \(key)\r\n")
                        let expected = "VALUE \(key) 1 \(value.utf8.count)\r\n\(value)\r\nEND\r\n"
                        #expect(client.read(expected.utf8.count) == Array(expected.utf8))
                    }
                    for round in 0..<60 {
                        #expect(client.ask("append key-\(number)-\(round) 0 0 1\r\n!\r\n") == "STORED")
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(server.stop() == 0)
    }

    // MARK: Operating

    @Test("stopping finishes what has come whole, drops halves, and closes")
    func drain() throws {
        let server = try RunningServer(testSettings())
        let whole = try PlainClient(server.addresses[0])
        let half = try PlainClient(server.addresses[0])
        #expect(half.ask("version\r\n").hasPrefix("VERSION"))
        half.send("set half 0 0 10\r\nabc")
        let count = 2000
        whole.send("set a 0 0 1\r\nx\r\n" + String(repeating: "get a\r\n", count: count))
        #expect(whole.line() == "STORED")
        #expect(server.stop() == 0)
        let rest = whole.readToEnd()
        #expect(rest.hasSuffix("END\r\n"))
        #expect(half.readToEnd() == "")
        #expect(throws: (any Error).self) { try PlainClient(server.addresses[0]) }
    }

    @Test("what was stored is there after a stop and a start")
    func restart() throws {
        let settings = testSettings {
            $0.disk.isEnabled = true
            $0.disk.directory = directory.path + "/cache"
        }
        let value = String(repeating: "v", count: 100_000)
        let first = try RunningServer(settings)
        #expect(try PlainClient(first.addresses[0]).ask("set a 3 0 100000\r\n\(value)\r\n") == "STORED")
        #expect(first.stop() == 0)
        let second = try RunningServer(settings)
        let client = try PlainClient(second.addresses[0])
        client.send("get a\r\n")
        let expected = "VALUE a 3 100000\r\n\(value)\r\nEND\r\n"
        #expect(client.read(expected.utf8.count) == Array(expected.utf8))
        #expect(client.statistics()["disk_hits"] == "1")
        #expect(second.stop() == 0)
    }

    @Test("the shutdown command works only where it is switched on")
    func shutdownCommand() throws {
        let server = try RunningServer(testSettings { $0.acceptsShutdownCommand = true })
        let client = try PlainClient(server.addresses[0])
        client.send("shutdown\r\n")
        #expect(client.readToEnd() == "")
        #expect(server.wait() == 0)
    }

    @Test("a reload changes what may change, and keeps everything when the new settings are wrong")
    func reload() throws {
        var settings = testSettings { $0.connectionsMax = 1 }
        let server = try RunningServer(settings)
        let client = try PlainClient(server.addresses[0])
        #expect(client.statistics("settings")["maxconns"] == "1")
        settings.connectionsMax = 2
        settings.memory.bytesMax = 32 << 20
        settings.timeToLive.max = TimeSpan.seconds(50)
        settings.threads = 7
        server.setReloaded(settings)
        server.control.requestReload()
        #expect(server.waitForLog("reloaded changed=max_connections,memory.limit,ttl.max needs_restart=threads"))
        #expect(client.statistics("settings")["maxconns"] == "2")
        #expect(client.statistics()["limit_maxbytes"] == "\(32 << 20)")
        #expect(client.ask("set a 0 0 1\r\nx\r\n") == "STORED")
        #expect(["HD t50", "HD t49"].contains(client.ask("mg a t\r\n")))
        #expect(try PlainClient(server.addresses[0]).ask("version\r\n").hasPrefix("VERSION"))
        server.setReloaded(nil)
        server.control.requestReload()
        #expect(server.waitForLog("reload failed"))
        #expect(client.statistics("settings")["maxconns"] == "2")
        server.stop()
    }

    @Test("stats conns lists the open connections")
    func connections() throws {
        let server = try RunningServer(testSettings())
        let client = try PlainClient(server.addresses[0])
        let conns = client.statistics("conns")
        #expect(conns.filter { $0.key.hasSuffix(":listen_addr") }.values.contains { $0.hasSuffix(":\(server.port)") })
        #expect(conns.filter { $0.key.hasSuffix(":addr") }.values.contains { $0.hasPrefix("tcp:127.0.0.1:") })
        server.stop()
    }
}
