// Configuration files: what is read, what is refused, and on which line.

import Foundation
import Testing

@testable import ConfigFile

struct ConfigEntriesTests {
    private func parse(_ text: String) throws -> [ConfigEntry] {
        try ConfigEntries.parse(Array(text.utf8), path: "test.conf")
    }

    private func entry(_ section: String, _ key: String, _ value: String, _ line: Int) -> ConfigEntry {
        ConfigEntry(section: section, key: key, value: value, line: line)
    }

    @Test func sectionsKeysValuesAndLines() throws {
        let text = """
            # comment
            threads = 4
            listen: 127.0.0.1:11211

            [memory] ; the first tier
            limit=64MiB
              indented   =   spaces inside   ; note
            empty =
            [disk]
            \tlimit = 1GiB
            semicolon = a;b
            hash = a # b
            """
        #expect(
            try parse(text) == [
                entry("", "threads", "4", 2), entry("", "listen", "127.0.0.1:11211", 3),
                entry("memory", "limit", "64MiB", 6), entry("memory", "indented", "spaces inside", 7),
                entry("memory", "empty", "", 8), entry("disk", "limit", "1GiB", 10),
                entry("disk", "semicolon", "a;b", 11), entry("disk", "hash", "a # b", 12),
            ])
    }

    @Test func lineEndsAndMarks() throws {
        #expect(try parse("") == [])
        #expect(try parse("\n\n") == [])
        #expect(try parse("a=1") == [entry("", "a", "1", 1)])
        #expect(try parse("a=1\r\n[s]\r\nb=2\r\n") == [entry("", "a", "1", 1), entry("s", "b", "2", 3)])
        #expect(try parse("\u{FEFF}a=1\n") == [entry("", "a", "1", 1)])
        #expect(try parse("k=ä€𝄞\n") == [entry("", "k", "ä€𝄞", 1)])
        #expect(try parse("a = x = y\n") == [entry("", "a", "x = y", 1)])
    }

    /// Both come back; which one is wrong is for the caller to say.
    @Test func duplicatesAreTwoEntries() throws {
        #expect(try parse("a=1\na=2\n") == [entry("", "a", "1", 1), entry("", "a", "2", 2)])
    }

    static let refused: [(text: String, line: Int, reason: String)] = [
        ("a=1\nnonsense\n", 2, "neither a [section] nor key = value"),
        ("[open\n", 1, "section without ]"),
        ("a=1\n[s] junk\n", 2, "text after the section's ]"),
        ("= value\n", 1, "no key before ="),
        ("a=1\n\nb=\u{1}\n", 3, "control character"),
        ("a=1\nb=x\0y\n", 2, "control character"),
        ("[\(String(repeating: "s", count: 50))]\n", 1, "section name longer than 49 bytes"),
        ("a=\(String(repeating: "x", count: 7999))\n", 1, "longer than 8000 bytes"),
        ("first\nb=\u{1}\n", 1, "neither a [section] nor key = value"),
        ("a=\u{1}\nsecond\n", 1, "control character"),
        ("=1\nsecond\n", 1, "no key before ="),
    ]

    @Test(arguments: refused.indices)
    func wrongLinesAreNamed(_ index: Int) {
        let (text, line, reason) = Self.refused[index]
        #expect(throws: ConfigFileError.syntax(path: "test.conf", line: line, reason: reason)) { try parse(text) }
    }

    @Test func invalidUTF8IsRefused() {
        #expect(throws: ConfigFileError.syntax(path: "t", line: 2, reason: "not UTF-8")) {
            try ConfigEntries.parse(Array("a=1\nb=".utf8) + [0xC3, 0x28], path: "t")
        }
    }

    @Test(arguments: [150, 196, 197, 198, 199, 200, 201, 255, 256, 1023, 4096, 7998])
    func longValuesAreWhole(_ count: Int) throws {
        let value = String(repeating: "v", count: count)
        #expect(try parse("# first\na=\(value)\nb=2\n") == [entry("", "a", value, 2), entry("", "b", "2", 3)])
    }

    @Test func longestSectionIsWhole() throws {
        let name = String(repeating: "s", count: 49)
        #expect(try parse("[\(name)]\na=1\n") == [entry(name, "a", "1", 2)])
    }

    /// Seeded noise never traps, and every refusal names a line of the text.
    @Test func noiseIsHarmless() {
        var state: UInt64 = 20_240_607
        for _ in 0..<2000 {
            let bytes = (0..<120).map { _ in
                state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
                return Array("[]=:;#ab \t\r\n\n\n".utf8)[Int(state >> 33) % 14]
            }
            do {
                for entry in try ConfigEntries.parse(bytes, path: "noise") {
                    #expect(!entry.key.isEmpty && entry.line >= 1)
                }
            } catch {
                guard case .syntax(_, let line, _) = error else {
                    Issue.record("\(error)")
                    continue
                }
                #expect(line >= 1 && line <= bytes.count(where: { $0 == 10 }) + 1)
            }
        }
    }

    @Test func filesAreReadAndProblemsNamed() throws {
        let path = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID().uuidString).conf").path
        defer { try? FileManager.default.removeItem(atPath: path) }
        #expect(throws: ConfigFileError.io(operation: "open", path: path, code: ENOENT)) {
            try ConfigEntries.read(path: path)
        }
        #expect(
            ConfigFileError.io(operation: "open", path: "x", code: ENOENT).description
                == "x: cannot open: No such file or directory")
        #expect(throws: ConfigFileError.io(operation: "read", path: "/", code: EISDIR)) {
            try ConfigEntries.read(path: "/")
        }
        try Data("[disk]\nlimit = 1GiB\nbad\n".utf8).write(to: URL(fileURLWithPath: path))
        let wrong = ConfigFileError.syntax(path: path, line: 3, reason: "neither a [section] nor key = value")
        #expect(throws: wrong) { try ConfigEntries.read(path: path) }
        #expect(wrong.description == "\(path):3: neither a [section] nor key = value")
        try Data(repeating: 10, count: ConfigEntries.fileBytesMax + 1).write(to: URL(fileURLWithPath: path))
        #expect(throws: ConfigFileError.tooLarge(path: path)) { try ConfigEntries.read(path: path) }
    }

    @Test func pipesAreRefusedAtOnce() throws {
        let path = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID().uuidString).fifo").path
        defer { try? FileManager.default.removeItem(atPath: path) }
        try #require(mkfifo(path, 0o600) == 0)
        #expect(throws: ConfigFileError.notAFile(path: path)) { try ConfigEntries.read(path: path) }
        #expect(try ConfigEntries.read(path: "/dev/null").isEmpty)
    }
}
