// What may be answered: for each key, all writes that were asked for, with the times in which they may have happened.
//
// A read may see a write that began before the read ended, unless another write came surely after it and surely before
// the read. An absence (at first, by a delete, a flush, or because time is over) is a write like others. A miss is
// right wherever entries may vanish; else it needs an absence. Times are counts of events: a write has happened at the
// latest when its answer came, or at the end of the process that was to answer, and surely only by an answer, or by a
// read that saw it.

/// Some answer that nothing explains.
struct Wrong: Error, CustomStringConvertible {
    var description: String
}

/// One deadline that an entry was given.
struct Deadline {
    /// Between which times, in ms of the true clock, the entry ends; `.max`: never.
    var earliest: Int64
    var latest: Int64
    /// The time to live, and what an answer may come later than the clock is read.
    var life: Int64
    var began: Int
    var over = Int.max
    var sure = Int.max

    /// The clock cannot have been read later than this.
    mutating func settle(_ clock: Int64) {
        if earliest != .max, latest == .max { latest = clock + life }
    }

    mutating func postpone(_ milliseconds: Int64) {
        if earliest != .max { earliest += milliseconds }
        if latest != .max { latest += milliseconds }
    }
}

/// One change of a key.
final class Write {
    let what: String
    /// nil: the key holds nothing.
    var content: [UInt8]?
    fileprivate(set) var flags: UInt32
    /// When it was asked for.
    let began: Int
    /// When it had happened, if it did.
    var over = Int.max
    /// When it had surely happened.
    var sure = Int.max
    /// It did not happen.
    var isVoid = false
    /// Its answer came: where that is promised, it survives a power cut.
    var isAnswered = false
    var deadlines: [Deadline] = []
    var cas: UInt64?

    init(_ what: String, _ content: [UInt8]?, flags: UInt32 = 0, began: Int) {
        self.what = what
        self.content = content
        self.flags = flags
        self.began = began
    }

    /// What is known now: it happened, and before this.
    func confirm(_ time: Int) {
        over = min(over, time)
        sure = min(sure, time)
        for index in deadlines.indices where deadlines[index].began == began {
            deadlines[index].over = min(deadlines[index].over, time)
            deadlines[index].sure = min(deadlines[index].sure, time)
        }
    }

    /// If it happens, then before this.
    func end(_ time: Int, _ clock: Int64) {
        over = min(over, time)
        for index in deadlines.indices {
            deadlines[index].over = min(deadlines[index].over, time)
            deadlines[index].settle(clock)
        }
    }
}

/// What is known about one key.
final class KeyModel {
    let name: String
    private(set) var writes: [Write] = []
    /// What nobody may see any more, where a power cut may bring it back; else nothing.
    private var past: [Write] = []
    private let keepsPast: Bool
    private let losesUnanswered: Bool
    private var contentOf: [UInt64: [UInt8]] = [:]
    /// Changes without an answer.
    var open = 0
    /// One of them does not go together with others.
    var isExclusive = false
    /// The latest events, for a report.
    private(set) var history: [String] = []

    /// `losesUnanswered`: a power cut may undo what was seen, if nobody was told that it is done.
    init(_ name: String, keepsPast: Bool, losesUnanswered: Bool) {
        self.name = name
        self.keepsPast = keepsPast
        self.losesUnanswered = losesUnanswered
        let absence = Write("nothing", nil, began: -1)
        absence.confirm(-1)
        absence.isAnswered = true
        writes = [absence]
    }

    func note(_ event: String) {
        history.append(event)
        if history.count > 60 { history.removeFirst(20) }
    }

    @discardableResult
    func add(_ write: Write) -> Write {
        writes.append(write)
        return write
    }

    private func isPast(_ write: Write, at time: Int) -> Bool {
        writes.contains { $0 !== write && !$0.isVoid && $0.sure < time && write.over < $0.began }
    }

    /// Writes that a read from `time` on may see.
    func candidates(_ time: Int) -> [Write] { writes.filter { !$0.isVoid && !isPast($0, at: time) } }

    /// Whether nobody may see it any more, power cuts included.
    private func isReplaced(_ write: Write, at time: Int) -> Bool {
        writes.contains { other in
            other !== write && !other.isVoid && other.sure < time && write.over < other.began
                && (other.isAnswered || !losesUnanswered)
        }
    }

    /// Forgets what nobody may see any more.
    func compact(_ time: Int) {
        guard open == 0, writes.count > 12 else { return }
        let left = writes.filter { !$0.isVoid && !isReplaced($0, at: time) }
        if keepsPast { past += writes.filter { write in !write.isVoid && !left.contains { $0 === write } } }
        writes = left
    }

    /// Deadlines that a read from `time` on may find.
    func deadlines(_ write: Write, _ time: Int) -> [Deadline] {
        write.deadlines.filter { one in
            !write.deadlines.contains { $0.sure < time && one.over < $0.began }
        }
    }

    /// A read has found `content`; it was asked at `time` and `clock`, and answered at `end`.
    func sees(_ content: [UInt8], flags: UInt32?, cas: UInt64?, from time: Int, _ clock: Int64, to end: Int) throws {
        let named = writes.filter { $0.content == content && !$0.isVoid }
        guard !named.isEmpty else {
            let text = String(decoding: content.prefix(60), as: UTF8.self)
            throw Wrong(description: "\(name): \(content.count) bytes that were never stored: \(text)")
        }
        let now = named.filter { !isPast($0, at: time) }
        guard !now.isEmpty else {
            let newer = writes.last { $0.sure < time && !$0.isVoid }
            throw Wrong(description: "\(name): old value \(named.map(\.what)), after \(newer?.what ?? "?")")
        }
        let alive = now.filter { write in
            write.deadlines.isEmpty || deadlines(write, time).contains { $0.latest > clock }
        }
        guard !alive.isEmpty else {
            throw Wrong(description: "\(name): \(now.map(\.what)) after its time, at \(clock): \(now[0].deadlines)")
        }
        if let flags, !alive.contains(where: { $0.flags == flags }) {
            throw Wrong(description: "\(name): flags \(flags), not \(alive.map(\.flags))")
        }
        try check(cas, content, alive)
        if alive.count == 1 { alive[0].confirm(end) }
    }

    private func check(_ cas: UInt64?, _ content: [UInt8], _ found: [Write]) throws {
        guard let cas else { return }
        if let other = contentOf[cas], other != content {
            throw Wrong(description: "\(name): cas \(cas) stands for two values")
        }
        contentOf[cas] = content
        guard found.count == 1 else { return }
        if let known = found[0].cas, known != cas {
            throw Wrong(description: "\(name): \(found[0].what) has cas \(cas), had \(known)")
        }
        found[0].cas = cas
    }

    /// Whether a read from `time` on may find nothing; `clock` is that at its end.
    func mayMiss(_ time: Int, _ clock: Int64) -> Bool {
        candidates(time).contains { write in
            write.content == nil || deadlines(write, time).contains { $0.earliest <= clock }
        }
    }

    /// A read was told that there is nothing.
    func misses(from time: Int, _ clock: Int64, to end: Int) throws {
        let found = candidates(time)
        guard mayMiss(time, clock) else {
            throw Wrong(description: "\(name): lost \(found.map(\.what)) at \(clock)")
        }
        if found.count == 1, found[0].content == nil { found[0].confirm(end) }
    }

    /// Something was told that is only true of a key that holds something.
    func isThere(from time: Int, _ what: String) throws {
        if candidates(time).contains(where: { $0.content != nil }) { return }
        throw Wrong(description: "\(name): \(what), but it holds nothing")
    }

    /// All that ever was may be back: an unclean reboot that was to keep what it finds.
    func revive(_ time: Int) {
        var revived: [[UInt8]?: Write] = [:]
        let all = past + writes
        for write in all where !write.isVoid {
            let again = revived[write.content] ?? Write("revived " + write.what, write.content, began: time)
            again.flags = write.flags
            again.over = time
            again.deadlines += write.deadlines.map { old in
                var deadline = old
                deadline.began = time
                deadline.over = time
                deadline.sure = .max
                return deadline
            }
            if revived.updateValue(again, forKey: write.content) == nil { writes.append(again) }
        }
        past = []
    }

    func forgetIDs() { contentOf = [:] }

    /// The power was cut: what was seen and not answered may be undone.
    func forgetUnanswered() {
        for write in writes where !write.isAnswered {
            write.sure = .max
            for index in write.deadlines.indices { write.deadlines[index].sure = .max }
        }
    }

    /// A boot has set the store's clock: what is given in its time comes so much later by the true clock.
    func postpone(_ milliseconds: Int64) {
        for write in writes {
            for index in write.deadlines.indices { write.deadlines[index].postpone(milliseconds) }
        }
    }
}
