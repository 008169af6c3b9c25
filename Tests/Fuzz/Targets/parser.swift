// The parser: any bytes, at once and in pieces, give the same requests, and every step makes progress.
//
// The first byte of an input says how the rest is cut. Each result's ranges must lie within its line, keys within the
// limit; the words of retrievals and meta commands are walked, since sessions do that later. What the short way through
// the parser accepts must mean the same on the long way.

@testable import Protocol

/// Parses the input whole and in pieces, and compares.
///
/// Bit 7 of the first byte makes it a client that has not logged in, bit 6 lengthens it beyond what a line may have.
func fuzz(_ bytes: UnsafeRawBufferPointer) {
    guard bytes.count > 1 else { return }
    if bytes[0] & 0x80 != 0 { return logIn(UnsafeRawBufferPointer(rebasing: bytes[1...])) }
    if bytes[0] & 0x40 != 0 { return lengthen(bytes) }
    let input = UnsafeRawBufferPointer(rebasing: bytes[1...])
    let whole = results(input) { $0 }
    let step = Int(bytes[0] % 16) + 1
    let pieces = results(input) { min($0, step) }
    precondition(whole == pieces, "pieces of \(step) bytes give other requests")
}

/// A digest of everything that the parser makes of `input`, when `take` says how many of the bytes left arrive next.
private func results(_ input: UnsafeRawBufferPointer, take: (Int) -> Int) -> UInt64 {
    var parser = RequestParser(limits: ProtocolLimits())
    var digest: UInt64 = 14_695_981_039_346_656_037
    func mix(_ number: Int) { digest = (digest ^ UInt64(bitPattern: Int64(number))) &* 1_099_511_628_211 }
    var start = 0
    var end = 0
    while true {
        let view = UnsafeRawBufferPointer(rebasing: input[start..<end])
        var short = parser
        let plain = short.parsePlain(view)
        let result = parser.parse(view)
        precondition(plain.lineBytes == 0 || isSame(plain, result), "the short way means something else")
        switch result {
        case .incomplete:
            if end == input.count { return digest }
            end += take(input.count - end)
        case .fatal(let error):
            mix(Int(error.rawValue))
            return digest
        case .refused(let error, let lineBytes, let swallowBytes, let isQuiet):
            precondition(lineBytes > 0 && lineBytes <= view.count && swallowBytes >= 0)
            mix(Int(error.rawValue))
            mix(isQuiet ? 1 : 0)
            start += min(lineBytes + swallowBytes, input.count - start)
        case .request(let request, let lineBytes):
            precondition(lineBytes > 0 && lineBytes <= view.count)
            mix(check(request, UnsafeRawBufferPointer(rebasing: view[..<lineBytes])))
            start += lineBytes
            if case .store(let header) = request { start += min(header.valueBytes, input.count - start) }
            if case .meta(let meta) = request, meta.operation == .set {
                start += min(meta.valueBytes, input.count - start)
            }
        }
        end = max(start, end)
    }
}

/// Whether the long way makes of a line what the short one did.
private func isSame(_ plain: PlainRequest, _ result: ParseResult) -> Bool {
    guard case .request(let request, let lineBytes) = result, lineBytes == Int(plain.lineBytes) else { return false }
    let key = ByteRange(start: PlainRequest.keyStart, count: Int(plain.keyBytes))
    switch request {
    case .retrieve(let retrieval):
        return !plain.isStore && retrieval == Retrieval(keys: key, keyCount: 1, includesCAS: false, expiration: nil)
    case .store(let header):
        let expiration = Expiration(exptime: Int64(plain.exptime))
        return plain.isStore
            && header
                == StoreHeader(
                    key: key, mode: .set, flags: plain.flags, expiration: expiration,
                    valueBytes: Int(plain.valueBytes), isQuiet: false)
    default: return false
    }
}

/// Touches every byte that a request names.
private func check(_ request: Request, _ line: UnsafeRawBufferPointer) -> Int {
    var sum = 0
    func touch(_ range: ByteRange) {
        precondition(range.start >= 0 && range.count >= 0 && range.start + range.count <= line.count)
        for byte in line[range] { sum = sum &* 31 &+ Int(byte) }
    }
    switch request {
    case .retrieve(let retrieval):
        touch(retrieval.keys)
        var keys = KeyIterator(line, retrieval.keys)
        var count = 0
        while let key = keys.next() {
            precondition(key.count <= 250 && key.count > 0)
            touch(key)
            count += 1
        }
        precondition(count == retrieval.keyCount)
    case .store(let header):
        touch(header.key)
        precondition(header.key.count <= 250 && header.valueBytes >= 0)
        sum &+= header.valueBytes
    case .delete(let key, _): touch(key)
    case .touch(let key, _, _): touch(key)
    case .arithmetic(let key, let delta, _, _):
        touch(key)
        sum &+= Int(truncatingIfNeeded: delta)
    case .stats(let argument): touch(argument)
    case .meta(let meta):
        touch(meta.key)
        touch(meta.opaque)
        if meta.operation != .noOperation { sum &+= meta.withKey(in: line) { $0.reduce(0) { $0 &* 31 &+ Int($1) } } }
        for letter in meta.returns { sum = sum &* 31 &+ Int(letter) }
        precondition(meta.operation == .noOperation || (meta.key.count > 0 && meta.key.count <= 250))
    default: break
    }
    return sum
}

/// Lines whose end does not come: one line, as long as it takes.
private func lengthen(_ bytes: UnsafeRawBufferPointer) {
    var parser = RequestParser(limits: ProtocolLimits())
    var line = bytes.dropFirst().filter { $0 != 10 }
    line += [UInt8](repeating: UInt8(ascii: " "), count: 2100)
    line.withUnsafeBytes { line in
        if case .request = parser.parse(line) { preconditionFailure("a request without a line end") }
    }
}

/// The conversation before the login.
private func logIn(_ input: UnsafeRawBufferPointer) {
    var parser = RequestParser(limits: ProtocolLimits())
    var rest = input
    while !rest.isEmpty {
        let lineBytes: Int
        switch parser.parseLogin(rest) {
        case .incomplete, .fatal, .quit: return
        case .announced(let bytes, let line):
            precondition(bytes >= 0)
            lineBytes = line
            _ = LoginToken(rest.dropFirst(line).prefix(bytes))
        case .refused(_, let line, let swallowBytes):
            precondition(swallowBytes >= 0)
            lineBytes = line
        }
        precondition(lineBytes > 0 && lineBytes <= rest.count)
        rest = UnsafeRawBufferPointer(rebasing: rest[lineBytes...])
    }
}
