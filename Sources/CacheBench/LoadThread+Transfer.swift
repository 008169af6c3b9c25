// The bytes of a load thread: requests are written, replies are read and judged.

import CacheClient
import Glibc
import Primitives

extension LoadThread {
    /// Begins a batch on an idle connection; its operations count from `start`.
    mutating func begin(_ index: Int, at start: UInt64) {
        unsafe connections[index].batchStart = start
        unsafe connections[index].unwritten = source.reserve(settings.pipeline)
        write(index)
    }

    /// Writes the rest of the batch, unless the kernel takes no more.
    private mutating func write(_ index: Int) {
        while unsafe connections[index].unwritten > 0 {
            let next = source.next()
            let request = next.isSet ? writeSet(next.key) : writeGet(next.key)
            unsafe connections[index].push(request)
            unsafe connections[index].unwritten &-= 1
            if batch.count >= Self.scratchBytes, !send(index) { return }
        }
        _ = send(index)
    }

    @inline(__always)
    private mutating func writeGet(_ key: UInt32) -> PendingRequest {
        let count = keyText.count
        let room = unsafe batch.reserve(count &+ 6)
        // SAFETY: `room` has `count + 6` bytes.
        if let base = unsafe room.baseAddress?.assumingMemoryBound(to: UInt8.self) {
            unsafe memcpy(base, "get ", 4)
            unsafe keyText.write(key, to: base + 4)
            unsafe base[count &+ 4] = 13
            unsafe base[count &+ 5] = 10
        }
        batch.commit(count &+ 6)
        let floor = states?.floor(key) ?? 0
        return PendingRequest(key: key, isSet: false, ticket: .init(version: floor, settled: 0))
    }

    private mutating func writeSet(_ key: UInt32) -> PendingRequest {
        let ticket: KeyStates.Ticket
        if let states {
            ticket = states.issue(key)
        } else {
            // Versions are not judged then; they only vary the bytes.
            version = version &+ 1 == 0 ? 1 : version &+ 1
            ticket = .init(version: version, settled: KeyStates.Ticket.unknown)
        }
        let count = keyText.count
        let size = pattern.bytes(of: key, ticket.version)
        let room = unsafe batch.reserve(count &+ 4)
        // SAFETY: `room` has `count + 4` bytes, and then `size + 2`.
        if let base = unsafe room.baseAddress?.assumingMemoryBound(to: UInt8.self) {
            unsafe memcpy(base, "set ", 4)
            unsafe keyText.write(key, to: base + 4)
        }
        batch.commit(count &+ 4)
        batch.append(setTail.utf8.span)
        batch.append(decimal: UInt64(size))
        batch.append("\r\n")
        if let base = unsafe batch.reserve(size &+ 2).baseAddress {
            unsafe pattern.write(key, ticket.version, size, to: base)
            unsafe base.storeBytes(of: 13, toByteOffset: size, as: UInt8.self)
            unsafe base.storeBytes(of: 10, toByteOffset: size &+ 1, as: UInt8.self)
        }
        batch.commit(size &+ 2)
        return PendingRequest(key: key, isSet: true, ticket: ticket)
    }

    /// Sends what was written; false if the connection takes no more for now.
    ///
    /// What is left waits in its own buffer.
    private mutating func send(_ index: Int) -> Bool {
        while !batch.isEmpty {
            switch unsafe connections[index].socket?.send(batch.readable) ?? .closed {
            case .moved(let count):
                result.tally.bytesSent &+= count
                batch.consume(count)
            case .wouldBlock:
                unsafe connections[index].output.append(batch.readable)
                batch.consume(batch.count)
                watchOutput(index, true)
                return false
            case .closed:
                drop(index, "the server closed a connection")
                return false
            case .failed(let number):
                drop(index, "send: errno \(number)")
                return false
            case .untrusted(let reason):
                drop(index, "send: TLS: \(reason)")
                return false
            }
        }
        return true
    }

    /// The connection takes bytes again.
    mutating func flush(_ index: Int) {
        while unsafe !connections[index].output.isEmpty {
            let outcome = unsafe connections[index].socket?.send(connections[index].output.readable) ?? .closed
            switch outcome {
            case .moved(let count):
                result.tally.bytesSent &+= count
                unsafe connections[index].output.consume(count)
            case .wouldBlock: return
            case .closed: return drop(index, "the server closed a connection")
            case .failed(let number): return drop(index, "send: errno \(number)")
            case .untrusted(let reason): return drop(index, "send: TLS: \(reason)")
            }
        }
        if unsafe connections[index].watchesOutput { watchOutput(index, false) }
        write(index)
    }

    private func watchOutput(_ index: Int, _ output: Bool) {
        guard let descriptor = unsafe connections[index].socket?.descriptor else { return }
        poll.watch(descriptor, index: index, output: output)
        unsafe connections[index].watchesOutput = output
    }

    /// Reads once and takes the replies that are whole; returns the time after the read.
    mutating func receive(_ index: Int) -> UInt64 {
        let isWaiting = unsafe !connections[index].input.isEmpty
        let room: UnsafeMutableRawBufferPointer
        if isWaiting {
            let missing = unsafe connections[index].wanted &- connections[index].input.count
            unsafe room = connections[index].input.reserve(max(missing, 16_384))
        } else {
            unsafe room = UnsafeMutableRawBufferPointer(start: scratch, count: Self.scratchBytes)
        }
        let outcome = unsafe connections[index].socket?.receive(into: room) ?? .wouldBlock
        let now = monotonicNanoseconds()
        switch outcome {
        case .moved(let count):
            result.tally.bytesReceived &+= count
            result.end = now
            if isWaiting { unsafe connections[index].input.commit(count) }
            let bytes =
                unsafe isWaiting ? connections[index].input.readable : UnsafeRawBufferPointer(rebasing: room[..<count])
            unsafe takeReplies(index, bytes, isWaiting, now)
        case .wouldBlock: break
        case .closed: drop(index, "the server closed a connection")
        case .failed(let number): drop(index, "recv: errno \(number)")
        case .untrusted(let reason): drop(index, "recv: TLS: \(reason)")
        }
        return now
    }

    /// Takes whole replies from the front of `bytes` and keeps the rest for the next read.
    private mutating func takeReplies(
        _ index: Int, _ bytes: UnsafeRawBufferPointer, _ isInput: Bool, _ now: UInt64
    ) {
        guard let base = unsafe bytes.baseAddress?.assumingMemoryBound(to: UInt8.self) else { return }
        if isInput, unsafe bytes.count < connections[index].wanted { return }
        let getsBefore = result.tally.gets
        let setsBefore = result.tally.sets
        let start = unsafe connections[index].batchStart
        var position = 0
        var isBroken = false
        unsafe connections[index].wanted = 0
        while position < bytes.count {
            guard unsafe connections[index].pendingCount > 0 else {
                isBroken = true
                break
            }
            let length = unsafe takeReply(index, base + position, bytes.count &- position)
            if length <= 0 {
                isBroken = length < 0
                break
            }
            position &+= length
        }
        let gets = result.tally.gets &- getsBefore
        let sets = result.tally.sets &- setsBefore
        let latency = now > start ? now &- start : 0
        if gets > 0 { result.getLatency.record(latency, times: UInt64(gets)) }
        if sets > 0 { result.setLatency.record(latency, times: UInt64(sets)) }
        if isBroken {
            result.tally.malformed += 1
            let excerpt = unsafe UnsafeRawBufferPointer(rebasing: bytes[position..<min(position + 60, bytes.count)])
            let text = unsafe String(decoding: excerpt, as: UTF8.self).debugDescription
            drop(index, "no such reply can be right here: \(text)")
        } else if isInput {
            unsafe connections[index].input.consume(position)
        } else if position < bytes.count {
            unsafe connections[index].input.append(UnsafeRawBufferPointer(rebasing: bytes[position...]))
        }
    }

    /// Takes the reply to the oldest request.
    ///
    /// Returns its length, 0 if it is not whole, -1 if it makes no sense.
    @inline(__always)
    private mutating func takeReply(_ index: Int, _ bytes: UnsafePointer<UInt8>, _ count: Int) -> Int {
        let request = unsafe connections[index].oldest
        let scan: ReplyScan
        if request.isSet {
            scan = unsafe .ofSet(bytes, count)
        } else {
            unsafe keyText.write(request.key, to: head + 6)
            scan = unsafe .ofGet(bytes, count, head: head, headCount: 6 &+ keyText.count)
        }
        let length: Int
        switch scan {
        case .value(let offset, let size, let whole):
            length = whole
            result.tally.gets &+= 1
            result.tally.hits &+= 1
            if settings.verify { unsafe judge(request, bytes + offset, size) }
        case .miss:
            length = ReplyScan.missBytes
            result.tally.gets &+= 1
        case .stored:
            length = ReplyScan.storedBytes
            result.tally.sets &+= 1
            states?.answer(request.key, request.ticket, stored: true)
        case .refused(let whole):
            length = whole
            result.tally.refused &+= 1
            let line = unsafe UnsafeBufferPointer(start: bytes, count: whole)
            result.tally.remark(unsafe String(decoding: line, as: UTF8.self).debugDescription)
            if request.isSet { states?.answer(request.key, request.ticket, stored: false) }
        case .incomplete(let wanted):
            unsafe connections[index].wanted = wanted
            return 0
        case .malformed: return -1
        }
        unsafe connections[index].pop()
        return length
    }

    /// Counts what is wrong with a value.
    @inline(__always)
    private mutating func judge(_ request: PendingRequest, _ value: UnsafePointer<UInt8>, _ size: Int) {
        let floor = request.ticket.version
        switch unsafe pattern.check(request.key, value, size) {
        case .intact(let version, let isOurs):
            if isOurs, version >= floor || version == 0 { return }
            if !isOurs, floor == 0 {
                result.tally.earlier &+= 1
                return
            }
            result.tally.stale &+= 1
            let origin = isOurs ? "version \(version)" : "a value of an earlier run"
            result.tally.remark("key \(request.key): stale, \(origin) after version \(floor) was stored")
        case .foreign:
            result.tally.foreign &+= 1
            result.tally.remark("key \(request.key): the value of another key")
        case .torn(let byte):
            result.tally.torn &+= 1
            result.tally.remark("key \(request.key): \(size) bytes, wrong from byte \(byte) on")
        }
    }
}
