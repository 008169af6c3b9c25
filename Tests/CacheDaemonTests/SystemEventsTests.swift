// `watch sysevents`: what becomes of the disk tier, and of lists of keys.

import Foundation
import Primitives
import Testing

@testable import CacheDaemon
@testable import CacheEngine

struct SystemEventsTests {
    /// A line without its time and number.
    private func event(_ client: PlainClient) -> String {
        client.line().split(separator: " ").dropFirst(2).joined(separator: " ")
    }

    @Test func diskStatesAreTold() throws {
        let directory = try TemporaryDirectory()
        let server = try RunningServer(
            testSettings {
                $0.disk.isEnabled = true
                $0.disk.directory = directory.path + "/cache"
                $0.disk.journalBytes = 4 << 20
            })
        defer { server.stop() }
        let watcher = try PlainClient(server.addresses[0])
        let client = try PlainClient(server.addresses[0])
        #expect(watcher.ask("watch sysevents\r\n") == "OK")
        let disk = try #require(server.service?.cache.disk)
        disk.injected.withLock {
            $0.commitFault = DiskError(kind: .full, operation: "test", code: 0, message: "no room, says the test")
        }
        #expect(client.ask("set k 0 0 1\r\nv\r\n") == "STORED")
        let full = event(watcher)
        #expect(
            full.hasPrefix("type=disk state=full reason=") && full.hasSuffix("no%20room%2C%20says%20the%20test"),
            "\(full)")
        #expect(client.statistics()["disk_state"] == "full")
        disk.injected.withLock { $0.commitFault = nil }
        #expect(client.ask("set k 0 0 1\r\nw\r\n") == "STORED")
        #expect(event(watcher).hasPrefix("type=disk state=ok reason="))
        #expect(server.waitForLog("disk tier state=full"))
    }

    @Test func listsOfKeysAreTold() throws {
        let server = try RunningServer(testSettings())
        defer { server.stop() }
        let watcher = try PlainClient(server.addresses[0])
        let client = try PlainClient(server.addresses[0])
        #expect(watcher.ask("watch sysevents\r\n") == "OK")
        client.send("lru_crawler metadump all\r\n")
        #expect(event(watcher) == "type=dump status=start")
        #expect(event(watcher) == "type=dump status=end")
    }
}
