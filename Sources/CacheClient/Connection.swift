// A blocking connection that speaks memcached's text protocol, as bytes and lines; the commands are in Commands.swift.
//
// Requests are sent while replies are read, so that a long pipeline cannot deadlock against a server that waits for its
// own output to drain. After a failure that leaves the position in the stream unknown the connection refuses all work.
// Belongs to one thread at a time; not Sendable.

import Primitives

/// How long a connection waits, in milliseconds.
///
/// Each limit is for one step without progress, not for a whole command.
public struct Timeouts: Hashable, Sendable {
    /// For each address tried while connecting.
    public var connectMilliseconds: Int
    /// For the server to take or to give more bytes.
    public var progressMilliseconds: Int

    /// Five seconds for either unless told otherwise.
    public init(connectMilliseconds: Int = 5000, progressMilliseconds: Int = 5000) {
        self.connectMilliseconds = connectMilliseconds
        self.progressMilliseconds = progressMilliseconds
    }
}

/// One connection to one server.
public final class Connection {
    /// With whom.
    public let address: ServerAddress
    private let socket: Socket
    let timeouts: Timeouts
    private var output = ByteBuffer()
    private var input = ByteBuffer()
    /// Bytes at the front of `input` that are known to hold no line end, so that long lines are searched once.
    private var scannedBytes = 0
    private var isUsable = true

    /// Longest line that is taken from a server; memcached's own are below 2 KiB.
    private static let lineBytesMax = 65_536
    /// Read size; large enough that a big value costs few system calls.
    private static let readBytes = 65_536

    /// Connects, encrypted if so wanted.
    ///
    /// - Throws: `ClientError` with the operation `connect`.
    public init(
        to address: ServerAddress, encryption: Encryption? = nil, timeouts: Timeouts = Timeouts()
    ) throws(ClientError) {
        self.address = address
        self.timeouts = timeouts
        socket = try Socket(
            connectingTo: address, encryption: encryption, timeoutMilliseconds: timeouts.connectMilliseconds)
    }

    /// Queues `bytes` for the next read, or for `flush`.
    public func enqueue(_ bytes: [UInt8]) { output.append(bytes.span) }

    /// Queues `text` for the next read, or for `flush`.
    public func enqueue(_ text: String) { output.append(text) }

    /// Sends all that is queued.
    ///
    /// Replies that arrive meanwhile are kept.
    public func flush(for operation: String = "send") throws(ClientError) {
        try requireUsable(operation)
        while !output.isEmpty {
            try pushOutput(operation)
            if output.isEmpty { break }
            let readiness = socket.wait(orWritable: true, timeoutMilliseconds: timeouts.progressMilliseconds)
            guard case .ready(let canRead, _) = readiness else {
                throw fail(operation, .timedOut(milliseconds: timeouts.progressMilliseconds))
            }
            // Draining lets a server go on that has stopped reading until its replies are taken.
            if canRead { try pullInput(Self.readBytes, operation) }
        }
    }

    /// The next line, without its `\r\n` or `\n`.
    ///
    /// Sends first what is queued.
    public func readLine(for operation: String = "read") throws(ClientError) -> String {
        try flush(for: operation)
        while true {
            if let line = takeLine() { return line }
            if input.count > Self.lineBytesMax { throw fail(operation, .malformedReply("a line without end")) }
            try waitForInput(Self.readBytes, operation)
        }
    }

    /// The next `count` bytes.
    ///
    /// Sends first what is queued.
    public func readBytes(_ count: Int, for operation: String = "read") throws(ClientError) -> [UInt8] {
        invariant(count >= 0, "negative read of \(count) bytes")
        try flush(for: operation)
        // Memory grows with what has arrived, not with what a server claims.
        while input.count < count { try waitForInput(min(count - input.count, 1 << 20), operation) }
        // SAFETY: `count` bytes are readable, by the loop above, and copied before the buffer changes.
        let bytes = unsafe Array(UnsafeRawBufferPointer(rebasing: input.readable[..<count]))
        input.consume(count)
        scannedBytes = 0
        return bytes
    }

    /// An error of this connection; it refuses all work from now on unless the cause leaves its stream in step.
    func fail(_ operation: String, _ cause: ClientError.Cause) -> ClientError {
        let error = ClientError(operation: operation, address: address, cause: cause)
        if !error.leavesConnectionUsable { isUsable = false }
        return error
    }

    private func requireUsable(_ operation: String) throws(ClientError) {
        if !isUsable { throw ClientError(operation: operation, address: address, cause: .closed) }
    }

    private func takeLine() -> String? {
        let bytes = unsafe input.readable
        guard let end = unsafe bytes[scannedBytes...].firstIndex(of: 10) else {
            scannedBytes = input.count
            return nil
        }
        let hasReturn = unsafe end > 0 && bytes[end - 1] == 13
        let line = unsafe String(decoding: bytes[..<(hasReturn ? end - 1 : end)], as: UTF8.self)
        input.consume(end + 1)
        scannedBytes = 0
        return line
    }

    private func waitForInput(_ wanted: Int, _ operation: String) throws(ClientError) {
        if try pullInput(wanted, operation) { return }
        let readiness = socket.wait(orWritable: false, timeoutMilliseconds: timeouts.progressMilliseconds)
        if readiness == .timedOut { throw fail(operation, .timedOut(milliseconds: timeouts.progressMilliseconds)) }
    }

    /// Sends what the kernel takes of the queue.
    private func pushOutput(_ operation: String) throws(ClientError) {
        switch unsafe socket.send(output.readable) {
        case .moved(let count): output.consume(count)
        case .wouldBlock: break
        case .closed: throw fail(operation, .closed)
        case .failed(let number): throw fail(operation, .system(call: "send", errno: number))
        case .untrusted(let reason): throw fail(operation, .encryption(reason))
        }
    }

    /// Takes what has arrived; false when that is nothing.
    @discardableResult
    private func pullInput(_ wanted: Int, _ operation: String) throws(ClientError) -> Bool {
        let room = unsafe input.reserve(wanted)
        switch unsafe socket.receive(into: room) {
        case .moved(let count): input.commit(count)
        case .wouldBlock: return false
        case .closed: throw fail(operation, .closed)
        case .failed(let number): throw fail(operation, .system(call: "recv", errno: number))
        case .untrusted(let reason): throw fail(operation, .encryption(reason))
        }
        return true
    }
}
