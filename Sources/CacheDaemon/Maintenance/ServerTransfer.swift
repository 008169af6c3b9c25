// Export from, and import to, a running server over its socket: any server that speaks memcached's meta commands.
//
// An export reads the list of keys on one connection and the values on another, some at a time, so it needs no memory
// for all keys. An import adds entries some at a time. Values are held whole, one batch at most. One thread.

import CacheClient
import CacheEngine
import Primitives

/// A server, as source or target of entries.
struct ServerTransfer {
    private static let batchEntries = 32
    private static let batchBytes = 1 << 20

    private let address: ServerAddress
    private let timeouts = Timeouts(connectMilliseconds: 5000, progressMilliseconds: 60_000)

    private let encryption: Encryption?
    private let login: Login?

    init(_ address: ServerAddress, encryption: Encryption?, login: Login?) {
        self.address = address
        self.encryption = encryption
        self.login = login
    }

    private func connect() throws(ClientError) -> CacheClient.Connection {
        let connection = try CacheClient.Connection(to: address, encryption: encryption, timeouts: timeouts)
        if let login { try connection.authenticate(login) }
        return connection
    }

    // MARK: Export

    func export(
        to writer: inout EntryStreamWriter, progress: (TransferProgress) -> Void
    ) throws -> TransferProgress {
        let keys = try connect()
        let values = try connect()
        var done = TransferProgress()
        var batch: [[UInt8]] = []
        keys.enqueue("lru_crawler metadump all\r\n")
        while true {
            let line = try keys.readLine(for: "lru_crawler metadump")
            if line == "END" { break }
            if line == "OK" { continue }
            guard let word = line.split(separator: " ").first, word.hasPrefix("key="),
                let key = Self.decoded(word.dropFirst(4)), !key.isEmpty, key.count <= Cache.keyBytesMax
            else { throw Self.unexpected(line, address, "lru_crawler metadump") }
            batch.append(key)
            if batch.count == Self.batchEntries {
                try export(batch, values, to: &writer, &done)
                batch = []
                progress(done)
            }
        }
        try export(batch, values, to: &writer, &done)
        try writer.finish()
        return done
    }

    private func export(
        _ batch: [[UInt8]], _ server: CacheClient.Connection, to writer: inout EntryStreamWriter,
        _ done: inout TransferProgress
    ) throws {
        for key in batch {
            let flags = key.needsBase64 ? " b s f t v\r\n" : " s f t v\r\n"
            server.enqueue(Array("mg ".utf8) + key.asWord + Array(flags.utf8))
        }
        for key in batch {
            let line = try server.readLine(for: "mg")
            if line == "EN" {
                done.skipped += 1
                continue
            }
            let words = line.split(separator: " ")
            guard words.count >= 2, words[0] == "VA", let count = Int(words[1]), count >= 0 else {
                throw Self.unexpected(line, address, "mg")
            }
            let value = try server.readBytes(count, for: "mg")
            guard try server.readBytes(2, for: "mg") == [13, 10] else {
                throw Self.unexpected("a value without line end", address, "mg")
            }
            guard let entry = Self.entry(key, words.dropFirst(2), value.count, writer.writtenAt) else {
                done.skipped += 1
                continue
            }
            try writer.begin(entry)
            try writer.append(value.span)
            try writer.endEntry()
            done.entries += 1
            done.valueBytes += value.count
        }
    }

    /// The entry that the flags of a reply tell of; nil for one that is marked as out of date.
    private static func entry(
        _ key: [UInt8], _ flags: ArraySlice<Substring>, _ valueBytes: Int, _ begun: WallTime
    ) -> StreamedEntry? {
        var entry = StreamedEntry(
            key: key, flags: 0, timeToLive: nil, hasBinaryKey: key.needsBase64, valueBytes: valueBytes)
        for flag in flags {
            switch flag.first {
            case "f": entry.flags = UInt32(flag.dropFirst()) ?? 0
            case "t":
                guard let seconds = Int64(flag.dropFirst()), seconds >= 0, seconds < 1 << 40 else { continue }
                let passed = SystemClock().wall().milliseconds - begun.milliseconds
                entry.timeToLive = seconds * 1000 + max(0, passed)
            case "X": return nil
            default: break
            }
        }
        return entry
    }

    /// The bytes that a URI-encoded word stands for; nil if it is none.
    private static func decoded(_ word: Substring) -> [UInt8]? {
        var bytes: [UInt8] = []
        var rest = Array(word.utf8)[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard rest.count >= 2,
                let code = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16)
            else { return nil }
            bytes.append(code)
            rest = rest.dropFirst(2)
        }
        return bytes
    }

    private static func unexpected(_ line: String, _ address: ServerAddress, _ operation: String) -> ClientError {
        ClientError(operation: operation, address: address, cause: .malformedReply(String(line.prefix(80))))
    }

    // MARK: Import

    func importAll(
        from reader: inout EntryStreamReader, progress: (TransferProgress) -> Void
    ) throws -> TransferProgress {
        let server = try connect()
        var done = TransferProgress()
        var waiting: [Int] = []
        var bytes = 0
        while let entry = try reader.nextEntry() {
            var value: [UInt8] = []
            // SAFETY: the array copies the span's own bytes.
            while try reader.nextPiece({ piece in
                unsafe piece.withUnsafeBufferPointer { unsafe value.append(contentsOf: $0) }
            }) {}
            guard try reader.endEntry() else {
                done.failed += 1
                continue
            }
            guard let line = Self.request(entry, reader.writtenAt) else {
                done.skipped += 1
                continue
            }
            server.enqueue(line)
            server.enqueue(value)
            server.enqueue("\r\n")
            waiting.append(value.count)
            bytes += value.count
            if waiting.count == Self.batchEntries || bytes >= Self.batchBytes {
                try collect(&waiting, server, &done)
                bytes = 0
                progress(done)
            }
        }
        try collect(&waiting, server, &done)
        return done
    }

    /// The line that adds an entry; nil for one whose time is over.
    private static func request(_ entry: StreamedEntry, _ writtenAt: WallTime) -> [UInt8]? {
        var terms = " \(entry.valueBytes) ME F\(entry.flags)\(entry.key.needsBase64 ? " b" : "")"
        if let left = entry.timeToLive {
            let now = SystemClock().wall().milliseconds
            let passed = max(0, now.subtractingReportingOverflow(writtenAt.milliseconds).partialValue)
            if passed >= left { return nil }
            // Up to 30 days a TTL counts from now, beyond that it is a date.
            let seconds = max(1, (left - passed) / 1000)
            terms += " T\(seconds > 30 * 86_400 ? now / 1000 + seconds : seconds)"
        }
        return Array("ms ".utf8) + entry.key.asWord + Array("\(terms)\r\n".utf8)
    }

    private func collect(_ waiting: inout [Int], _ server: CacheClient.Connection, _ done: inout TransferProgress)
        throws
    {
        for valueBytes in waiting {
            let line = try server.readLine(for: "ms")
            switch line.prefix(2) {
            case "HD":
                done.entries += 1
                done.valueBytes += valueBytes
            case "NS": done.skipped += 1
            default: done.failed += 1
            }
        }
        waiting = []
    }
}

extension [UInt8] {
    /// Whether a key cannot stand in a line as it is.
    fileprivate var needsBase64: Bool { contains { $0 <= 32 || $0 == 127 } }

    /// A key as it stands in a meta command.
    fileprivate var asWord: [UInt8] {
        needsBase64 ? Array(Base64Text.encode(self).utf8) : self
    }
}
