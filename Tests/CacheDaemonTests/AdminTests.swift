// The admin port: its pages over real sockets, what they are made from, and that it stops with the server.

import CacheEngine
import Foundation
import Libevent
import Primitives
import Testing

@testable import CacheDaemon

/// One HTTP exchange.
private struct Exchange {
    let head: String
    let body: String

    var status: Int { Int(head.split(separator: " ").dropFirst().first ?? "") ?? 0 }

    init(_ address: String, _ target: String, method: String = "GET") throws {
        let client = try PlainClient(address)
        client.send("\(method) \(target) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        let text = client.readToEnd()
        let end = text.range(of: "\r\n\r\n")
        head = String(text[..<(end?.lowerBound ?? text.endIndex)])
        body = String(text[(end?.upperBound ?? text.endIndex)...])
    }
}

@Suite("admin port", .serialized)
struct AdminTests {
    private let directory: TemporaryDirectory
    private let localhost = AdminAddress.tcp(ListenAddress(host: "127.0.0.1", port: 0))

    init() throws { directory = try TemporaryDirectory() }

    @Test("every page answers, with its type; anything else does not")
    func pages() throws {
        let server = try RunningServer(testSettings { $0.admin = localhost })
        let address = server.adminAddress
        for (target, type, text) in [
            ("/", "text/html", "<title>cache-daemon</title>"), ("/dashboard.css", "text/css", "prefers-color-scheme"),
            ("/dashboard.js", "text/javascript", "stats.json"), ("/healthz", "text/plain", "ok"),
            ("/readyz", "text/plain", "ready disk=off"), ("/metrics", "application/openmetrics-text", "# EOF"),
            ("/stats.json?since=5", "application/json", "\"version\""),
        ] {
            let exchange = try Exchange(address, target)
            #expect(exchange.status == 200 && exchange.body.contains(text), "\(target): \(exchange.head)")
            #expect(exchange.head.contains("Content-Type: \(type)"))
            let head = try Exchange(address, target, method: "HEAD")
            #expect(head.status == 200 && head.body.isEmpty, "\(target)")
        }
        #expect(try Exchange(address, "/etc/passwd").status == 404)
        #expect(try Exchange(address, "/", method: "DELETE").status == 501)
        #expect(try Exchange(address, "/\(String(repeating: "x", count: 40_000))").status == 400)
        #expect(try Exchange(address, "/healthz").status == 200, "still there")
        server.stop()
        #expect(throws: (any Error).self) { try PlainClient(address) }
    }

    @Test("it can be a Unix socket, and is removed at the end; an address in use is an error")
    func sockets() throws {
        let path = directory.path + "/admin"
        let server = try RunningServer(testSettings { $0.admin = .unix(path: path) })
        #expect(server.adminAddress == "unix:\(path)")
        #expect(try Exchange(server.adminAddress, "/healthz").body == "ok\n")
        #expect(throws: StartError.self) { try RunningServer(testSettings { $0.admin = .unix(path: path) }) }
        server.stop()
        #expect(access(path, F_OK) != 0)
    }

    @Test("a port of this machine answers to its own names only: no stranger's name may point to it")
    func hosts() throws {
        let loopback = HostCheck(.tcp(ListenAddress(host: "127.0.0.1", port: 1)))
        for host in [
            nil, "localhost", "LOCALHOST:80", "localhost.", "a.localhost:11212", "127.0.0.1", "127.0.0.1:11212",
            "[::1]:11212", "10.0.0.1",
        ] { #expect(loopback.allows(host), "\(host ?? "none")") }
        for host in [
            "example.com", "localhost.example.com:11212", "127.0.0.1.example.com", "", "[", "1.2.3", "notlocalhost",
        ] { #expect(!loopback.allows(host), "\(host)") }
        let named = HostCheck(.tcp(ListenAddress(host: "localhost", port: 1)))
        #expect(named.allows("localhost") && !named.allows("example.com"))
        for open in [nil, AdminAddress.unix(path: "/a"), .tcp(ListenAddress(host: "0.0.0.0", port: 1))] {
            #expect(HostCheck(open).allows("example.com"))
        }
        let server = try RunningServer(testSettings { $0.admin = localhost })
        let client = try PlainClient(server.adminAddress)
        client.send("GET /stats.json HTTP/1.1\r\nHost: rebound.example.com:11212\r\n\r\n")
        #expect(client.line().hasPrefix("HTTP/1.1 421"))
        server.stop()
    }

    @Test("/readyz says 503 while the server stops")
    func readiness() throws {
        let cache = try memoryCache()
        defer { cache.close() }
        let control = try ServerControl()
        let service = Service(
            cache: cache, settings: testSettings(), log: Log(level: .error) { _ in }, control: control)
        let pages = AdminPages(service: service)
        #expect(pages.answer(HTTPRequest(target: "/readyz")).status == 200)
        control.requestStop()
        #expect(pages.answer(HTTPRequest(target: "/readyz")).status == 503)
        #expect(pages.answer(HTTPRequest(target: "/healthz")).status == 200)
    }

    @Test("metrics count what clients did; stats.json is JSON with the history; keys are hidden with dumps")
    func contents() throws {
        for allowsDumps in [true, false] {
            let server = try RunningServer(
                testSettings {
                    $0.admin = localhost
                    $0.allowsDumps = allowsDumps
                })
            let client = try PlainClient(server.addresses[0])
            #expect(client.ask("set \u{e9}\"k 0 0 1\r\nx\r\n") == "STORED")
            for _ in 0..<3 {
                client.send("get \u{e9}\"k no\r\n")
                while client.line() != "END" {}
            }
            // A request is recorded when the kernel has its reply, which the client may read before.
            let recorded = "seconds_count{command=\"get\",outcome=\"memory_hit\"} 3\n"
            #expect(eventually { (try? Exchange(server.adminAddress, "/metrics").body)?.contains(recorded) == true })
            let metrics = try Exchange(server.adminAddress, "/metrics").body
            #expect(metrics.contains("\ncache_daemon_lookups_total{tier=\"memory\"} 3\n"))
            #expect(metrics.contains("\ncache_daemon_lookups_total{tier=\"none\"} 3\n"))
            #expect(metrics.contains("le=\"+Inf\"} 3\n"))
            let text = try Exchange(server.adminAddress, "/stats.json").body
            let object = try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any]
            #expect(object?["state"] as? String == "serving" && object?["disk"] is NSNull)
            let columns = object?["history_columns"] as? [String] ?? []
            let history = object?["history"] as? [[Any]] ?? []
            #expect(columns.first == "time_ms" && columns.count > 10)
            #expect(!history.isEmpty && history.allSatisfy { $0.count == columns.count })
            #expect((object?["hot"] != nil) == allowsDumps)
            server.stop()
        }
    }

    @Test("names end with their unit, have a help text, and none is there twice; the manual has them all")
    func table() throws {
        let names = Metric.table.map(\.name)
        #expect(Set(names).count == names.count)
        for metric in Metric.table {
            #expect(metric.unit.isEmpty || metric.name.hasSuffix("_\(metric.unit)"), "\(metric.name)")
            #expect(metric.help.hasSuffix(".") && !metric.help.contains("\n"))
            #expect(!metric.name.hasSuffix("_total") && !metric.name.hasSuffix("_info"))
        }
    }

    @Test("the embedded pages are those in web/")
    func embedded() throws {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        for (name, text) in [
            ("dashboard.html", DashboardHTML.text), ("dashboard.css", DashboardStyle.text),
            ("dashboard.js", DashboardScript.text),
        ] {
            let original = try String(contentsOf: root.appendingPathComponent("web/\(name)"), encoding: .utf8)
            #expect(original == text + "\n", "run Scripts/embed-dashboard")
        }
    }
}
