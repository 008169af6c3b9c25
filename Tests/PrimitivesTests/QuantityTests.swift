// Sizes and durations: every form that is taken, every form that is refused, and the way back to text.

import Primitives
import Testing

@Suite("sizes")
struct ByteSizeTests {
    @Test(
        "accepted forms",
        arguments: [
            ("0", 0), ("4096", 4096), ("4096B", 4096), ("1b", 1), ("20KiB", 20_480), ("20 KiB", 20_480),
            ("20k", 20_480),
            ("20K", 20_480), ("64MiB", 67_108_864), ("64m", 67_108_864), ("1GiB", 1_073_741_824),
            ("1gib", 1_073_741_824),
            ("2T", 2_199_023_255_552), ("007k", 7168), ("9223372036854775807", Int.max),
            ("8191 PiB".replacing("PiB", with: "TiB"), 8191 << 40),
        ])
    func accepted(text: String, bytes: Int) throws {
        #expect(try ByteSize(parsing: text).bytes == bytes)
    }

    @Test(
        "refused forms",
        arguments: [
            "", " ", "k", "MiB", "-1", "+1", "1.5GiB", "1e3", "0x10", "1 ", " 1", "1  KiB", "1KB", "1kb", "1Ki", "1PiB",
            "1KiB ", "1_000", "1,000", "９",
        ])
    func refused(text: String) {
        #expect(throws: QuantityError.self) { try ByteSize(parsing: text) }
    }

    @Test(
        "overflow is refused, one below it is not",
        arguments: ["9223372036854775808", "8388608TiB", "9007199254740992k", "99999999999999999999"])
    func overflow(text: String) {
        #expect(throws: QuantityError.tooLarge(text)) { try ByteSize(parsing: text) }
    }

    @Test("the largest multiple of each unit still fits")
    func boundary() throws {
        #expect(try ByteSize(parsing: "8388607TiB").bytes == 8_388_607 << 40)
        #expect(try ByteSize(parsing: "9007199254740991k").bytes == 9_007_199_254_740_991 << 10)
    }

    @Test(
        "exact text reads back to the same amount",
        arguments: [0, 1, 1023, 1024, 1536, 1 << 20, 3 << 30, 5 << 40, Int.max])
    func exactText(bytes: Int) throws {
        let size = ByteSize(bytes: bytes)
        #expect(try ByteSize(parsing: size.description) == size)
    }

    @Test(
        "texts",
        arguments: [
            (0, "0B", "0 B"), (1536, "1536B", "1.50 KiB"), (64 << 20, "64MiB", "64.0 MiB"),
            (1 << 40, "1TiB", "1.00 TiB"),
            (1023, "1023B", "1023 B"), ((1 << 30) - 1, "1073741823B", "1023 MiB"),
            (Int.max, "9223372036854775807B", "8388607 TiB"), (1029, "1029B", "1.00 KiB"), (1064, "1064B", "1.03 KiB"),
        ])
    func texts(bytes: Int, exact: String, approximate: String) {
        #expect(ByteSize(bytes: bytes).description == exact)
        #expect(ByteSize(bytes: bytes).approximate == approximate)
    }

    @Test("messages name the text and what would be right")
    func messages() {
        #expect(throws: QuantityError.unknownUnit("1KB", unit: "KB", units: "B, KiB, MiB, GiB or TiB")) {
            try ByteSize(parsing: "1KB")
        }
        let message = QuantityError.unknownUnit("1KB", unit: "KB", units: "B or KiB").description
        #expect(message == "'1KB' has the unknown unit 'KB'; use B or KiB")
    }
}

@Suite("durations")
struct TimeSpanTests {
    @Test(
        "accepted forms",
        arguments: [
            ("0s", 0), ("250ms", 250), ("30s", 30_000), ("30 s", 30_000), ("5m", 300_000), ("12h", 43_200_000),
            ("7d", 604_800_000), ("9223372036854775807ms", Int64.max), ("106751991167d", 106_751_991_167 * 86_400_000),
        ] as [(String, Int64)])
    func accepted(text: String, milliseconds: Int64) throws {
        #expect(try TimeSpan(parsing: text).milliseconds == milliseconds)
    }

    @Test("refused forms", arguments: ["", "s", "-1s", "1.5s", "1S", "1M", "1min", "1w", "1us", "1h30m", "1s ", "s1"])
    func refused(text: String) {
        #expect(throws: QuantityError.self) { try TimeSpan(parsing: text) }
    }

    @Test("a bare number names the units that exist", arguments: ["0", "30"])
    func bareNumber(text: String) {
        #expect(throws: QuantityError.missingUnit(text, units: "ms, s, m, h or d")) { try TimeSpan(parsing: text) }
    }

    @Test("overflow is refused", arguments: ["9223372036854775808ms", "106751991168d", "9223372036854776s"])
    func overflow(text: String) {
        #expect(throws: QuantityError.tooLarge(text)) { try TimeSpan(parsing: text) }
    }

    @Test(
        "texts",
        arguments: [
            (0, "0s", "0s"), (1, "1ms", "1ms"), (1020, "1020ms", "1s 20ms"), (90_000, "90s", "1m 30s"),
            (302_000, "302s", "5m 2s"), (604_800_000, "7d", "7d"), (273_600_000, "76h", "3d 4h"),
            (3_661_001, "3661001ms", "1h 1m"),
        ] as [(Int64, String, String)])
    func texts(milliseconds: Int64, exact: String, approximate: String) throws {
        let span = TimeSpan(milliseconds: milliseconds)
        #expect(span.description == exact)
        #expect(span.approximate == approximate)
        #expect(try TimeSpan(parsing: exact) == span)
    }
}
