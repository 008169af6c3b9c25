// Log lines: one event one line, whatever clients send.

import Primitives
import Testing

@testable import CacheDaemon

@Suite("log")
struct LogTests {
    @Test("lines carry level, event and fields; under systemd the priority")
    func form() {
        let lines = LogLines()
        Log(level: .notice) { lines.add($0) }.write(.notice, "listening", ["address": "[::1]:1", "note": "two words"])
        Log(level: .notice, hasPriorities: true) { lines.add($0) }.write(.error, "not started", ["reason": ""])
        #expect(
            lines.all == [
                "cache-daemon: notice: listening address=[::1]:1 note=\"two words\"\n",
                "<3>not started reason=\"\"\n",
            ])
    }

    @Test("no value can forge a line or leave its quotes")
    func injection() {
        let lines = LogLines()
        let log = Log(level: .notice) { lines.add($0) }
        log.write(.error, "x", ["key": "a\ncache-daemon: error: forged", "other": "\" reason=\"no\u{7f}é"])
        #expect(
            lines.all == [
                "cache-daemon: error: x key=\"a\\x0acache-daemon: error: forged\""
                    + " other=\"\\x22 reason=\\x22no\\x7f\\xc3\\xa9\"\n"
            ])
        let bytes: [UInt8] = [0, 13, 10, 34, 92, 65, 255]
        #expect(bytes.withUnsafeBytes { Log.escaped($0) } == "\\x00\\x0d\\x0a\\x22\\x5cA\\xff")
        #expect([UInt8](repeating: 65, count: 100).withUnsafeBytes { Log.escaped($0, bytesMax: 3) } == "AAA...")
    }

    @Test("levels: verbosity adds, and falls back to the settings, never below them")
    func levels() {
        let log = Log(level: .warning) { _ in }
        #expect(log.isOn(.warning) && !log.isOn(.notice))
        log.setVerbosity(1)
        #expect(log.isOn(.info) && !log.isOn(.debug))
        log.setVerbosity(99)
        #expect(log.isOn(.debug))
        log.setVerbosity(0)
        #expect(log.isOn(.warning) && !log.isOn(.notice))
        log.setLevel(.debug)
        log.setVerbosity(1)
        #expect(log.isOn(.debug))
    }

    @Test("one kind of event is limited in rate; the next line of its kind says how many were left out")
    func rate() {
        let lines = LogLines()
        let clock = ManualClock()
        let log = Log(level: .notice, clock: clock) { lines.add($0) }
        for _ in 0..<100 { log.write(.warning, "flood") }
        log.write(.warning, "other")
        #expect(lines.all.count == Log.linesPerWindowMax + 1)
        clock.advance(Log.windowMilliseconds)
        log.write(.warning, "flood")
        #expect(lines.all.last == "cache-daemon: warning: flood suppressed=\(100 - Log.linesPerWindowMax)\n")
    }

    @Test("at debug every request is logged, escaped and cut")
    func requests() throws {
        let client = try Conversation(owning: memoryCache())
        client.say("get a\u{1}b\r\nset k 0 0 1\r\nx\r\n")
        let lines = client.log.all.filter { $0.contains("request") }
        #expect(lines.count == 2)
        #expect(lines.first?.contains("line=\"get a\\x01b\\x0d\\x0a\"") == true)
    }
}
