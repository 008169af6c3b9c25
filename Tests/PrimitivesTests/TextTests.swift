// Numbers and JSON as text.

import Foundation
import Primitives
import Testing

@Suite("number texts")
struct NumberTextTests {
    @Test(
        "fixed decimals",
        arguments: [
            (0, 2, "0.00"), (1.005, 1, "1.0"), (1.25, 1, "1.3"), (-1.25, 1, "-1.3"), (0.999, 2, "1.00"),
            (12.3456, 3, "12.346"),
            (5, 0, "5"), (-0.001, 2, "0.00"), (.infinity, 2, "-"), (.nan, 0, "-"), (0.05, 2, "0.05"),
            (1e15, 1, "1000000000000000.0"),
        ] as [(Double, Int, String)])
    func decimals(value: Double, places: Int, text: String) { #expect(fixed(value, places: places) == text) }

    @Test("numbers too large for decimals keep their shortest text")
    func large() { #expect(Double(fixed(1e300, places: 3)) == 1e300) }

    @Test(
        "digit groups",
        arguments: [
            (0, "0"), (999, "999"), (1000, "1,000"), (-1234567, "-1,234,567"), (Int.min, "-9,223,372,036,854,775,808"),
        ])
    func groups(value: Int, text: String) { #expect(grouped(value) == text) }

    @Test("columns")
    func columns() {
        #expect("ab".padded(to: 4) == "ab  " && "ab".aligned(to: 4) == "  ab" && "abcde".padded(to: 4) == "abcde")
    }
}

@Suite("JSON")
struct JSONWriterTests {
    @Test("nesting, commas, escapes")
    func whole() throws {
        var writer = JSONWriter()
        writer.beginObject()
        writer.key("a\"\\\n\r\t\u{1}\u{1F}é😀")
        writer.string("\r\n\"")
        writer.key("list")
        writer.beginArray()
        writer.integer(-1)
        writer.number(0.1)
        writer.number(1e-7)
        writer.number(.nan)
        writer.number(2, places: 2)
        writer.boolean(true)
        writer.null()
        writer.beginArray()
        writer.endArray()
        writer.beginObject()
        writer.endObject()
        writer.integer(UInt64.max)
        writer.endArray()
        writer.key("last")
        writer.boolean(false)
        writer.endObject()
        let object = try #require(try JSONSerialization.jsonObject(with: Data(writer.text.utf8)) as? [String: Any])
        #expect(object["a\"\\\n\r\t\u{1}\u{1F}é😀"] as? String == "\r\n\"")
        let list = try #require(object["list"] as? [Any])
        #expect(list.count == 10 && list[0] as? Int == -1 && list[1] as? Double == 0.1 && list[2] as? Double == 1e-7)
        #expect(list[3] is NSNull && list[4] as? Double == 2 && list[5] as? Bool == true)
        #expect(writer.text.hasSuffix(",[],{},18446744073709551615],\"last\":false}"))
    }

    @Test(
        "what is a number",
        arguments: [
            ("0", true), ("-0", true), ("10", true), ("0.50", true), ("-12.5", true), ("", false), ("-", false),
            ("00", false),
            ("01", false), ("1.", false), (".5", false), ("+1", false), ("1e5", false), ("0x1", false), ("1 ", false),
            ("nan", false),
        ])
    func numbers(text: String, isNumber: Bool) { #expect(JSONWriter.isNumber(text) == isNumber) }
}
