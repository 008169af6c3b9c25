// How many TLS handshakes begin in a second, and in which order.

import Primitives
import Testing

@testable import CacheDaemon

/// A gate that macros may call.
private final class Gate {
    private var gate = HandshakeGate()
    var waiting: Int { gate.waiting }
    func admits(_ now: Instant, _ rate: Int64) -> Bool { gate.admits(at: now, perSecond: rate) }
    func wait(_ connection: UInt32) { gate.wait(connection) }
    func next(_ now: Instant, _ rate: Int64, isOpen: (UInt32) -> Bool = { _ in true }) -> UInt32? {
        gate.next(at: now, perSecond: rate, isOpen: isOpen)
    }
    func millisecondsUntilNext(perSecond: Int64) -> Int64 { gate.millisecondsUntilNext(perSecond: perSecond) }
}

@Suite("TLS handshakes begin at a bounded rate")
struct HandshakeGateTests {
    private let start = Instant(milliseconds: 5000)

    @Test("a burst of a tenth of a second is let in at once, then one for each share of a second")
    func rate() {
        let gate = Gate()
        var admitted = 0
        for millisecond in Int64(0)..<2000 {
            let now = start.advanced(byMilliseconds: millisecond)
            while gate.admits(now, 100) { admitted += 1 }
            #expect(admitted == 10 + Int(millisecond / 10), "at \(millisecond) ms")
        }
    }

    @Test("however slow the rate, two begin at once", arguments: [1, 2, 19])
    func slowRates(rate: Int64) {
        let gate = Gate()
        #expect(gate.admits(start, rate))
        #expect(gate.admits(start, rate))
        #expect(!gate.admits(start, rate))
        let wait = gate.millisecondsUntilNext(perSecond: rate)
        #expect(!gate.admits(start.advanced(byMilliseconds: wait - 1), rate))
        #expect(gate.admits(start.advanced(byMilliseconds: wait), rate))
    }

    @Test("nobody overtakes the line, and who has left it costs nothing")
    func line() {
        let gate = Gate()
        while gate.admits(start, 10) {}
        for connection in UInt32(1)...5 { gate.wait(connection) }
        let later = start.advanced(byMilliseconds: 200)
        #expect(!gate.admits(later, 10), "the line comes first")
        #expect(gate.next(later, 10) { $0 != 1 && $0 != 2 } == 3)
        #expect(gate.next(later, 10) { _ in true } == 4)
        #expect(gate.next(later, 10) { _ in true } == nil, "no credit for the fifth")
        #expect(gate.waiting == 1)
        #expect(gate.next(later, 10) { _ in false } == nil)
        #expect(gate.waiting == 0)
        #expect(gate.admits(later.advanced(byMilliseconds: 100), 10))
    }

    @Test("a long line keeps its order")
    func longLine() {
        let gate = Gate()
        var now = start
        for connection in UInt32(0)..<5000 { gate.wait(connection) }
        var served: [UInt32] = []
        while gate.waiting > 0 {
            now = now.advanced(byMilliseconds: gate.millisecondsUntilNext(perSecond: 1000))
            while let connection = gate.next(now, 1000) {
                served.append(connection)
            }
        }
        #expect(served == Array(0..<5000))
        #expect(now >= start.advanced(byMilliseconds: 4800), "no faster than the rate")
    }

    @Test("a clock that stands or goes back gives no credit")
    func clock() {
        let gate = Gate()
        while gate.admits(start, 50) {}
        #expect(!gate.admits(start.advanced(byMilliseconds: -1000), 50))
        #expect(!gate.admits(start.advanced(byMilliseconds: -1000), 50))
    }
}
