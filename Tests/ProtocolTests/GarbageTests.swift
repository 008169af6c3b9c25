// Random and mutated input: never a trap, always progress, and the same answers however the bytes arrive.
//
// The seed is printed, so that a failure can be replayed: set PROTOCOL_SEED. The loops are bounded by count.

import Foundation
import TestSupport
import Testing

@testable import Protocol

@Suite struct GarbageTests {
    private let seed =
        UInt64(ProcessInfo.processInfo.environment["PROTOCOL_SEED"] ?? "") ?? UInt64.random(in: 0...UInt64.max)

    @Test func randomBytesNeverTrapAndAlwaysProgress() {
        var random = SeededRandom(seed: seed)
        for _ in 0..<8000 {
            let bytes = (0..<Int(random.next() % 200)).map { _ in alphabet[Int(random.next() % UInt64(alphabet.count))]
            }
            drive(bytes, &random)
        }
    }

    @Test func mutatedRequestsNeverTrapAndAlwaysProgress() {
        var random = SeededRandom(seed: seed)
        let rows = classicRows + metaRows
        for _ in 0..<8000 {
            var bytes: [UInt8] = []
            for _ in 0..<3 { bytes += Array((rows[Int(random.next() % UInt64(rows.count))].line + "\r\n").utf8) }
            for _ in 0..<Int(random.next() % 4) {
                let position = Int(random.next() % UInt64(bytes.count))
                switch random.next() % 3 {
                case 0: bytes[position] = UInt8(truncatingIfNeeded: random.next())
                case 1: bytes.remove(at: position)
                default: bytes.insert(alphabet[Int(random.next() % UInt64(alphabet.count))], at: position)
                }
            }
            drive(bytes, &random)
        }
    }

    /// Feeds `bytes` at once and in random pieces; both must give the same answers.
    private func drive(_ bytes: [UInt8], _ random: inout SeededRandom) {
        let whole = answers(bytes) { $0.count }
        let pieces = answers(bytes) { rest in 1 + Int(random.next() % UInt64(rest.count)) }
        #expect(whole == pieces, "PROTOCOL_SEED=\(seed) input \(bytes)")
    }

    /// The descriptions of all requests in `bytes`, when `pieceBytes` decides how many bytes arrive next.
    private func answers(_ bytes: [UInt8], pieceBytes: (ArraySlice<UInt8>) -> Int) -> [String] {
        var parser = RequestParser(limits: ProtocolLimits())
        var descriptions: [String] = []
        var start = 0
        var end = 0
        while true {
            let (result, description) = bytes[start..<end].withUnsafeBytes {
                let result = parser.parse($0)
                return (result, describe(result, $0))
            }
            switch result {
            case .incomplete:
                if end == bytes.count { return descriptions }
                end += pieceBytes(bytes[end...])
            case .fatal:
                return descriptions + [description]
            case .request, .refused:
                descriptions.append(description)
                let consumed = consumedBytes(result)
                #expect(consumed > 0, "PROTOCOL_SEED=\(seed) input \(bytes)")
                // A data block that is not there ends the stream; a session would wait for it.
                guard consumed > 0, consumed <= bytes.count - start else { return descriptions }
                start += consumed
                end = max(end, start)
            }
        }
    }
}

/// Bytes that matter to the parser, and some that do not.
private let alphabet: [UInt8] =
    Array("  \r\n\r\n\t\0getsadcrmniv0123456789-+=/\\TNRCEDJFMOqkb".utf8) + [0x80, 0xff]
