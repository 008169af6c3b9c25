// Many requests in one write, their replies in order. A refused request does not spoil those behind it; a broken
// connection does, and is thrown.

/// One request of a pipeline.
public enum Request: Equatable, Sendable {
    /// Retrieve one key.
    case get(String)
    /// Retrieve one key with its version.
    case gets(String)
    /// Store a value; `expiry` as for `Connection.set`.
    case set(String, [UInt8], flags: UInt32, expiry: Int64)
    /// Remove one key.
    case delete(String)
}

/// One reply of a pipeline.
public enum Reply: Equatable, Sendable {
    /// A hit.
    case value(Value)
    /// A key that is not there.
    case miss
    /// The value was stored.
    case stored
    /// The key was removed.
    case deleted
    /// The server's error line.
    case refused(String)
}

extension Connection {
    /// Sends all of `requests` at once and returns their replies, in order.
    ///
    /// - Throws: `ClientError` when a key is bad (nothing is sent then) or when the connection breaks.
    public func pipeline(_ requests: [Request]) throws(ClientError) -> [Reply] {
        for request in requests { try check(request.key, for: "pipeline") }
        for request in requests {
            switch request {
            case .get(let key): enqueue("get \(key)\r\n")
            case .gets(let key): enqueue("gets \(key)\r\n")
            case .set(let key, let bytes, let flags, let expiry):
                try enqueueSet(key, bytes, flags: flags, expiry: expiry)
            case .delete(let key): enqueue("delete \(key)\r\n")
            }
        }
        var replies: [Reply] = []
        replies.reserveCapacity(requests.count)
        for request in requests { replies.append(try reply(to: request)) }
        return replies
    }

    private func reply(to request: Request) throws(ClientError) -> Reply {
        do throws(ClientError) {
            switch request {
            case .get(let key): return try readValues("get", [key])[key].map { .value($0) } ?? .miss
            case .gets(let key): return try readValues("gets", [key])[key].map { .value($0) } ?? .miss
            case .set:
                try expect(["STORED"], for: "set")
                return .stored
            case .delete:
                return try expect(["DELETED", "NOT_FOUND"], for: "delete") == "DELETED" ? .deleted : .miss
            }
        } catch {
            guard case .refused(let line) = error.cause else { throw error }
            return .refused(line)
        }
    }
}

extension Request {
    fileprivate var key: String {
        switch self {
        case .get(let key), .gets(let key), .set(let key, _, _, _), .delete(let key): key
        }
    }
}
