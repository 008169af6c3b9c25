// One thread of load: an event loop over its connections.
//
// Each connection sends a batch of `pipeline` requests in one write, reads until all are answered, and sends the next.
// An operation's latency runs from the moment its batch was begun (with a rate: was due, so that a stalled server
// cannot hide the requests that it kept from being sent) to the moment its reply was read. Per batch there are one
// send, one receive and one look at the clock; per operation nothing is allocated and no system call is made.

import CacheClient
import Glibc
import Primitives

/// What one thread has to report.
struct ThreadResult: Sendable {
    var tally = Tally()
    var getLatency = Histogram()
    var setLatency = Histogram()
    /// When its last reply came, in nanoseconds of the monotonic clock.
    var end: UInt64 = 0
    /// Connections that were down when the run ended.
    var unreachable = 0
}

/// The event loop of one thread.
///
/// Made, run and dropped on that thread.
@safe
struct LoadThread: ~Copyable {
    let settings: BenchSettings
    let pattern: ValuePattern
    let states: KeyStates?
    let keyText: KeyText
    var source: RequestSource
    var result = ThreadResult()
    /// Requests being written; empty between batches.
    var batch = ByteBuffer()
    /// Versions given out where no states are kept.
    var version: UInt32 = 0
    var isStopping = false
    let poll = EventPoll()
    // SAFETY: `connections` holds `count` initialized connections, `scratch` and `head` bytes of the given sizes; all
    // are allocated in `init` and freed in deinit.
    let connections: UnsafeMutablePointer<LoadConnection>
    let count: Int
    let scratch: UnsafeMutableRawPointer
    /// `VALUE ` and room for one key.
    let head: UnsafeMutablePointer<UInt8>
    let setTail: String
    private var brokenCount = 0
    private var idle: [Int] = []

    /// Bytes read at once, and the size at which a batch is written in pieces.
    static let scratchBytes = 256 * 1024
    /// Wait between looks at the deadline while nothing happens.
    private static let turnMilliseconds: Int32 = 100
    /// How long a silent server is waited for at the end, and a vanished one at any time.
    private static let patienceNanoseconds: UInt64 = 10_000_000_000

    /// Connects `count` connections.
    init(
        _ settings: BenchSettings, count: Int, source: RequestSource, pattern: ValuePattern, states: KeyStates?
    ) throws(ClientError) {
        self.settings = settings
        self.source = source
        self.pattern = pattern
        self.states = states
        self.count = count
        keyText = KeyText(prefix: settings.keyPrefix, count: settings.keyBytes)
        setTail = " 0 \(settings.ttlSeconds) "
        unsafe connections = .allocate(capacity: count)
        for index in 0..<count {
            unsafe (connections + index).initialize(to: LoadConnection(capacity: settings.pipeline))
        }
        unsafe scratch = .allocate(byteCount: Self.scratchBytes, alignment: 64)
        unsafe head = .allocate(capacity: 6 + settings.keyBytes)
        for (index, byte) in "VALUE ".utf8.enumerated() { unsafe head[index] = byte }
        for index in 0..<count { try connect(index) }
    }

    deinit {
        unsafe connections.deinitialize(count: count)
        unsafe connections.deallocate()
        unsafe scratch.deallocate()
        unsafe head.deallocate()
    }

    private func connect(_ index: Int) throws(ClientError) {
        let socket = try Socket(
            connectingTo: settings.address, encryption: settings.encryption, timeoutMilliseconds: 5000)
        if let login = settings.login {
            try socket.authenticate(login, address: settings.address, timeoutMilliseconds: 10_000)
        }
        poll.add(socket.descriptor, index: index)
        unsafe connections[index].socket = consume socket
    }

    /// Runs from `start` to `deadline` (monotonic nanoseconds), or until the source is empty, and then until all
    /// requests are answered.
    ///
    /// `progress` is told the number of operations now and then.
    mutating func run(start: UInt64, deadline: UInt64, progress: (Int) -> Void) -> ThreadResult {
        let pacer = Pacer(settings, start: start)
        if var pacer {
            runPaced(&pacer, deadline, progress)
        } else {
            for index in 0..<count { begin(index, at: monotonicNanoseconds()) }
            while !turn(deadline, Self.turnMilliseconds, isPaced: false) { progress(result.tally.operations) }
        }
        drain(progress)
        result.end = max(result.end, start)
        result.unreachable = brokenCount
        progress(result.tally.operations)
        return result
    }

    private mutating func runPaced(_ pacer: inout Pacer, _ deadline: UInt64, _ progress: (Int) -> Void) {
        idle = Array(0..<count)
        while true {
            var now = monotonicNanoseconds()
            while let index = idle.last, pacer.due <= now, source.remaining > 0, now < deadline {
                idle.removeLast()
                begin(index, at: pacer.due)
                pacer.advance()
                now = monotonicNanoseconds()
            }
            // Waits shorter than a millisecond are spun away: epoll counts in milliseconds.
            let wait =
                idle.isEmpty ? Self.turnMilliseconds : pacer.milliseconds(after: now, most: Self.turnMilliseconds)
            if turn(deadline, wait, isPaced: true) { return }
            progress(result.tally.operations)
        }
    }

    /// One turn of the loop; true when no more requests are to be sent.
    private mutating func turn(_ deadline: UInt64, _ milliseconds: Int32, isPaced: Bool) -> Bool {
        let events = poll.wait(milliseconds: milliseconds)
        var now: UInt64 = events == 0 ? monotonicNanoseconds() : 0
        for position in 0..<events {
            let event = poll[position]
            let wasIdle = unsafe connections[event.index].isIdle
            if event.isReadable { now = receive(event.index) }
            if event.isWritable { flush(event.index) }
            if now >= deadline || source.remaining == 0 { isStopping = true }
            guard !wasIdle, isReady(event.index) else { continue }
            if isPaced {
                idle.append(event.index)
            } else if !isStopping {
                begin(event.index, at: now == 0 ? monotonicNanoseconds() : now)
            }
        }
        if now >= deadline || source.remaining == 0 { isStopping = true }
        if brokenCount > 0, !isStopping { reconnect(isPaced: isPaced) }
        return isStopping
    }

    /// Whether the connection is there and its batch is done.
    private func isReady(_ index: Int) -> Bool {
        unsafe connections[index].isIdle && connections[index].socket != nil
    }

    /// Takes the replies that are still to come.
    private mutating func drain(_ progress: (Int) -> Void) {
        let began = monotonicNanoseconds()
        while (0..<count).contains(where: { unsafe !connections[$0].isIdle }) {
            let events = poll.wait(milliseconds: Self.turnMilliseconds)
            for position in 0..<events {
                let event = poll[position]
                if event.isReadable { _ = receive(event.index) }
                if event.isWritable { flush(event.index) }
            }
            progress(result.tally.operations)
            if monotonicNanoseconds() &- max(result.end, began) > Self.patienceNanoseconds { break }
        }
        for index in 0..<count { result.tally.lost += unsafe connections[index].unansweredCount }
    }

    /// The connection is of no use any more.
    mutating func drop(_ index: Int, _ reason: String) {
        result.tally.disconnects += 1
        result.tally.lost += unsafe connections[index].reset()
        result.tally.remark(reason)
        batch.consume(batch.count)
        brokenCount += 1
        idle.removeAll { $0 == index }
    }

    /// Tries once to bring each broken connection back, and gives up on the run when none has been there for long.
    private mutating func reconnect(isPaced: Bool) {
        for index in 0..<count where unsafe connections[index].socket == nil {
            do throws(ClientError) {
                try connect(index)
            } catch {
                // The next turn tries again; a refused connection comes back at once, so wait a little here.
                _ = Glibc.poll(nil, 0, 10)
                break
            }
            brokenCount -= 1
            if isPaced { idle.append(index) } else { begin(index, at: monotonicNanoseconds()) }
        }
        let silence = monotonicNanoseconds() &- max(result.end, 1)
        if brokenCount == count, result.end > 0, silence > Self.patienceNanoseconds { isStopping = true }
    }
}

/// When batches are due, so that a thread's share of the rate comes out.
struct Pacer {
    /// When the next batch is due, in nanoseconds of the monotonic clock.
    private(set) var due: UInt64
    private var exact: Double
    private let interval: Double

    /// Nil if the settings name no rate.
    init?(_ settings: BenchSettings, start: UInt64) {
        guard let rate = settings.rate else { return nil }
        interval = Double(settings.pipeline) * 1e9 * Double(settings.threads) / rate
        exact = Double(start)
        due = start
    }

    mutating func advance() {
        exact += interval
        due = UInt64(exact)
    }

    /// Whole milliseconds from `now` until the next batch, at most `most`.
    func milliseconds(after now: UInt64, most: Int32) -> Int32 {
        due <= now ? 0 : Int32(min((due - now) / 1_000_000, UInt64(most)))
    }
}
