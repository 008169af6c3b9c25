// One run of libinih over bytes in memory. The only file that calls libinih.
//
// libinih asks `nextLine` for one line after another and hands each `key = value` to `take`. Both run inside `run`, on
// its thread. The handler of Debian's build gets no line number; it is the number of lines given out so far.

import CInih
import Glibc

/// A parse in progress; used once, by one thread.
final class InihParse {
    /// A line that is not of the format.
    struct Problem {
        let line: Int
        let reason: String
    }

    private(set) var entries: [ConfigEntry] = []
    private var rest: ArraySlice<UInt8>
    private var line = 0
    /// Set by our own checks; ends the parse.
    private var problem: Problem?

    /// libinih cuts longer section names without a word.
    private static let sectionBytesMax = 49
    /// Set once: the library's limit is a global variable.
    private static let setLimit: Void = inih_set_line_bytes_max(Int32(ConfigEntries.lineBytesMax) + 8)

    init(_ bytes: [UInt8]) { rest = bytes[...] }

    /// Runs to the end, or to the first problem, which it returns.
    func run() -> Problem? {
        Self.setLimit
        // SAFETY: `context` points to self, which `withExtendedLifetime` keeps alive for the length of the call;
        // libinih keeps neither pointer, and calls back only on this thread.
        let context = unsafe Unmanaged.passUnretained(self).toOpaque()
        let result = withExtendedLifetime(self) {
            unsafe ini_parse_stream(
                { buffer, capacity, context in
                    guard let buffer = unsafe buffer, let context = unsafe context else { return nil }
                    let parse = unsafe Unmanaged<InihParse>.fromOpaque(context).takeUnretainedValue()
                    let room = unsafe UnsafeMutableRawBufferPointer(start: buffer, count: Int(capacity))
                    return unsafe parse.nextLine(into: room) ? buffer : nil
                }, context,
                { context, section, key, value in
                    guard let context = unsafe context else { return 0 }
                    let parse = unsafe Unmanaged<InihParse>.fromOpaque(context).takeUnretainedValue()
                    unsafe parse.take(section, key, value)
                    return 1
                }, context)
        }
        // A positive result is the first line that libinih itself could not read: at or before our own stop.
        if result > 0, Int(result) < problem?.line ?? .max {
            return Problem(line: Int(result), reason: "neither a [section] nor key = value")
        }
        if result < 0 { return Problem(line: line, reason: "out of memory") }
        return problem
    }

    /// Copies the next line into `room`, terminated; false at the end or at a line that is refused.
    private func nextLine(into room: UnsafeMutableRawBufferPointer) -> Bool {
        guard problem == nil, !rest.isEmpty else { return false }
        line += 1
        let end = rest.firstIndex(of: UInt8(ascii: "\n")) ?? rest.endIndex
        // Leading spaces would make libinih take the line as the continuation of the value above it.
        var text = rest[rest.startIndex..<end].drop { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") }
        rest = rest[min(end + 1, rest.endIndex)...]
        if text.last == UInt8(ascii: "\r") { text.removeLast() }
        if let reason = Self.refusal(of: text) {
            problem = Problem(line: line, reason: reason)
            return false
        }
        // Line end and terminator need two bytes more.
        guard text.count <= ConfigEntries.lineBytesMax, text.count + 2 <= room.count else {
            problem = Problem(line: line, reason: "longer than \(ConfigEntries.lineBytesMax) bytes")
            return false
        }
        unsafe room.copyBytes(from: text)
        unsafe room[text.count] = UInt8(ascii: "\n")
        unsafe room[text.count + 1] = 0
        return true
    }

    /// Why a line is refused before libinih sees it; nil if it is not.
    private static func refusal(of text: ArraySlice<UInt8>) -> String? {
        if text.contains(where: { $0 < 32 && $0 != UInt8(ascii: "\t") || $0 == 127 }) { return "control character" }
        if String(validating: text, as: UTF8.self) == nil { return "not UTF-8" }
        guard text.first == UInt8(ascii: "[") else { return nil }
        guard let close = text.firstIndex(of: UInt8(ascii: "]")) else { return "section without ]" }
        if close - text.startIndex - 1 > sectionBytesMax { return "section name longer than \(sectionBytesMax) bytes" }
        let after = text[(close + 1)...].drop { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") }
        return after.isEmpty || after.first == UInt8(ascii: ";") || after.first == UInt8(ascii: "#")
            ? nil : "text after the section's ]"
    }

    private func take(
        _ section: UnsafePointer<CChar>?, _ key: UnsafePointer<CChar>?, _ value: UnsafePointer<CChar>?
    ) {
        guard let section = unsafe section, let key = unsafe key, let value = unsafe value else { return }
        // SAFETY: libinih's strings are terminated and live until the handler returns; they are copied here.
        let entry = unsafe ConfigEntry(
            section: String(cString: section), key: String(cString: key), value: String(cString: value), line: line)
        if entry.key.isEmpty {
            problem = problem ?? Problem(line: line, reason: "no key before =")
        } else {
            entries.append(entry)
        }
    }
}
