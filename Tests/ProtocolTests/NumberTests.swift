// Numbers round the ends of their types, in every place that takes one.

import Testing

@testable import Protocol

@Suite struct NumberTests {
    /// Spellings round every boundary that a careless parser crosses.
    private let hostile: [String] = {
        let centres = ["2147483645", "2147483648", "4294967296", "9223372036854775808", "18446744073709551616"]
        var words: [String] = []
        for centre in centres {
            for offset in -3...3 { words.append(decimal(centre, plus: offset)) }
        }
        words += ["0", "00", "1", "99999999999999999999", String(repeating: "9", count: 200)]
        return words + words.map { "-" + $0 } + words.map { "+" + $0 } + [
            "-", "+", "--1", "1-", "1e5", "0x1", ".", "\t1",
        ]
    }()

    @Test func unsigned64() {
        for word in hostile {
            let expected = word.utf8.count <= 22 && isDigits(word) ? UInt64(word) : nil
            #expect(parse(word) { $0.unsigned64($1) } == expected, "\(word)")
        }
    }

    @Test func unsigned32() {
        for word in hostile {
            let expected = word.utf8.count <= 11 && isDigits(word) ? UInt32(word) : nil
            #expect(parse(word) { $0.unsigned32($1) } == expected, "\(word)")
        }
    }

    @Test func signed32() {
        for word in hostile {
            let digits = word.hasPrefix("-") ? String(word.dropFirst()) : word
            let expected = word.utf8.count <= 11 && isDigits(digits) ? Int32(word) : nil
            #expect(parse(word) { $0.signed32($1) } == expected, "\(word)")
        }
    }

    @Test func clientFlagsAreCutTo32Bits() {
        for word in hostile {
            let digits = word.hasPrefix("+") ? String(word.dropFirst()) : word
            let expected = isDigits(digits) ? UInt64(digits).map { UInt32($0 % (1 << 32)) } : nil
            #expect(parse(word) { $0.clientFlags($1) } == expected, "\(word)")
        }
    }

    @Test func storageExptimesAreCutTo32Bits() {
        for word in hostile {
            let digits = word.hasPrefix("+") || word.hasPrefix("-") ? String(word.dropFirst()) : word
            let expected = isDigits(digits) ? Int64(word).map { Int32(truncatingIfNeeded: $0) } : nil
            #expect(parse(word) { $0.storageExptime($1) } == expected, "\(word)")
        }
    }

    @Test func everyNumberOfEveryCommandSurvivesHostileWords() {
        let lines = [
            "set k # 0 1", "set k 0 # 1", "set k 0 0 #", "cas k 0 0 1 #", "incr k #", "decr k #", "touch k #",
            "gat # k", "flush_all #", "verbosity #", "cache_memlimit #", "delete k #", "ms k #", "ms k 1 T#", "mg k N#",
            "mg k R#", "mg k C#", "mg k E#", "ms k 1 F#", "ma k D#", "ma k J#",
        ]
        for line in lines {
            for word in hostile {
                let parts = line.split(separator: "#", omittingEmptySubsequences: false)
                #expect(parseOnce(Array((parts.joined(separator: word) + "\r\n").utf8)) != "incomplete")
            }
        }
    }

    @Test func expirations() {
        #expect(Expiration(exptime: 0) == .never)
        #expect(Expiration(exptime: -1) == .immediately)
        #expect(Expiration(exptime: .min) == .immediately)
        #expect(Expiration(exptime: 1) == .after(seconds: 1))
        #expect(Expiration(exptime: 2_592_000) == .after(seconds: 2_592_000))
        #expect(Expiration(exptime: 2_592_001) == .at(unixSeconds: 2_592_001))
        #expect(Expiration(exptime: .max) == .at(unixSeconds: .max))
    }

    private func parse<Number>(_ word: String, _ body: (Input, ByteRange) -> Number?) -> Number? {
        // Digits on both sides: a parser that leaves its word finds a wrong number.
        let bytes = Array("9\(word)9".utf8)
        return bytes.withUnsafeBytes { body(Input($0), ByteRange(start: 1, count: $0.count - 2)) }
    }
}

private func isDigits(_ word: String) -> Bool {
    !word.isEmpty && word.utf8.allSatisfy { $0 >= UInt8(ascii: "0") && $0 <= UInt8(ascii: "9") }
}

/// The decimal number `word` plus a small number, for numbers beyond 64 bits.
private func decimal(_ word: String, plus offset: Int) -> String {
    var digits = word.utf8.reversed().map { Int($0) - 48 }
    digits[0] += offset
    for index in 0..<(digits.count - 1) {
        if digits[index] < 0 {
            digits[index] += 10
            digits[index + 1] -= 1
        } else if digits[index] > 9 {
            digits[index] -= 10
            digits[index + 1] += 1
        }
    }
    return digits.reversed().map(String.init).joined()
}
