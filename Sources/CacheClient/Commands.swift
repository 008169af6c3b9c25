// The commands of memcached's text protocol that tools and tests need, each as one blocking call. Requests are checked
// before they are sent; replies are checked word by word, since a client that guesses hides a broken server.
// Source: doc/protocol.txt of memcached.

import Primitives

/// A value as a server gave it.
public struct Value: Equatable, Sendable {
    /// The data block.
    public var bytes: [UInt8]
    /// The client's 32 bits.
    public var flags: UInt32
    /// The version for `cas`; nil unless asked for by `gets`.
    public var cas: UInt64?

    /// Makes a value.
    public init(_ bytes: [UInt8], flags: UInt32 = 0, cas: UInt64? = nil) {
        self.bytes = bytes
        self.flags = flags
        self.cas = cas
    }
}

extension Connection {
    /// The value under `key`, or nil on a miss.
    public func get(_ key: String) throws(ClientError) -> Value? { try retrieve("get", [key])[key] }

    /// The values of those of `keys` that hit.
    public func get(_ keys: [String]) throws(ClientError) -> [String: Value] { try retrieve("get", keys) }

    /// The value under `key` with its version, or nil on a miss.
    public func gets(_ key: String) throws(ClientError) -> Value? { try retrieve("gets", [key])[key] }

    /// The values, with versions, of those of `keys` that hit.
    public func gets(_ keys: [String]) throws(ClientError) -> [String: Value] { try retrieve("gets", keys) }

    /// Stores `bytes` under `key`.
    ///
    /// `expiry` is in seconds: 0 never, negative at once, above 30 days a Unix time.
    public func set(_ key: String, _ bytes: [UInt8], flags: UInt32 = 0, expiry: Int64 = 0) throws(ClientError) {
        try enqueueSet(key, bytes, flags: flags, expiry: expiry)
        try expect(["STORED"], for: "set")
    }

    /// Removes `key`; false if it was not there.
    @discardableResult
    public func delete(_ key: String) throws(ClientError) -> Bool {
        try check(key, for: "delete")
        enqueue("delete \(key)\r\n")
        return try expect(["DELETED", "NOT_FOUND"], for: "delete") == "DELETED"
    }

    /// Forgets everything, now or after `delay` seconds.
    public func flushAll(delay: Int = 0) throws(ClientError) {
        enqueue(delay == 0 ? "flush_all\r\n" : "flush_all \(delay)\r\n")
        try expect(["OK"], for: "flush_all")
    }

    /// What the server says after `VERSION`.
    public func version() throws(ClientError) -> String {
        enqueue("version\r\n")
        let line = try readLine(for: "version")
        try refuse(line, for: "version")
        guard line.hasPrefix("VERSION ") else { throw fail("version", .malformedReply(excerpt(line))) }
        return line.dropFirst(8).printable
    }

    /// The server's statistics, or those of one of its groups such as `settings`.
    public func stats(_ group: String? = nil) throws(ClientError) -> Statistics {
        if let group { try check(group, for: "stats") }
        enqueue(group.map { "stats \($0)\r\n" } ?? "stats\r\n")
        return try readStatistics()
    }

    /// What the server knows about a key, from servers that have `stats explain`; empty if the key holds nothing.
    public func explain(_ key: String) throws(ClientError) -> Statistics {
        try check(key, for: "stats")
        enqueue("stats explain \(key)\r\n")
        return try readStatistics()
    }

    /// Most lines of one group; `stats conns` has twelve for each connection.
    private static let statisticsMax = 1_000_000

    /// Reads to the end; the whole may last twelve times as long as one step without progress.
    private func readStatistics() throws(ClientError) -> Statistics {
        var lines: [(name: String, value: String)] = []
        let end = SystemClock().now().advanced(byMilliseconds: Int64(clamping: timeouts.progressMilliseconds) * 12)
        while true {
            let line = try readLine(for: "stats")
            // A server that goes on for ever must not take all memory, nor hold up who monitors it.
            guard lines.count < Self.statisticsMax else {
                throw fail("stats", .malformedReply("statistics without end"))
            }
            guard SystemClock().now() < end else {
                throw fail("stats", .timedOut(milliseconds: timeouts.progressMilliseconds * 12))
            }
            if line == "END" { return Statistics(lines) }
            try refuse(line, for: "stats")
            let words = line.split(separator: " ", maxSplits: 2, omittingEmptySubsequences: false)
            guard words.count >= 2, words[0] == "STAT" else { throw fail("stats", .malformedReply(excerpt(line))) }
            lines.append((words[1].printable, words.count > 2 ? words[2].printable : ""))
        }
    }

    func enqueueSet(_ key: String, _ bytes: [UInt8], flags: UInt32, expiry: Int64) throws(ClientError) {
        try check(key, for: "set")
        enqueue("set \(key) \(flags) \(expiry) \(bytes.count)\r\n")
        enqueue(bytes)
        enqueue("\r\n")
    }

    func retrieve(_ command: String, _ keys: [String]) throws(ClientError) -> [String: Value] {
        if keys.isEmpty { return [:] }
        for key in keys { try check(key, for: command) }
        enqueue("\(command) \(keys.joined(separator: " "))\r\n")
        return try readValues(command, Set(keys))
    }

    func readValues(_ command: String, _ wanted: Set<String>) throws(ClientError) -> [String: Value] {
        var found: [String: Value] = [:]
        while true {
            let line = try readLine(for: command)
            if line == "END" { return found }
            try refuse(line, for: command)
            let words = line.split(separator: " ", omittingEmptySubsequences: false)
            let hasVersion = command == "gets"
            guard words.count == (hasVersion ? 5 : 4), words[0] == "VALUE", wanted.contains(String(words[1])),
                let flags = UInt32(words[2]), let count = Int(words[3]), count >= 0, count <= Int32.max
            else { throw fail(command, .malformedReply(excerpt(line))) }
            let cas = hasVersion ? UInt64(words[4]) : nil
            if hasVersion, cas == nil { throw fail(command, .malformedReply(excerpt(line))) }
            let bytes = try readBytes(count, for: command)
            let end = try readBytes(2, for: command)
            if end != [13, 10] { throw fail(command, .malformedReply("data block of \(words[1]) without line end")) }
            found[String(words[1])] = Value(bytes, flags: flags, cas: cas)
        }
    }

    /// Reads one line and returns it if it is one of `lines`.
    @discardableResult
    func expect(_ lines: [String], for operation: String) throws(ClientError) -> String {
        let line = try readLine(for: operation)
        if lines.contains(line) { return line }
        try refuse(line, for: operation)
        throw fail(operation, .malformedReply(excerpt(line)))
    }

    /// Throws if `line` is one of the protocol's three ways to say no.
    private func refuse(_ line: String, for operation: String) throws(ClientError) {
        let isRefusal = line == "ERROR" || line.hasPrefix("CLIENT_ERROR") || line.hasPrefix("SERVER_ERROR")
        if isRefusal || line == "NOT_STORED" || line.hasPrefix("ERROR ") { throw fail(operation, .refused(line)) }
    }

    func check(_ key: String, for operation: String) throws(ClientError) {
        let bytes = key.utf8
        let isClean = bytes.allSatisfy { $0 > 32 && $0 != 127 }
        if bytes.isEmpty || bytes.count > 250 || !isClean { throw fail(operation, .badKey(key)) }
    }

    private func excerpt(_ line: String) -> String { line.count > 80 ? "\(line.prefix(80))..." : line }
}
