// What clients are told, held against the oracle.

import TestSupport

/// Bytes that came back, read line by line.
private struct ReplyScan {
    let bytes: [UInt8]
    var position = 0

    mutating func line() -> String? {
        var end = position
        while end + 1 < bytes.count {
            if bytes[end] == 13, bytes[end + 1] == 10 {
                defer { position = end + 2 }
                return String(decoding: bytes[position..<end], as: UTF8.self)
            }
            end += 1
        }
        return nil
    }

    /// A data block and its line end.
    mutating func block(_ count: Int) -> [UInt8]? {
        guard bytes.count - position >= count + 2 else { return nil }
        defer { position += count + 2 }
        return Array(bytes[position..<position + count])
    }
}

/// A value that came back.
private struct FoundValue {
    let key: String
    let flags: UInt32
    let cas: UInt64?
    let content: [UInt8]
}

extension Run {
    /// Takes all whole answers that have come.
    func takeAnswers(_ client: ClientConnection) throws {
        while let request = client.asked.first {
            var scan = ReplyScan(bytes: client.received)
            guard try take(request, &scan, client) else { break }
            client.received.removeFirst(scan.position)
            client.asked.removeFirst()
            close(request)
        }
        if client.isClosed { forget(client) }
    }

    /// When the oldest question was asked that has no answer yet.
    private var oldestQuestion: Int {
        clients.reduce(time) { oldest, client in client.asked.reduce(oldest) { min($0, $1.began) } }
    }

    private func close(_ request: AskedRequest) {
        counts.answers += 1
        switch request.kind {
        case .flush, .flushLater: isFlushing = false
        default: break
        }
        guard request.isChange else { return }
        for key in request.keys {
            key.open -= 1
            if request.isExclusive { key.isExclusive = false }
            key.compact(oldestQuestion)
        }
    }

    /// The connection, or the process, has ended: what has no answer has happened, or not.
    func forget(_ client: ClientConnection) {
        client.close()
        let end = tick()
        for request in client.asked {
            for write in request.writes { write.end(end, trueClock) }
            if case .flushLater(let flush) = request.kind { forget(flush) }
            close(request)
        }
        client.asked = []
    }

    // MARK: One answer

    /// False while it has not come whole.
    private func take(_ request: AskedRequest, _ scan: inout ReplyScan, _ client: ClientConnection) throws -> Bool {
        if case .get = request.kind { return try takeGet(request, &scan, client) }
        guard let line = scan.line() else { return false }
        if case .metaGet = request.kind { return try takeMetaGet(request, line, &scan, client) }
        let end = tick()
        trace(line)
        for key in request.keys { key.note("\(end) @\(trueClock) c\(client.number) -> \(line)") }
        if line.hasPrefix("SERVER_ERROR") { return refused(request, end) }
        try judge(request, line, end)
        return true
    }

    /// A store that failed may have taken the old value along.
    private func refused(_ request: AskedRequest, _ end: Int) -> Bool {
        counts.refusals += 1
        for write in request.writes { write.end(end, trueClock) }
        for key in request.keys {
            let absence = Write("refused", nil, began: request.began)
            absence.end(end, trueClock)
            key.add(absence)
        }
        return true
    }

    private func judge(_ request: AskedRequest, _ line: String, _ end: Int) throws {
        let key = request.keys[0]
        switch (request.kind, line.split(separator: " ").first.map(String.init) ?? "") {
        case (.store, "STORED"): succeed(request, end)
        case (.flush, "OK"):
            succeed(request, end)
            endFlushes(end)
        case (.metaSet, "HD"):
            succeed(request, end)
            request.writes[0].cas = line.split(separator: " ").dropFirst().first.flatMap { UInt64($0.dropFirst()) }
        case (.flushLater(let flush), "OK"): answer(flush, end)
        case (.delete, "DELETED"), (.delete, "HD"):
            try key.isThere(from: request.began, line)
            succeed(request, end)
        case (.delete, "NOT_FOUND"), (.delete, "NF"):
            try demandMiss(key, request, end)
            succeed(request, end, isWritten: false)
        case (.add, "STORED"):
            try demandMiss(key, request, end)
            succeed(request, end)
        case (.add, "NOT_STORED"):
            try key.isThere(from: request.began, line)
            fail(request)
        case (.replace, "STORED"):
            try key.isThere(from: request.began, line)
            succeed(request, end)
        case (.replace, "NOT_STORED"), (.compare, "NOT_FOUND"), (.join, "NOT_STORED"), (.increment, "NOT_FOUND"),
            (.touch, "NOT_FOUND"):
            fail(request)
            try demandMiss(key, request, end)
        case (.compare(let cas), "STORED"):
            try compared(key, cas, request)
            succeed(request, end)
        case (.compare, "EXISTS"):
            try key.isThere(from: request.began, line)
            fail(request)
        case (.join, "STORED"): try joined(key, request, end)
        case (.increment, _): try counted(key, line, request, end)
        case (.touch, "TOUCHED"): touched(request, end)
        default: throw Wrong(description: "\(key.name): \(line) to \(request.kind)")
        }
    }

    private func succeed(_ request: AskedRequest, _ end: Int, isWritten: Bool = true) {
        // It is on disk, and so is an anchor that was written after it was asked.
        if isWritten, plan.options.disk?.durability == .always, plan.faults == .none {
            storeTime.seen = max(storeTime.seen, request.clock)
        }
        for write in request.writes {
            write.end(end, trueClock)
            write.confirm(end)
            write.isAnswered = true
        }
    }

    private func fail(_ request: AskedRequest) {
        if case .touch(let deadline) = request.kind {
            for write in request.writes { write.deadlines.removeAll { $0.began == deadline.began } }
        } else {
            for write in request.writes { write.isVoid = true }
        }
    }

    private func demandMiss(_ key: KeyModel, _ request: AskedRequest, _ end: Int) throws {
        if mayVanish { return }
        // The change itself, and what it stands for, is no reason for the miss.
        for write in request.writes { write.isVoid = true }
        defer { if case .touch = request.kind {} else { restore(request) } }
        if case .touch = request.kind { for write in request.writes { write.isVoid = false } }
        try key.misses(from: request.began, trueClock, to: end)
    }

    private func restore(_ request: AskedRequest) {
        switch request.kind {
        case .delete, .add: for write in request.writes { write.isVoid = false }
        default: break
        }
    }

    private func compared(_ key: KeyModel, _ cas: UInt64, _ request: AskedRequest) throws {
        let others = key.candidates(request.began).filter { found in !request.writes.contains { $0 === found } }
        if others.contains(where: { $0.content != nil && ($0.cas == cas || $0.cas == nil) }) { return }
        throw Wrong(description: "\(key.name): cas \(cas) matched, but holds \(others.map { ($0.what, $0.cas) })")
    }

    private func joined(_ key: KeyModel, _ request: AskedRequest, _ end: Int) throws {
        guard !request.writes.isEmpty else { throw Wrong(description: "\(key.name): joined to nothing") }
        for write in request.writes {
            write.end(end, trueClock)
            write.isAnswered = true
            if request.writes.count == 1 { write.confirm(end) }
        }
    }

    private func counted(_ key: KeyModel, _ line: String, _ request: AskedRequest, _ end: Int) throws {
        let made = request.writes.filter { $0.content == Array(line.utf8) }
        guard !made.isEmpty else {
            throw Wrong(description: "\(key.name): counted to \(line), not \(request.writes.map(\.what))")
        }
        for write in request.writes {
            write.end(end, trueClock)
            if write.content != Array(line.utf8) { write.isVoid = true }
        }
        for write in made { write.isAnswered = true }
        if made.count == 1 { made[0].confirm(end) }
    }

    private func touched(_ request: AskedRequest, _ end: Int) {
        guard case .touch(let deadline) = request.kind else { return }
        for write in request.writes {
            for index in write.deadlines.indices where write.deadlines[index].began == deadline.began {
                write.deadlines[index].over = end
                write.deadlines[index].sure = end
                write.deadlines[index].settle(trueClock)
            }
        }
    }

    // MARK: Values

    private func takeGet(_ request: AskedRequest, _ scan: inout ReplyScan, _ client: ClientConnection) throws -> Bool {
        var values: [FoundValue] = []
        while let line = scan.line() {
            if line == "END" {
                let end = tick()
                for value in values { try found(value, request, end, client) }
                for key in request.keys where !values.contains(where: { $0.key == key.name }) {
                    try missing(key, request, end, client)
                }
                return true
            }
            let words = line.split(separator: " ")
            guard words.count >= 4, words[0] == "VALUE", let count = Int(words[3]), let flags = UInt32(words[2]) else {
                throw Wrong(description: "\(line) to a get")
            }
            guard let content = scan.block(count) else { return false }
            values.append(
                FoundValue(
                    key: String(words[1]), flags: flags, cas: words.count > 4 ? UInt64(words[4]) : nil,
                    content: content))
        }
        return false
    }

    private func takeMetaGet(
        _ request: AskedRequest, _ line: String, _ scan: inout ReplyScan, _ client: ClientConnection
    ) throws -> Bool {
        let words = line.split(separator: " ")
        if line == "EN" {
            try missing(request.keys[0], request, tick(), client)
            return true
        }
        guard words.count == 4, words[0] == "VA", let count = Int(words[1]) else {
            throw Wrong(description: "\(line) to a meta get")
        }
        guard let content = scan.block(count) else { return false }
        let value = FoundValue(
            key: request.keys[0].name, flags: UInt32(words[2].dropFirst()) ?? 0, cas: UInt64(words[3].dropFirst()),
            content: content)
        try found(value, request, tick(), client)
        return true
    }

    private func found(_ value: FoundValue, _ request: AskedRequest, _ end: Int, _ client: ClientConnection) throws {
        counts.hits += 1
        guard let key = request.keys.first(where: { $0.name == value.key }) else {
            throw Wrong(description: "a value of \(value.key) to a get of \(request.keys.map(\.name))")
        }
        let shown = String(decoding: value.content.prefix(16), as: UTF8.self)
        trace("\(value.key) \(value.content.count) \(shown)")
        key.note(
            "\(end) @\(trueClock) c\(client.number) -> \(value.content.count) bytes, \(shown) cas \(value.cas ?? 0)")
        try key.sees(
            value.content, flags: value.flags, cas: value.cas, from: request.began, request.clock, to: end)
    }

    private func missing(_ key: KeyModel, _ request: AskedRequest, _ end: Int, _ client: ClientConnection) throws {
        counts.misses += 1
        trace("\(key.name) -")
        key.note("\(end) @\(trueClock) c\(client.number) -> nothing")
        if mayVanish { return }
        try key.misses(from: request.began, trueClock, to: end)
    }
}
