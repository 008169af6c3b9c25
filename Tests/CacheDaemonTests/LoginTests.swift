// Authentication through a running server: memcached's conversation, delays, deadlines, rights and reloads.

import Foundation
import Primitives
import Testing

@testable import CacheDaemon

@Suite(.serialized)
final class LoginTests {
    private let directory: TemporaryDirectory
    private var path: String { directory.path + "/accounts" }

    init() throws { directory = try TemporaryDirectory() }

    private func write(_ text: String) throws {
        try Data(text.utf8).write(to: URL(fileURLWithPath: path))
        chmod(path, 0o600)
    }

    private func start(_ text: String, _ change: (inout Settings) -> Void = { _ in }) throws -> RunningServer {
        try write(text)
        return try RunningServer(settings(change))
    }

    private func settings(_ change: (inout Settings) -> Void = { _ in }) -> Settings {
        testSettings {
            $0.access.accountFile = path
            change(&$0)
        }
    }

    private func connect(_ server: RunningServer) throws -> PlainClient { try PlainClient("127.0.0.1:\(server.port)") }

    private func login(_ client: PlainClient, _ name: String, _ password: String) -> String {
        let token = "\(name) \(password)"
        return client.ask("set login 0 0 \(token.utf8.count)\r\n\(token)\r\n")
    }

    private let failure = "CLIENT_ERROR authentication failure"
    private let denied = "CLIENT_ERROR permission denied"

    @Test func memcachedsConversation() throws {
        let server = try start("foo:bar\nbaaaz:quux\n")
        defer { server.stop() }
        let client = try connect(server)
        #expect(client.ask("set foo 0 0 2\r\nhi\r\n") == "CLIENT_ERROR bad authentication token format")
        #expect(client.ask("get foo\r\n") == "CLIENT_ERROR unauthenticated")
        #expect(login(client, "foo", "bab") == failure)
        #expect(client.ask("set foo 0 0 2147483646\r\n") == "CLIENT_ERROR auth token too long")
        #expect(
            client.ask("set foo 0 0 1025\r\n" + String(repeating: "x", count: 1025) + "\r\n")
                == "CLIENT_ERROR auth token too long")
        #expect(client.ask("set foo 0 0 7\r\nfoo barxx") == "CLIENT_ERROR bad command line termination")
        #expect(client.ask("\r\n") == "CLIENT_ERROR unauthenticated")
        #expect(client.ask("version\r\n") == "CLIENT_ERROR unauthenticated")
        #expect(login(client, "foo", "bar") == "STORED")
        #expect(client.ask("set toast 0 0 2\r\nhi\r\n") == "STORED")
        #expect(client.ask("get foo\r\n") == "END", "the login stored nothing")
        let second = try connect(server)
        // The login, the requests behind it, and their replies, in one packet each.
        second.send("set x 0 0 10 noreply\r\nbaaaz quux\r\nget toast\r\nmn\r\n")
        #expect(second.line() == "STORED")
        #expect(second.line() == "VALUE toast 0 2")
        #expect(second.line() == "hi")
        #expect(second.line() == "END")
        #expect(second.line() == "MN")
        let statistics = second.statistics()
        #expect(statistics["auth_cmds"] == "3")
        #expect(statistics["auth_errors"] == "1")
        #expect(second.statistics("settings")["auth_enabled_ascii"] == path)
    }

    @Test func tokensMayComeByteByByte() throws {
        let server = try start("foo:bar\n")
        defer { server.stop() }
        let client = try connect(server)
        for byte in Array("set foo 0 0 7\r\nfoo bar\r\nmn\r\n".utf8) { client.send([byte]) }
        #expect(client.line() == "STORED")
        #expect(client.line() == "MN")
    }

    @Test func quitBinaryAndEndlessLinesClose() throws {
        let server = try start("foo:bar\n")
        defer { server.stop() }
        for bytes in [Array("quit\r\n".utf8), [0x80, 0, 0, 0], [UInt8](repeating: 97, count: 2100)] {
            let client = try connect(server)
            client.send(bytes)
            #expect(client.readToEnd().isEmpty)
        }
        #expect(server.waitForLog("binary protocol refused"))
    }

    @Test func thirdFailureClosesAndDelaysHoldUpNobodyElse() throws {
        let server = try start("foo:bar\n") { $0.threads = 1 }
        defer { server.stop() }
        let guessing = try connect(server)
        let begin = SystemClock().now()
        #expect(login(guessing, "foo", "1") == failure)
        #expect(login(guessing, "foo", "2") == failure)
        guessing.send("set login 0 0 5\r\nfoo 3\r\n")
        // The refusal is on its way for a second; meanwhile the only worker serves others.
        let other = try connect(server)
        #expect(login(other, "foo", "bar") == "STORED")
        #expect(other.ask("mn\r\n") == "MN")
        #expect(guessing.line() == failure)
        #expect(SystemClock().now().milliseconds - begin.milliseconds >= 250 + 500 + 1000)
        #expect(guessing.readToEnd().isEmpty)
    }

    @Test func parallelGuessesWaitForEachOther() throws {
        let server = try start("foo:bar\n")
        defer { server.stop() }
        let guessing = try (0..<Authenticator.heldMax + 2).map { _ in try connect(server) }
        for client in guessing { client.send("set login 0 0 5\r\nfoo 1\r\n") }
        for client in guessing { #expect(client.line() == failure) }
        let statistics = try #require(try loggedIn(server, "foo", "bar")).statistics()
        #expect(statistics["auth_errors"] == "\(guessing.count)")
    }

    @Test func oneAddressHoldsOnlySoManyConnections() throws {
        let server = try start("foo:bar\n") { $0.threads = 1 }
        defer { server.stop() }
        let authenticator = try #require(server.service?.authenticator)
        let guessing = try (0..<60).map { _ in try connect(server) }
        for client in guessing { client.send("set login 0 0 5\r\nfoo 1\r\n") }
        let places = Authenticator.waitingMax + Authenticator.heldMax
        #expect(eventually { server.service?.totals[.loginFailures] ?? 0 >= UInt64(60 - places) })
        let (attempts, refusals) = authenticator.waiting
        #expect(attempts <= Authenticator.waitingMax && refusals <= Authenticator.heldMax)
        #expect(guessing[59].readToEnd() == failure + "\r\n")
        for client in guessing { client.finishSending() }
        #expect(eventually { server.service?.connectionCount ?? 60 <= places })
    }

    @Test func longDeadlinesAreNotCutShort() throws {
        let clock = ManualClock()
        try write("foo:bar\n")
        let server = try RunningServer(settings { $0.access.loginTimeout = .seconds(600) }, clock: clock)
        defer { server.stop() }
        let client = try connect(server)
        #expect(client.ask("version\r\n") == "CLIENT_ERROR unauthenticated")
        // A request that does not go on is cut off after ten seconds: then the deadlines have been looked at.
        let user = try #require(try loggedIn(server, "foo", "bar"))
        user.send("get half")
        #expect(eventually { server.service?.totals[.bytesRead] ?? 0 >= 9 + 24 + 8 })
        clock.advance(15_000)
        #expect(user.readToEnd().isEmpty)
        #expect(login(client, "foo", "bar") == "STORED")
    }

    private func loggedIn(_ server: RunningServer, _ name: String, _ password: String) throws -> PlainClient? {
        let client = try connect(server)
        return login(client, name, password) == "STORED" ? client : nil
    }

    @Test func silentClientsAreClosed() throws {
        let server = try start("foo:bar\n") { $0.access.loginTimeout = TimeSpan(milliseconds: 100) }
        defer { server.stop() }
        let silent = try connect(server)
        let talking = try connect(server)
        let user = try #require(try loggedIn(server, "foo", "bar"))
        #expect(silent.readToEnd().isEmpty)
        // Whatever it says, the deadline stays.
        while talking.send("version\r\n"), talking.line() == "CLIENT_ERROR unauthenticated" {}
        #expect(user.statistics()["auth_timeouts"] == "2")
    }

    @Test func rightsAndPrefixes() throws {
        let server = try start("all:1\nreader:2\nlimited:3\n@reader read\n@limited read,write prefix=l:\n")
        defer { server.stop() }
        let all = try #require(try loggedIn(server, "all", "1"))
        let reader = try #require(try loggedIn(server, "reader", "2"))
        let limited = try #require(try loggedIn(server, "limited", "3"))
        #expect(all.ask("set k 0 0 1\r\nv\r\n") == "STORED")
        #expect(reader.ask("get k\r\n") == "VALUE k 0 1")
        _ = (reader.line(), reader.line())
        // The block of a refused store is skipped, whatever stands in it.
        #expect(reader.ask("set k 0 0 9\r\nflush_all\r\n") == denied)
        #expect(reader.ask("ms k 2 q\r\nno\r\n") == denied)
        #expect(reader.ask("set k 0 0 2 noreply\r\nno\r\nmn\r\n") == "MN")
        #expect(reader.ask("flush_all\r\n") == denied)
        #expect(reader.ask("watch\r\n") == denied)
        #expect(limited.ask("get l:1 k\r\n") == denied)
        #expect(limited.ask("mg aw== b v\r\n") == denied)
        #expect(limited.ask("set k 0 0 1\r\nx\r\n") == denied)
        #expect(limited.ask("set l:1 0 0 1\r\nx\r\n") == "STORED")
        #expect(limited.ask("get l:1 l:1\r\n") == "VALUE l:1 0 1")
        for _ in 0..<4 { _ = limited.line() }
        #expect(all.ask("mg k v\r\n") == "VA 1")
        #expect(all.line() == "v")
        #expect(all.statistics()["requests_not_permitted"] == "8")
    }

    @Test func reloadChangesRightsAndRevokes() throws {
        let server = try start("foo:bar\nkeep:1\ngone:2\nchanged:3\n")
        defer { server.stop() }
        let keep = try #require(try loggedIn(server, "keep", "1"))
        let gone = try #require(try loggedIn(server, "gone", "2"))
        let changed = try #require(try loggedIn(server, "changed", "3"))
        try write("foo:bar\nkeep:1\nchanged:4\n@keep read\n")
        server.control.requestReload()
        #expect(gone.readToEnd().isEmpty)
        #expect(changed.readToEnd().isEmpty)
        #expect(eventually { keep.ask("delete x\r\n") == denied })
        #expect(try loggedIn(server, "changed", "4") != nil)
        #expect(try loggedIn(server, "gone", "2") == nil)
    }

    @Test func badFileAtReloadKeepsTheOld() throws {
        let server = try start("foo:bar\n")
        defer { server.stop() }
        try write("foo\n")
        server.control.requestReload()
        #expect(server.waitForLog("accounts:1: not name:password"))
        #expect(try loggedIn(server, "foo", "bar") != nil)
        try write("foo:new\n")
        chmod(path, 0o644)
        server.control.requestReload()
        #expect(server.waitForLog("mode 644 lets others at it"))
        #expect(try loggedIn(server, "foo", "bar") != nil)
    }

    @Test func badFileAtStartIsAnError() throws {
        try write("foo\n")
        #expect(throws: StartError.self) { try RunningServer(settings()) }
        do { _ = try RunningServer(settings()) } catch let error as StartError {
            #expect(error.status == StartError.configurationStatus)
        }
    }

    @Test func logsShowNoCredentials() throws {
        let server = try start("foo:sesame\n")
        defer { server.stop() }
        // The log of these tests is at its chattiest.
        let client = try connect(server)
        #expect(login(client, "foo", "simsim") == failure)
        #expect(client.ask("simsim simsim\r\n") == "CLIENT_ERROR unauthenticated")
        #expect(login(client, "foo", "sesame") == "STORED")
        #expect(client.ask("mn\r\n") == "MN")
        #expect(server.waitForLog("authentication failed"))
        #expect(server.waitForLog("line=mn"))
        for line in server.log.all { #expect(!line.contains("sesame") && !line.contains("simsim"), "\(line)") }
    }
}
