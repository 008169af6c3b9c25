// What clients ask, and what the answers say about the keys.
//
// Values name their key and a number that no other value has, over and over, so that a torn one, or another key's, was
// never stored. Numbers are apart: what an increment makes of a value is known only with its answer.

import TestSupport

/// One request on its way.
final class AskedRequest {
    enum Kind {
        case get(includesCAS: Bool)
        case metaGet
        case store
        case metaSet
        case delete
        case add
        case replace
        case compare(UInt64)
        case join
        case increment(UInt64)
        case touch(Deadline)
        case flush
        case flushLater(DelayedFlush)
    }

    let kind: Kind
    let keys: [KeyModel]
    let began: Int
    let clock: Int64
    /// What it may have done, if it has no answer.
    var writes: [Write] = []
    /// How many of its keys were answered, and which were found.
    var found: Set<String> = []

    init(_ kind: Kind, _ keys: [KeyModel], began: Int, clock: Int64) {
        self.kind = kind
        self.keys = keys
        self.began = began
        self.clock = clock
    }

    var isChange: Bool {
        switch kind {
        case .get, .metaGet: false
        default: true
        }
    }

    var isExclusive: Bool {
        switch kind {
        case .get, .metaGet, .store, .metaSet, .delete, .flush, .flushLater: false
        default: true
        }
    }
}

extension Run {
    /// Asks something.
    func ask(_ client: ClientConnection) {
        let key = keys[random.below(keys.count)]
        let isNumber = key.name.hasPrefix("n")
        switch random.below(100) {
        case 0..<38: askGet(client)
        case 38..<59: askStore(client, key, isNumber)
        case 59..<67: askDelete(client, key)
        case 67..<73 where isNumber: askIncrement(client, key)
        case 67..<73: askJoin(client, key)
        case 73..<82: askTouch(client, key)
        case 82..<90: askConditional(client, key, isNumber)
        case 90..<92: askFlush(client)
        default: askStore(client, key, isNumber)
        }
    }

    /// Asks for every key.
    func askAll(_ client: ClientConnection) {
        for key in keys {
            _ = begin(.metaGet, [key], client)
            say(client, "mg \(key.name) v f c")
        }
    }

    private func begin(_ kind: AskedRequest.Kind, _ keys: [KeyModel], _ client: ClientConnection) -> AskedRequest {
        let request = AskedRequest(kind, keys, began: tick(), clock: trueClock)
        if request.isChange {
            for key in keys {
                key.open += 1
                if request.isExclusive { key.isExclusive = true }
            }
        }
        client.asked.append(request)
        for key in keys { key.note("\(time) @\(trueClock) c\(client.number) \(kind)") }
        return request
    }

    private func say(_ client: ClientConnection, _ line: String, _ body: [UInt8]? = nil) {
        trace(line)
        client.say(Array(line.utf8) + [13, 10] + (body.map { $0 + [13, 10] } ?? []))
    }

    private func canChange(_ key: KeyModel, alone: Bool) -> Bool { !key.isExclusive && (!alone || key.open == 0) }

    private func askGet(_ client: ClientConnection) {
        if random.isOne(in: 2) {
            let key = keys[random.below(keys.count)]
            _ = begin(.metaGet, [key], client)
            return say(client, "mg \(key.name) v f c")
        }
        let count = 1 + random.below(3)
        var chosen: [KeyModel] = []
        for _ in 0..<count {
            let key = keys[random.below(keys.count)]
            if !chosen.contains(where: { $0 === key }) { chosen.append(key) }
        }
        let includesCAS = random.isOne(in: 2)
        _ = begin(.get(includesCAS: includesCAS), chosen, client)
        say(client, (includesCAS ? "gets " : "get ") + chosen.map(\.name).joined(separator: " "))
    }

    /// A new value, and what it is called.
    func makeValue(_ key: KeyModel, _ isNumber: Bool) -> (what: String, bytes: [UInt8]) {
        version += 1
        if isNumber { return ("#\(version)", Array("\(version * 1_000_000)".utf8)) }
        let inline = plan.options.disk?.inlineBytesMax ?? 1000
        let bytes: Int
        switch random.below(20) {
        case 0..<plan.largeShare: bytes = inline + random.below(4000)
        case 0..<8: bytes = 20 + random.below(200)
        case 8..<12: bytes = 200 + random.below(3000)
        case 12..<14: bytes = max(16, inline - 4 + random.below(8))
        case 14..<16: bytes = inline + random.below(4000)
        case 16..<18: bytes = 20_000 + random.below(20_000)
        case 18: bytes = 30_000 + random.below(250_000)
        default: bytes = 16
        }
        let word = Array("\(key.name):\(version);".utf8)
        var value: [UInt8] = []
        value.reserveCapacity(bytes + word.count)
        while value.count < bytes { value += word }
        return ("#\(version)(\(value.count))", value)
    }

    private func makeDeadline(_ seconds: Int) -> Deadline {
        Deadline(
            earliest: seconds == 0 ? .max : trueClock + Int64(seconds) * 1000, latest: .max,
            life: Int64(seconds) * 1000 + 2, began: time)
    }

    /// Seconds to live; 0: for ever.
    private func ttl() -> Int { random.isOne(in: 3) ? 1 + random.below(random.isOne(in: 2) ? 4 : 20) : 0 }

    private func addWrite(
        _ request: AskedRequest, _ key: KeyModel, _ what: String, _ content: [UInt8]?, flags: UInt32 = 0,
        seconds: Int = 0
    ) -> Write {
        let write = Write(what, content, flags: flags, began: request.began)
        if content != nil { write.deadlines = [makeDeadline(seconds)] }
        request.writes.append(key.add(write))
        key.note("    \(what) ttl \(seconds)")
        return write
    }

    private func askStore(_ client: ClientConnection, _ key: KeyModel, _ isNumber: Bool) {
        guard canChange(key, alone: false) else { return askGet(client) }
        let (what, value) = makeValue(key, isNumber)
        let flags = UInt32(random.below(1000))
        let seconds = ttl()
        let isMeta = random.isOne(in: 2)
        let request = begin(isMeta ? .metaSet : .store, [key], client)
        _ = addWrite(request, key, what, value, flags: flags, seconds: seconds)
        if isMeta {
            say(client, "ms \(key.name) \(value.count) T\(seconds) F\(flags) c", value)
        } else {
            say(client, "set \(key.name) \(flags) \(seconds) \(value.count)", value)
        }
    }

    private func askDelete(_ client: ClientConnection, _ key: KeyModel) {
        guard canChange(key, alone: false) else { return askGet(client) }
        let request = begin(.delete, [key], client)
        _ = addWrite(request, key, "delete", nil)
        say(client, random.isOne(in: 2) ? "delete \(key.name)" : "md \(key.name)")
    }

    private func askConditional(_ client: ClientConnection, _ key: KeyModel, _ isNumber: Bool) {
        guard canChange(key, alone: true) else { return askGet(client) }
        let (what, value) = makeValue(key, isNumber)
        let seconds = ttl()
        let known = key.candidates(time).compactMap(\.cas).last
        let kind: AskedRequest.Kind
        switch random.below(3) {
        case 0: kind = .add
        case 1: kind = .replace
        default: kind = .compare(known ?? 1)
        }
        let request = begin(kind, [key], client)
        _ = addWrite(request, key, what, value, flags: 5, seconds: seconds)
        switch kind {
        case .add: say(client, "add \(key.name) 5 \(seconds) \(value.count)", value)
        case .replace: say(client, "replace \(key.name) 5 \(seconds) \(value.count)", value)
        default: say(client, "cas \(key.name) 5 \(seconds) \(value.count) \(known ?? 1)", value)
        }
    }

    /// A change that starts from what is there: one write for each value that this may be.
    private func derive(_ request: AskedRequest, _ key: KeyModel, _ body: ([UInt8]) -> [UInt8]?) {
        for base in key.candidates(time) {
            guard let content = base.content, let made = body(content) else { continue }
            let write = Write("of \(base.what) (\(made.count))", made, flags: base.flags, began: request.began)
            write.deadlines = key.deadlines(base, time).map { old in
                var deadline = old
                deadline.began = request.began
                deadline.over = .max
                deadline.sure = .max
                return deadline
            }
            request.writes.append(key.add(write))
        }
    }

    private func askJoin(_ client: ClientConnection, _ key: KeyModel) {
        guard canChange(key, alone: true) else { return askGet(client) }
        let isAppend = random.isOne(in: 2)
        let addition = Array(makeValue(key, false).bytes.prefix(20 + random.below(6000)))
        guard key.candidates(time).allSatisfy({ ($0.content?.count ?? 0) + addition.count < 250_000 }) else {
            return askDelete(client, key)
        }
        let request = begin(.join, [key], client)
        derive(request, key) { isAppend ? $0 + addition : addition + $0 }
        say(client, "\(isAppend ? "append" : "prepend") \(key.name) 0 0 \(addition.count)", addition)
    }

    private func askIncrement(_ client: ClientConnection, _ key: KeyModel) {
        guard canChange(key, alone: true) else { return askGet(client) }
        let delta = UInt64(1 + random.below(5))
        let request = begin(.increment(delta), [key], client)
        derive(request, key) { base in
            UInt64(String(decoding: base, as: UTF8.self)).map { Array("\($0 &+ delta)".utf8) }
        }
        say(client, "incr \(key.name) \(delta)")
    }

    private func askTouch(_ client: ClientConnection, _ key: KeyModel) {
        guard canChange(key, alone: true) else { return askGet(client) }
        let seconds = ttl()
        let deadline = makeDeadline(seconds)
        let request = begin(.touch(deadline), [key], client)
        for write in key.candidates(time) where write.content != nil {
            write.deadlines.append(deadline)
            request.writes.append(write)
        }
        say(client, "touch \(key.name) \(seconds)")
    }

    private func askFlush(_ client: ClientConnection) {
        guard keys.allSatisfy({ canChange($0, alone: false) }), !isFlushing else { return askGet(client) }
        isFlushing = true
        // It takes the place of one that is to come, now or soon.
        doubtFlushes()
        if random.isOne(in: 3) {
            let seconds = 1 + random.below(5)
            let flush = DelayedFlush(trueClock, seconds: seconds)
            flushes.append(flush)
            _ = begin(.flushLater(flush), keys, client)
            return say(client, "flush_all \(seconds)")
        }
        let request = begin(.flush, keys, client)
        for key in keys { _ = addWrite(request, key, "flush", nil) }
        say(client, "flush_all")
    }
}
