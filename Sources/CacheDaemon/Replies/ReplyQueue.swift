// Replies that cannot be sent yet, because one before them waits for the engine.
//
//     get a b c        VALUE a -> output | slot for b: following = VALUE c, END | ...
//
// A slot is one part of a reply that is still to come: a value that is being read from disk, or the leave to
// acknowledge a change once it is durable. Everything said after it waits in the slot's `following`. Slots are
// answered in any order and leave in the order of the commands. Empty for connections whose replies all come from
// memory.

import CacheEngine
import Primitives
import Protocol

/// One part of a connection's replies that waits for the engine.
final class Slot {
    /// What the slot waits for.
    enum Purpose {
        /// The value of a key; `touch` is the new deadline that a hit gets.
        case value(key: [UInt8], includesCAS: Bool, touch: Instant?)
        /// What a meta command asked.
        case meta(KeptMetaRequest)
        /// Durability of the changes acknowledged in `following`.
        case commit
    }

    /// What has come of it.
    enum Answer {
        case pending
        /// A large value was found, and let go of, because others come before it: it is asked for again in its turn.
        case deferred
        /// Nothing is to be said: a miss, or a change that is durable now.
        case nothing
        case entry(PinnedEntry)
        /// A value that comes in chunks, and how far it is.
        case stream(ValueStream, StreamStage)

        /// Bytes of the value that was found.
        var valueBytes: Int? {
            switch self {
            case .entry(let entry): entry.valueBytes
            case .stream(let stream, _): stream.valueBytes
            case .pending, .deferred, .nothing: nil
            }
        }

        /// Which version of the entry was found.
        var version: EntryVersion? {
            switch self {
            case .entry(let entry): entry.version
            case .stream(let stream, _): stream.version
            case .pending, .deferred, .nothing: nil
            }
        }
    }

    /// How far a stream is.
    enum StreamStage {
        case unstarted
        case chunkRequested
        case chunkReady
        /// The chunk is in the output, which must drain before the next one is requested.
        case chunkInOutput

        /// Whether memory for a chunk is held that is in no output.
        var hasChunk: Bool { self == .chunkRequested || self == .chunkReady }
    }

    let purpose: Purpose
    /// When it was asked, in ns of the boot clock.
    let asked: Int64
    var answer = Answer.pending
    /// What `gat` found, while its touch waits.
    var untouched: Answer?
    /// The answer, while the change that belongs to it is made durable.
    var uncommitted: Answer?
    /// The beginning of this part, as far as it is known.
    var lead = Output()
    /// The replies after this part.
    var following = Output()

    init(_ purpose: Purpose, asked: Int64 = 0) {
        self.purpose = purpose
        self.asked = asked
    }

    /// Bytes of memory that the slot holds beside entries.
    var heldBytes: Int {
        let chunk = if case .stream(let stream, let stage) = answer, stage.hasChunk { stream.chunkBytesMax } else { 0 }
        return lead.heldBytes + following.heldBytes + chunk
    }

    /// Bytes of values that the slot refers to.
    var referencedBytes: Int {
        let answered = if case .entry(let entry) = answer { entry.valueBytes } else { 0 }
        return lead.referencedBytes + following.referencedBytes + answered
    }

    /// Bytes of those that are no entries any more.
    var detachedBytes: Int {
        let answered = if case .entry(let entry) = answer, entry.isDetached { entry.valueBytes } else { 0 }
        return lead.detachedBytes + following.detachedBytes + answered
    }

    /// Whether the slot asks what a key holds.
    var isRead: Bool { if case .commit = purpose { false } else { true } }

    /// Whether it is asked for a value by a classic command.
    var isClassic: Bool { if case .value = purpose { true } else { false } }

    /// Whether the entry will be changed when it is found: what the client says next must see the change.
    var isChange: Bool {
        switch purpose {
        case .value(_, _, let touch): touch != nil
        case .meta(let question): question.request.changesEntry
        case .commit: false
        }
    }
}

/// The slots of one connection, oldest first.
struct ReplyQueue: ~Copyable {
    /// Most slots at a time; the connection executes nothing more until some left.
    static let slotsMax = 64
    /// The same while the disk answers with values that are large.
    private static let largeSlotsMin = 2
    private var slotsRoom = ReplyQueue.slotsMax

    /// Slots are numbered 1...numberMax and then from 1 again; only few of them exist at a time.
    private static let numberMax: UInt32 = 1 << 30

    private var slots: [Slot] = []
    private var firstNumber: UInt32 = 1
    /// Values asked of the engine and not answered yet.
    ///
    /// While there are any, nothing that changes entries is executed, so that a client's commands keep their order.
    private(set) var openReads = 0
    /// Of those, values of entries that will be changed when they are found.
    ///
    /// While there are any, nothing is executed.
    private(set) var openChanges = 0

    var isEmpty: Bool { slots.isEmpty }

    /// Whether the connection must wait before it executes more.
    var isFull: Bool {
        guard !slots.isEmpty else { return false }
        if slots.count >= slotsRoom { return true }
        var (bytes, references) = (0, 0)
        for slot in slots {
            bytes += slot.following.bytes.count
            references += slot.following.references.count
        }
        return bytes >= Output.bytesMax || references >= Output.referencesMax
            || referencedBytes >= Output.referencedBytesMax
    }

    /// Bytes of memory that all slots hold beside entries.
    var heldBytes: Int { slots.reduce(0) { $0 + $1.heldBytes } }

    /// Bytes of values that all slots refer to.
    var referencedBytes: Int { slots.reduce(0) { $0 + $1.referencedBytes } }

    /// Bytes of those that are no entries any more.
    var detachedBytes: Int { slots.reduce(0) { $0 + $1.detachedBytes } }

    /// Notes the size of a value that the disk gave: of large ones fewer are asked for at a time.
    mutating func noteSize(_ valueBytes: Int) {
        slotsRoom = min(Self.slotsMax, max(Self.largeSlotsMin, Output.referencedBytesMax / max(1, valueBytes)))
    }

    /// Whether the slot's part is the next to be sent.
    func isFront(_ slot: Slot) -> Bool { slots.first === slot }

    /// The first slot and its number, if its value is to be asked for again, which the caller does now.
    func takeDeferredFront() -> (Slot, UInt32)? {
        guard let slot = slots.first, case .deferred = slot.answer else { return nil }
        slot.answer = .pending
        return (slot, firstNumber)
    }

    /// The newest slot; what is said now goes into its `following`.
    var last: Slot? { slots.last }

    /// Appends a slot; returns its number.
    mutating func append(_ slot: Slot) -> UInt32 {
        if slot.isRead { openReads += 1 }
        if slot.isChange { openChanges += 1 }
        slots.append(slot)
        return number(at: slots.count - 1)
    }

    /// The slot of that number, if it is still here.
    subscript(number: UInt32) -> Slot? {
        let distance = number >= firstNumber ? number - firstNumber : number + Self.numberMax - firstNumber
        return distance < slots.count ? slots[Int(distance)] : nil
    }

    private func number(at index: Int) -> UInt32 {
        let number = firstNumber + UInt32(index)
        return number > Self.numberMax ? number - Self.numberMax : number
    }

    /// Sets the final answer of a slot that asked for a value.
    mutating func answer(_ slot: Slot, _ answer: Slot.Answer) {
        slot.answer = answer
        if slot.isRead { openReads -= 1 }
        if slot.isChange { openChanges -= 1 }
    }

    /// Moves what can be sent, up to the first part that still waits, into `output`, which has been sent before.
    ///
    /// - Parameter request: asks for the next chunk of a stream on behalf of the slot with that number.
    mutating func moveReady(to output: inout Output, request: (ValueStream, UInt32) -> Void) {
        var gone = 0
        while gone < slots.count, !output.isFull, send(slots[gone], number(at: gone), &output, request) { gone += 1 }
        guard gone > 0 else { return }
        firstNumber = number(at: gone)
        slots.removeFirst(gone)
        if slots.isEmpty { slots = [] }
    }

    /// Puts a slot's part into the output; false if it is not complete yet.
    private func send(
        _ slot: Slot, _ number: UInt32, _ output: inout Output, _ request: (ValueStream, UInt32) -> Void
    ) -> Bool {
        switch slot.answer {
        case .pending, .deferred, .stream(_, .chunkRequested):
            return false
        case .nothing:
            output.take(&slot.lead)
        case .entry(let entry):
            guard case .value(let key, let includesCAS, _) = slot.purpose else { break }
            // SAFETY: the key outlives the call.
            unsafe key.withUnsafeBytes { unsafe output.appendValue(key: $0, entry, includesCAS: includesCAS) }
        case .stream(let stream, .unstarted):
            output.take(&slot.lead)
            slot.answer = .stream(stream, .chunkRequested)
            request(stream, number)
            return false
        case .stream(let stream, .chunkReady):
            output.appendChunk(stream)
            guard stream.isComplete else {
                slot.answer = .stream(stream, .chunkInOutput)
                return false
            }
            output.bytes.append("\r\n")
        case .stream(let stream, .chunkInOutput):
            guard output.isEmpty else { return false }
            slot.answer = .stream(stream, .chunkRequested)
            request(stream, number)
            return false
        }
        output.take(&slot.following)
        return true
    }

    /// Whether `moveReady` has something to do once the output has drained.
    var hasReadyFront: Bool {
        switch slots.first?.answer {
        case nil, .pending, .stream(_, .chunkRequested): false
        default: true
        }
    }
}
