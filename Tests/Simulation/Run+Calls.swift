// Where threads meet, and where the disk fails: what becomes of each call on a file.

import Glibc
import SimulatedSystem

extension Run {
    /// What becomes of a call.
    func decide(_ call: Int32, _ name: String, _ offset: Int64, _ count: Int64) -> Int64 {
        counts.calls += 1
        if isDead || isCalm {
            if call == SIM_WAIT.int { daemon?.runWriter() }
            return max(1, count)
        }
        trace("call \(call) \(name) \(offset) \(count)")
        if callsToDeath != .max {
            callsToDeath -= 1
            if callsToDeath <= 0 {
                // Torn: a part is written, and then comes the end.
                if call == SIM_WRITE.int, count > 1, random.isOne(in: 2) {
                    return Int64(1 + random.below(Int(count) - 1))
                }
                return die(in: call, count)
            }
        }
        if call == SIM_WAIT.int { return letOthersRun() }
        if mayMeet(call, name), depth < 3, random.below(256) < (name == "window" ? 200 : plan.switches) {
            _ = letOthersRun()
            if isDead { return count }
        }
        if failures.share > 0, mayFail(call), random.below(256) < failures.share {
            counts.failedCalls += 1
            if call == SIM_WRITE.int, count > 1, random.isOne(in: 3) { return Int64(1 + random.below(Int(count) - 1)) }
            trace("fails")
            return Int64(-failures.code)
        }
        return count
    }

    /// Whether others may run before this call: SQLite makes some while it holds locks of the process.
    private func mayMeet(_ call: Int32, _ name: String) -> Bool {
        if name.hasSuffix("-shm") { return false }
        if name.hasPrefix("index.db") { return [SIM_READ.int, SIM_WRITE.int, SIM_SYNC.int].contains(call) }
        return true
    }

    /// Lets one or two others run; 0 if nobody could.
    private func letOthersRun() -> Int64 {
        depth += 1
        defer { depth -= 1 }
        counts.switches += 1
        for _ in 0...random.below(3) where !isDead {
            switch random.below(10) {
            case 0..<3: letAsk()
            case 3..<6: runConnection()
            case 6: runWriter()
            case 7..<9: runReader()
            default: pass(Int64(random.below(20)))
            }
        }
        return 1
    }

    // MARK: Faults

    func causeFault() {
        switch plan.faults {
        case .none: return
        case .calls:
            if failures.share > 0 { failures = (0, 0) } else { failures = ([2, 20, 255][random.below(3)], EIO) }
            trace("failures \(failures)")
        case .room where plan.theme == .shortage: turnShortage()
        case .room:
            sim_set_room(Self.roomBytes, Self.roomFiles)
            failures = (0, 0)
            switch random.below(6) {
            case 5: sim_set_room(Self.roomBytes, sim_used_files())
            case 0: sim_set_room(sim_used_bytes() + Int64(random.below(30_000)), Self.roomFiles)
            case 1: sim_set_room(Self.roomBytes, sim_used_files())
            case 2: failures = ([60, 256][random.below(2)], random.isOne(in: 2) ? ENOSPC : EDQUOT)
            default: break
            }
            trace("room, failures \(failures)")
        case .damage: for _ in 0...random.below(3) { if random.isOne(in: 2) { damage() } else { damageValue() } }
        }
    }

    /// Begins a shortage, or ends one, which is seldom before the journal is closed.
    ///
    /// The log has room of its own, which it writes again and again: only a refusal of each write keeps commits away.
    private func turnShortage() {
        if isShort, !random.isOne(in: isBarred ? 2 : 30) { return }
        isShort.toggle()
        failures = isShort ? (256, ENOSPC) : (0, 0)
        trace(isShort ? "no room" : "room")
    }

    /// A full file system refuses only what needs room.
    func mayFail(_ call: Int32) -> Bool {
        if call == SIM_SLEEP.int { return false }
        if failures.code == EIO { return true }
        return [SIM_WRITE.int, SIM_CREATE.int, SIM_MAKE.int, SIM_ALLOCATE.int].contains(call)
    }

    private var files: [(name: String, bytes: Int64)] {
        var found: [(String, Int64)] = []
        var bytes: Int64 = 0
        while let name = sim_file(Int64(found.count), &bytes) { found.append((String(cString: name), bytes)) }
        return found
    }

    private func damage(of wanted: String? = nil) {
        let files = files
        guard !files.isEmpty else { return }
        let index = wanted.flatMap { name in files.firstIndex { $0.name == name } } ?? random.below(files.count)
        let (name, bytes) = files[index]
        // The log's shared memory is memory; the lock is no data.
        guard bytes > 0, !name.hasSuffix("-shm"), name != "lock" else { return }
        // Seldom what gives the whole store up.
        if name == "FORMAT" || name == "anchor", !random.isOne(in: 6) { return }
        let offset = Int64(random.below(Int(bytes)))
        trace("flip \(name) \(offset)")
        for key in keys { key.note("\(time) flip \(name) at \(offset)") }
        counts.flips += 1
        sim_flip(Int64(index), offset, UInt32(random.below(8)))
    }

    /// Flips a bit in a value, where it is: most of a file is not read again before it is written.
    private func damageValue(in name: String? = nil) {
        let key = keys[random.below(keys.count)].name
        let places = files.indices.compactMap { index -> (index: Int, offset: Int64)? in
            let found = sim_seek(Int64(index), "\(key):", Int64(random.below(max(1, Int(files[index].bytes)))))
            let isMeant = name.map { $0 == files[index].name } ?? !files[index].name.hasSuffix("-shm")
            return found >= 0 && isMeant ? (index, found) : nil
        }
        guard !places.isEmpty else { return }
        let (index, offset) = places[random.below(places.count)]
        trace("flip a value of \(key): \(files[index].name) \(offset)")
        for key in keys { key.note("\(time) flip a value in \(files[index].name) at \(offset)") }
        counts.flips += 1
        sim_flip(Int64(index), offset + Int64(key.utf8.count) + Int64(random.below(4)), UInt32(random.below(8)))
    }

    /// What happens to a disk while nobody uses it.
    func damageAtRest() {
        guard plan.faults == .damage else { return }
        switch random.below(9) {
        case 0: for _ in 0..<6 { damage(of: "journal") }
        case 1: for _ in 0..<6 { damage(of: "index.db") }
        case 2, 3: for _ in 0..<6 { damageValue(in: "index.db") }
        case 4: for _ in 0..<6 { damageValue(in: "journal") }
        case 5: for _ in 0..<3 { damageValue() }
        case 6, 7:
            guard let index = files.firstIndex(where: { $0.name == "index.db-wal" }) else { return }
            trace("the log is lost")
            for key in keys { key.note("\(time) the log is lost") }
            sim_lose(Int64(index))
        default: return
        }
    }
}
