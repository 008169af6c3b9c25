// `keys` and `watch`: what the server sends line by line until it, or the reader, has had enough.

import CacheClient
import Glibc
import Primitives

/// Prints the keys that begin with the settings' word; 1 if there is none.
func listKeys(_ source: Source, _ settings: StatsSettings) -> Int32 {
    let output = StandardStream.output
    let prefix = settings.word ?? ""
    var found = 0
    do throws(ClientError) {
        let connection = try source.connected()
        connection.enqueue("lru_crawler metadump all\r\n")
        try connection.flush(for: "lru_crawler")
        let answer = try connection.readLine(for: "lru_crawler")
        guard answer == "OK" else {
            throw ClientError(operation: "lru_crawler", address: settings.address, cause: .refused(answer))
        }
        while true {
            let line = try connection.readLine(for: "lru_crawler")
            if line == "END" { break }
            guard let dumped = DumpedKey(line), dumped.key.hasPrefix(prefix) else { continue }
            found += 1
            guard output.write(settings.json ? dumped.json : dumped.key.printable + "\n") else { return 0 }
            if found == settings.samples { break }
        }
    } catch {
        StandardStream.error.write("cache-stats: \(error)\n")
        return EX_UNAVAILABLE
    }
    return found > 0 ? EXIT_SUCCESS : EXIT_FAILURE
}

/// One line of a key dump.
private struct DumpedKey {
    let key: String
    private let fields: [(name: String, value: String)]

    init?(_ line: String) {
        var fields: [(String, String)] = []
        for word in line.split(separator: " ") {
            guard let equals = word.firstIndex(of: "=") else { continue }
            fields.append((String(word[..<equals]), String(word[word.index(after: equals)...])))
        }
        guard let first = fields.first, first.0 == "key" else { return nil }
        key = Listing.decoded(first.1)
        self.fields = fields
    }

    var json: String {
        var writer = JSONWriter()
        writer.beginObject()
        writer.key("key")
        writer.string(key)
        for field in fields.dropFirst() {
            writer.key(field.name)
            writer.numberOrString(field.value)
        }
        writer.endObject()
        return writer.text + "\n"
    }
}

/// Prints what clients do until the server or the reader goes away.
func watchRequests(_ source: Source, _ settings: StatsSettings) -> Int32 {
    var shown = 0
    do throws(ClientError) {
        let connection = try source.connected()
        connection.enqueue("watch fetchers mutations evictions deletions\r\n")
        try connection.flush(for: "watch")
        let answer = try connection.readLine(for: "watch")
        guard answer == "OK" else {
            throw ClientError(operation: "watch", address: settings.address, cause: .refused(answer))
        }
        while shown != settings.samples {
            guard StandardStream.output.write(try connection.readLine(for: "watch").printable + "\n") else { return 0 }
            shown += 1
        }
        return EXIT_SUCCESS
    } catch {
        StandardStream.error.write("cache-stats: \(error)\n")
        return EX_UNAVAILABLE
    }
}
