// What an authenticated client may do: rights by kind of command, and perhaps only keys with one prefix.
//
// Without authentication, and for an account with all rights and no prefix, nothing is checked: the session asks
// `isLimited` once per request. The table of which command needs what is here and nowhere else. Plain values.

import Primitives
import Protocol

/// Kinds of commands.
struct AccessRights: OptionSet, Sendable {
    let rawValue: UInt8

    /// Commands that only look: get, gets, mg, me, and statistics that name no keys.
    static let read = AccessRights(rawValue: 1)
    /// Commands that change entries.
    static let write = AccessRights(rawValue: 2)
    /// Commands about the server, or about everybody's entries.
    static let admin = AccessRights(rawValue: 4)

    static let all: AccessRights = [.read, .write, .admin]
}

/// One account's leave to use the server.
///
/// Shared by the sessions of that account.
final class AccessGrant: Sendable {
    let account: Account

    init(_ account: Account) { self.account = account }

    /// Whether requests have to be checked against it.
    var isLimited: Bool { account.rights != .all || !account.keyPrefix.isEmpty }

    /// Whether this request, a part of `input`, is allowed.
    func allows(_ request: Request, in input: UnsafeRawBufferPointer) -> Bool {
        // SAFETY: the input is read during the calls only.
        guard account.rights.isSuperset(of: unsafe request.neededRights(in: input)) else { return false }
        return unsafe account.keyPrefix.isEmpty || allowsKeys(of: request, in: input)
    }

    private func allowsKeys(of request: Request, in input: UnsafeRawBufferPointer) -> Bool {
        // SAFETY: keys are parts of the input, which stays in place during the call.
        switch request {
        case .retrieve(let retrieval):
            var keys = unsafe KeyIterator(input, retrieval.keys)
            while let key = keys.next() {
                if unsafe !allows(key: input[key]) { return false }
            }
            return true
        case .store(let header): return unsafe allows(key: input[header.key])
        case .delete(let key, _), .touch(let key, _, _), .arithmetic(let key, _, _, _):
            return unsafe allows(key: input[key])
        case .meta(let meta):
            if meta.operation == .noOperation { return true }
            return unsafe meta.withKey(in: input) { unsafe allows(key: $0) }
        default: return true
        }
    }

    private func allows(key: UnsafeRawBufferPointer) -> Bool {
        let prefix = account.keyPrefix
        guard key.count >= prefix.count else { return false }
        return unsafe prefix.elementsEqual(key.prefix(prefix.count))
    }
}

extension Request {
    /// The rights that the request needs, all of them.
    func neededRights(in input: UnsafeRawBufferPointer) -> AccessRights {
        switch self {
        case .retrieve(let retrieval): retrieval.expiration == nil ? .read : [.read, .write]
        case .store, .delete, .arithmetic, .touch: .write
        case .version, .quit, .help: []
        case .flushAll, .verbosity, .cacheMemoryLimit, .shutdown, .watch, .crawler, .slabsAutomove: .admin
        // SAFETY: the bytes are read during the call.
        case .stats(let argument): unsafe Self.rights(forStatistics: input[argument])
        case .meta(let meta): meta.neededRights
        }
    }

    /// Groups of statistics that show no keys and change nothing.
    private static let harmlessGroups: Set<String> = ["settings", "items", "slabs", "sizes", "conns", "extstore"]

    private static func rights(forStatistics argument: UnsafeRawBufferPointer) -> AccessRights {
        let words = unsafe String(decoding: argument, as: UTF8.self).split(separator: " ")
        guard let group = words.first else { return .read }
        return harmlessGroups.contains(String(group)) ? .read : .admin
    }

    /// Whether the client wants no answer, not even to a refusal.
    ///
    /// Meta commands hide only their nominal answer.
    var hidesRefusal: Bool {
        switch self {
        case .store(let header): header.isQuiet
        case .delete(_, let isQuiet), .touch(_, _, let isQuiet), .arithmetic(_, _, _, let isQuiet),
            .flushAll(_, let isQuiet), .verbosity(_, let isQuiet), .cacheMemoryLimit(_, let isQuiet),
            .crawler(_, let isQuiet), .slabsAutomove(let isQuiet):
            isQuiet
        case .retrieve, .version, .quit, .stats, .help, .shutdown, .watch, .meta: false
        }
    }

    /// Length of the data block behind the line, CR LF included; 0 if there is none.
    var dataBlockBytes: Int {
        switch self {
        case .store(let header): header.valueBytes + 2
        case .meta(let meta): meta.operation == .set ? meta.valueBytes + 2 : 0
        default: 0
        }
    }
}

extension MetaRequest {
    fileprivate var neededRights: AccessRights {
        switch operation {
        case .noOperation: []
        case .get, .inspect: changesEntry ? [.read, .write] : .read
        case .set, .delete, .arithmetic: .write
        }
    }
}
