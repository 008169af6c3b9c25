// Turns a parse result into one line of text, so that tables of requests stay readable and a failure shows both sides.

import Primitives
import Protocol

/// Parses `bytes` on a fresh connection and describes the result.
func parseOnce(_ bytes: [UInt8], limits: ProtocolLimits = ProtocolLimits()) -> String {
    var parser = RequestParser(limits: limits)
    return bytes.withUnsafeBytes { describe(parser.parse($0), $0) }
}

/// The result as text; keys and arguments are resolved in `input`.
///
/// The line's length is left out.
func describe(_ result: ParseResult, _ input: UnsafeRawBufferPointer) -> String {
    switch result {
    case .incomplete: "incomplete"
    case .request(let request, _): describe(request, input)
    case .refused(let error, _, let swallowBytes, let isQuiet):
        "refused: \(error.replyLine)" + (swallowBytes > 0 ? " swallow=\(swallowBytes)" : "") + quiet(isQuiet)
    case .fatal(let error): "fatal: \(error.reason)"
    }
}

func describe(_ request: Request, _ input: UnsafeRawBufferPointer) -> String {
    switch request {
    case .retrieve(let retrieval): return describe(retrieval, input)
    case .store(let header):
        return "store \(text(header.key, input)) \(header.mode) flags=\(header.flags) \(header.expiration)"
            + " bytes=\(header.valueBytes)" + quiet(header.isQuiet)
    case .delete(let key, let isQuiet): return "delete \(text(key, input))" + quiet(isQuiet)
    case .arithmetic(let key, let delta, let isIncrement, let isQuiet):
        return (isIncrement ? "incr" : "decr") + " \(text(key, input)) \(delta)" + quiet(isQuiet)
    case .touch(let key, let expiration, let isQuiet):
        return "touch \(text(key, input)) \(expiration)" + quiet(isQuiet)
    case .flushAll(let delay, let isQuiet):
        return "flushAll " + (delay.map { "\($0)" } ?? "now") + quiet(isQuiet)
    case .verbosity(let level, let isQuiet): return "verbosity \(level)" + quiet(isQuiet)
    case .version: return "version"
    case .quit: return "quit"
    case .stats(let argument): return "stats [\(text(argument, input))]"
    case .help: return "help"
    case .cacheMemoryLimit(let mebibytes, let isQuiet): return "cacheMemoryLimit \(mebibytes)" + quiet(isQuiet)
    case .shutdown(let isGraceful): return "shutdown graceful=\(isGraceful)"
    case .watch(let topics): return "watch \(topics.rawValue)"
    case .crawler(let request, let isQuiet): return "crawler \(request)" + quiet(isQuiet)
    case .slabsAutomove(let isQuiet): return "slabsAutomove" + quiet(isQuiet)
    case .meta(let meta): return describe(meta, input)
    }
}

private func describe(_ retrieval: Retrieval, _ input: UnsafeRawBufferPointer) -> String {
    var keys: [String] = []
    var iterator = KeyIterator(input, retrieval.keys)
    while let key = iterator.next() { keys.append(text(key, input)) }
    let name = retrieval.includesCAS ? "gets" : "get"
    let expiration = retrieval.expiration.map { " \($0)" } ?? ""
    let count = keys.count == retrieval.keyCount ? "" : " but keyCount=\(retrieval.keyCount)"
    return "\(name) \(keys)\(expiration)\(count)"
}

private func describe(_ meta: MetaRequest, _ input: UnsafeRawBufferPointer) -> String {
    var parts = ["meta \(meta.operation)"]
    if meta.operation != .noOperation { parts.append(text(meta.key, input)) }
    if meta.operation == .set { parts.append("bytes=\(meta.valueBytes) \(meta.storeMode)") }
    if meta.operation == .arithmetic { parts.append(meta.isDecrement ? "decr" : "incr") }
    let returns = meta.returns.map { String(UnicodeScalar($0)) }.joined()
    if !returns.isEmpty { parts.append("returns=\(returns)") }
    if meta.flags.contains(.opaque) { parts.append("opaque=\(text(meta.opaque, input))") }
    if meta.flags.contains(.base64Key) { parts.append("base64") }
    if meta.flags.contains(.returnValue) { parts.append("value") }
    if meta.flags.contains(.noBump) { parts.append("noBump") }
    if meta.flags.contains(.invalidate) { parts.append("invalidate") }
    if meta.flags.contains(.removeValue) { parts.append("removeValue") }
    if let expiration = meta.expiration { parts.append("ttl=\(expiration)") }
    if let expiration = meta.vivifyExpiration { parts.append("vivify=\(expiration)") }
    if let seconds = meta.recacheSeconds { parts.append("recache=\(seconds)") }
    if let unique = meta.compareUnique { parts.append("compare=\(unique)") }
    if let unique = meta.newUnique { parts.append("newUnique=\(unique)") }
    if meta.flags.contains(.clientFlags) { parts.append("flags=\(meta.clientFlags)") }
    if meta.flags.contains(.delta) { parts.append("delta=\(meta.delta)") }
    if meta.flags.contains(.initial) { parts.append("initial=\(meta.initial)") }
    return parts.joined(separator: " ") + quiet(meta.isQuiet)
}

private func quiet(_ isQuiet: Bool) -> String { isQuiet ? " quiet" : "" }

/// The named bytes as text; what is not UTF-8 shows as replacement characters.
func text(_ range: ByteRange, _ input: UnsafeRawBufferPointer) -> String {
    String(decoding: input[range], as: UTF8.self)
}
