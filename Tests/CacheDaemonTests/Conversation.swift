// A session without sockets: the tests feed it bytes, take its replies, and decide when and in which order the
// engine's answers arrive.

import CacheEngine
import Foundation
import Primitives
import Protocol
import TestSupport

@testable import CacheDaemon

/// Collects the engine's completions until a test delivers them.
final class HeldCompletions: CompletionQueue, ConnectionWaker, LoginReceiver {
    private let completions = Monitor([Completion](), rank: .mailbox)

    func post(_ completion: Completion) { completions.update { $0.append(completion) } }

    func wake(connection: UInt32) {}

    func deliver(_ verdict: LoginVerdict, connection: UInt32) {}

    /// Waits until there are `count`, and takes them, in the order of their tokens.
    func take(_ count: Int) -> [Completion] {
        let taken: [Completion]? = completions.wait(milliseconds: 10_000 * Int64(patience)) { waiting in
            guard waiting.count >= count else { return nil }
            let taken = Array(waiting.prefix(count))
            waiting.removeFirst(count)
            return taken
        }
        return (taken ?? []).sorted { $0.token < $1.token }
    }

    /// Takes what is there.
    func takeAll() -> [Completion] {
        completions.withLock { waiting in
            defer { waiting = [] }
            return waiting
        }
    }
}

/// A clock that tests move.
final class ManualClock: TimeSource {
    private let milliseconds = Guarded(Int64(1_000_000), rank: .leaf)

    func now() -> Instant { Instant(milliseconds: milliseconds.withLock { $0 }) }
    func wall() -> WallTime { WallTime(milliseconds: 1_700_000_000_000 + milliseconds.withLock { $0 }) }
    func advance(_ by: Int64) { milliseconds.withLock { $0 += by } }
}

/// One client's side of a session.
final class Conversation {
    let cache: Cache
    let held = HeldCompletions()
    let log = LogLines()
    private let service: Service
    private let counters: Counters
    private var session: Session
    private var turn: Turn
    private var input: [UInt8] = []
    private var watcher: UInt64?
    private let near: Int32
    private let far: Int32
    private let vectors = SendVectors()
    private let ownsCache: Bool
    /// Replies taken from the session so far and not returned yet.
    private var replies: [UInt8] = []
    /// Whether the session's replies are taken from it; false plays a client that does not read.
    var isReading = true

    /// A conversation that closes its cache at its end.
    convenience init(owning cache: Cache) throws { try self.init(cache, ownsCache: true) }

    init(_ cache: Cache, settings: Settings = Settings(), id: UInt32 = 1, ownsCache: Bool = false) throws {
        self.cache = cache
        self.ownsCache = ownsCache
        let log = self.log
        service = Service(
            cache: cache, settings: settings, log: Log(level: .debug) { log.add($0) }, control: try ServerControl())
        counters = service.makeCounters()
        session = Session(id: id, limits: service.limits)
        turn = Turn(service: service, counters: counters, completions: held)
        var pair: [Int32] = [-1, -1]
        precondition(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0, &pair) == 0)
        (near, far) = (pair[0], pair[1])
    }

    deinit {
        session.abandon(turn)
        if ownsCache { cache.close() }
        close(near)
        close(far)
    }

    var stall: Stall { session.stall }
    var isClosing: Bool { session.stall == .closing }
    var openReads: Int { session.replies.openReads }
    /// Bytes of values that replies in line refer to, and of memory that they hold beside.
    var queuedBytes: Int { session.replies.referencedBytes + session.replies.heldBytes }
    var unconsumedBytes: Int { input.count }
    var wantsBody: Bool { !session.bodyRoom().isEmpty }
    func count(_ counter: Counter) -> UInt64 { counters.read(counter) }

    /// Feeds bytes, and answers what that gives at once.
    @discardableResult
    func say(_ bytes: some Collection<UInt8>) -> String {
        input += bytes
        run()
        return takeReplies()
    }

    @discardableResult
    func say(_ text: String) -> String { say(Array(text.utf8)) }

    /// Reads bytes straight into the value being received; returns how many fitted.
    func sayDirectly(_ bytes: [UInt8]) -> Int {
        let room = session.bodyRoom()
        let count = min(room.count, bytes.count)
        room.copyBytes(from: bytes.prefix(count))
        session.receiveDirectly(count)
        return count
    }

    /// Delivers completions in the given order, then goes on.
    @discardableResult
    func deliver(_ completions: [Completion]) -> String {
        for completion in completions {
            turn.begin()
            session.complete(completion, number: Token(bits: completion.token).number, &turn)
        }
        run()
        return takeReplies()
    }

    /// Delivers whatever the engine answers until the session waits for the client again.
    @discardableResult
    func finish() -> String {
        while session.stall == .engine || session.stall == .slots || !session.replies.isEmpty {
            let completions = held.take(1)
            guard !completions.isEmpty else { break }
            for completion in completions {
                turn.begin()
                session.complete(completion, number: Token(bits: completion.token).number, &turn)
            }
            run()
        }
        return takeReplies()
    }

    /// Watches what this conversation does, as another client would.
    func watch(_ topics: WatchTopics) {
        watcher = service.watch(topics, waker: held, connection: 0)
    }

    /// What a watcher was told since the last call, without times and numbers.
    func watchedLines() -> [String] {
        var lines = ByteBuffer()
        if let watcher { service.watchers.take(watcher, into: &lines) }
        let text = String(decoding: lines.readable, as: UTF8.self)
        return text.split(separator: "\n").map { $0.split(separator: " ").dropFirst(2).joined(separator: " ") }
    }

    /// The statistics of a group, by name.
    func statistics(_ group: String) -> [String: String] {
        var values: [String: String] = [:]
        for line in say("stats \(group)\r\n").split(separator: "\r\n") {
            let words = line.split(separator: " ", maxSplits: 2)
            if words.count == 3, words[0] == "STAT" { values[String(words[1])] = String(words[2]) }
        }
        return values
    }

    /// Everything that the session said since the last call.
    func takeReplies() -> String {
        defer { replies = [] }
        return String(decoding: replies, as: UTF8.self)
    }

    /// Turns until the session can do nothing more, as a connection does.
    func run() {
        for _ in 0..<100_000 {
            if isReading { drain() } else if !turn.output.isEmpty { return }
            turn.begin()
            session.sendReady(&turn)
            let before = input.count
            if session.canGoOn {
                let consumed = input.withUnsafeBytes { session.process($0, &turn) }
                input.removeFirst(consumed)
            }
            let isMoving = session.stall == .turn || session.stall == .output || input.count != before
            guard isMoving || session.replies.hasReadyFront || !turn.output.isEmpty else { return }
        }
        preconditionFailure("the session turns for ever")
    }

    private func drain() {
        while !turn.output.isEmpty {
            switch turn.output.send(to: near, vectors) {
            case .sent, .full: receive()
            case .failed: preconditionFailure("send: errno \(errno)")
            }
        }
    }

    private func receive() {
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = recv(far, &buffer, buffer.count, 0)
            guard count > 0 else { return }
            replies += buffer.prefix(count)
        }
    }
}

/// Keeps log lines for tests.
final class LogLines: Sendable {
    private let lines = Guarded([String](), rank: .leaf)
    func add(_ line: String) { lines.withLock { $0.append(line) } }
    var all: [String] { lines.withLock { $0 } }
}

/// A directory that is gone after the test.
final class TemporaryDirectory {
    let path: String

    init() throws {
        path = NSTemporaryDirectory() + "cache-daemon-test-" + UUID().uuidString
        try FileManager.default.createDirectory(
            atPath: path, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }
}

/// A cache without a disk tier.
func memoryCache(clock: any TimeSource = SystemClock(), _ change: (inout CacheOptions) -> Void = { _ in }) throws
    -> Cache
{
    var options = CacheOptions()
    change(&options)
    return try Cache.open(options, clock: clock)
}

/// A cache whose memory is empty and whose disk tier holds `entries`, as after a restart.
func coldCache(
    _ entries: [String: [UInt8]], in directory: TemporaryDirectory, _ change: (inout CacheOptions) -> Void = { _ in }
) throws -> Cache {
    var options = CacheOptions()
    var disk = DiskOptions(directory: directory.path + "/cache")
    disk.journalBytes = 4 << 20
    options.disk = disk
    change(&options)
    try fill(options, entries)
    return try Cache.open(options)
}

/// Stores entries in a cache that is closed, and gone, afterwards.
private func fill(_ options: CacheOptions, _ entries: [String: [UInt8]]) throws {
    let writer = try Conversation(owning: try Cache.open(options))
    for (key, value) in entries {
        let line = "set \(key) 7 0 \(value.count)\r\n"
        let reply = writer.say(Array(line.utf8) + value + Array("\r\n".utf8)) + writer.finish()
        precondition(reply == "STORED\r\n", reply)
    }
}
