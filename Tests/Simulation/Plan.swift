// What one seed is about: the options of the daemon, the faults that may come, and how often things happen.
//
// Everything is drawn from the seed before the first step. Limits are tiny, so that everything is full all the time:
// memory of some KiB, a journal of 32 KiB, values around each border between the ways to keep them.

import Primitives
import TestSupport

@testable import CacheEngine

/// The faults of one run, beside being killed.
enum FaultKind: String, CaseIterable {
    /// Nothing but kills and power cuts: what was acknowledged has to be there.
    case none
    /// Calls fail with EIO, or write only a part.
    case calls
    /// No room, or no inodes, for a while.
    case room
    /// Bits flip, files get lost.
    case damage
}

/// What is rare, and what some seeds are about.
enum Theme {
    case none
    /// Power cuts, with whatever is on the disk then.
    case cuts
    /// The civil clock is set, and processes end.
    case clock
    /// Large values, one start after the other: files of many epochs.
    case restarts
    /// The disk is full until the journal is closed, and then has room again.
    case shortage

    /// Those that any seed may be about; a shortage is for seeds whose faults are of room.
    static let drawn = [none, cuts, clock, restarts]
}

/// What may happen next.
enum StepKind: CaseIterable {
    case ask, connection, writer, reader, background, moment, period, disconnect, jump, fault, end

    /// Its usual share.
    var weight: Int {
        switch self {
        case .ask: 260
        case .connection: 300
        case .writer, .reader: 160
        case .background: 20
        case .moment: 60
        case .period: 12
        case .disconnect, .jump: 4
        case .fault: 14
        case .end: 10
        }
    }
}

/// What one seed is about.
struct Plan {
    let seed: UInt64
    var options = CacheOptions()
    var faults = FaultKind.none
    var clients = 1
    var keys = 4
    /// The civil clock is set now and then.
    var jumps = false
    /// Of 1000 steps, so many are the end of a process.
    var kills = 8
    var powerCuts = false
    var stops = 2
    /// Of 256 calls on files, in so many something else runs before.
    var switches = 60
    /// How often each kind of step comes, in the order of `StepKind`.
    var weights: [Int] = []
    /// Whether entries may vanish without a fault.
    var mayVanish = false
    /// The rare moment that the seed is about.
    var theme = Theme.none
    /// Of three deaths, so many are power cuts.
    var cutShare = 1
    /// Of 20 values, so many are large, whatever the others are.
    var largeShare = 0

    init(seed: UInt64, directory: String, faults wanted: FaultKind? = nil) {
        self.seed = seed
        var random = SeededRandom(seed: seed &* 0x9e37_79b9 &+ 77)
        clients = 1 + random.below(4)
        keys = 2 + random.below(8)
        faults = random.isOne(in: 2) ? .none : FaultKind.allCases[1 + random.below(3)]
        if let wanted { faults = wanted }
        jumps = random.isOne(in: 8)
        kills = [0, 4, 8, 20][random.below(4)]
        stops = [0, 2, 4][random.below(3)]
        switches = [0, 30, 60, 120][random.below(4)]
        powerCuts = random.isOne(in: 2)
        // Each seed starves somebody else.
        weights = StepKind.allCases.map { $0.weight * [1, 2, 4, 8][random.below(4)] }
        if faults != .none { favourFaults() }
        options.memory.shards = 1 << random.below(2)
        options.memory.bytesMax = [24 << 10, 64 << 10, 256 << 10, 1 << 20][random.below(4)]
        options.entryBytesMax = 300 << 10
        if random.isOne(in: 40) {
            mayVanish = true
            faults = .none
            return
        }
        options.disk = disk(directory, &random)
        if random.isOne(in: 2) { theme = Theme.drawn[random.below(Theme.drawn.count)] }
        follow(theme, &random)
        // Drawn apart: what all other seeds are about does not depend on it.
        var apart = SeededRandom(seed: seed &* 0x85eb_ca6b &+ 3)
        if faults == .room, theme == .none, apart.isOne(in: 2) { favourShortage(&apart) }
    }

    /// Few and small keys, of which all have rows, and a journal that is full at once: what is written while it is
    /// closed stands against rows, and memory is too small to hide them.
    private mutating func favourShortage(_ random: inout SeededRandom) {
        theme = .shortage
        options.memory.bytesMax = 24 << 10
        options.disk?.journalBytes = 4 << 10
        options.disk?.durability = random.isOne(in: 3) ? .always : .process
        options.disk?.write = .through
        options.disk?.admission = .all
        options.disk?.writeBudget = nil
        options.disk?.entriesMax = nil
        kills = min(kills, 8)
        weights = zip(StepKind.allCases, weights).map { kind, weight in
            switch kind {
            case .end: max(1, weight / 4)
            case .period, .fault: max(weight, 150)
            case .ask, .connection, .writer: max(weight, 1000)
            default: weight
            }
        }
    }

    /// Makes the moments of the theme frequent.
    private mutating func follow(_ theme: Theme, _ random: inout SeededRandom) {
        switch theme {
        case .none, .shortage: return
        case .cuts:
            powerCuts = true
            cutShare = 2
            options.disk?.durability = random.isOne(in: 3) ? .always : .process
            options.disk?.write = .through
            options.disk?.admission = .all
            options.disk?.writeBudget = nil
        case .clock: jumps = true
        case .restarts:
            largeShare = 12
            switches = 120
        }
        kills = max(kills, 8)
        stops = max(stops, 4)
        weights = zip(StepKind.allCases, weights).map { kind, weight in
            switch kind {
            case .end: weight * 3
            case .jump where theme == .clock: weight * 4
            default: weight
            }
        }
    }

    /// Gives faults the time and the occasions that they need.
    private mutating func favourFaults() {
        kills = max(kills, 8)
        // Damage is found in a store that is used again, and most of it by reading from disk what a stop has put there.
        stops = max(stops, faults == .damage ? 14 : 4)
        if faults == .damage { powerCuts = false }
        weights = zip(StepKind.allCases, weights).map { kind, weight in
            kind == .period || kind == .fault || kind == .end ? weight * 3 : weight
        }
    }

    private mutating func disk(_ directory: String, _ random: inout SeededRandom) -> DiskOptions {
        var disk = DiskOptions(directory: directory)
        disk.bytesMax = 64 << 20
        disk.journalBytes = [32 << 10, 64 << 10, 256 << 10, 1 << 20][random.below(4)]
        if faults == .room { disk.journalBytes = [4 << 10, 8 << 10][random.below(2)] }
        disk.inlineBytesMax = [200, 2000, 20 << 10][random.below(3)]
        disk.readers = 1 + random.below(2)
        disk.trimInterval = [50, 1000, 10_000][random.below(3)]
        disk.durability = [faults == .damage ? .process : .none, .process, .process, .always][random.below(4)]
        disk.afterPowerLoss = random.isOne(in: 4) ? .keep : .discard
        if random.isOne(in: 4) {
            disk.bytesMax = 4 << 20
            mayVanish = true
        }
        if random.isOne(in: 8) {
            disk.entriesMax = 1 + random.below(6)
            mayVanish = true
        }
        if random.isOne(in: 10) {
            disk.ageMax = 5000
            mayVanish = true
        }
        guard disk.durability != .always, random.isOne(in: 3) else { return disk }
        mayVanish = true
        disk.write = random.isOne(in: 2) ? .onEvict : .through
        disk.admission = random.isOne(in: 2) ? .secondHit : .all
        if random.isOne(in: 4) { disk.writeBudget = 10_000_000 }
        return disk
    }

    /// One line for a report.
    var summary: String {
        let disk = options.disk.map {
            "\($0.durability) \($0.afterPowerLoss) \($0.write) \($0.admission) journal \($0.journalBytes) inline "
                + "\($0.inlineBytesMax) readers \($0.readers) limit \($0.bytesMax)/\($0.entriesMax ?? 0)"
        }
        return
            "\(clients) clients, \(keys) keys, memory \(options.memory.bytesMax ?? 0)/\(options.memory.shards ?? 0), "
            + "\(disk ?? "no disk"), faults \(faults), kills \(kills), power cuts \(powerCuts), jumps \(jumps), "
            + "theme \(theme)"
    }
}
