// Checks a stopped store from end to end: directory, index, every row, value and file; and removes what is bad.
//
//     lock -> what would a start decide -> index -> rows and values -> (repair) -> files -> (repair)
//
// Without `repair` nothing is changed but SQLite's shared-memory file. A store that a start would quarantine or discard
// is left to that start, or, with `repair`, dealt with in the same way. Memory does not grow with the store, but for
// what is bad. One thread; the directory is locked all the while, so no daemon can have it.

import Glibc
import Primitives
import SQLite

/// How far a check is.
public struct StoreCheckProgress: Sendable, Equatable {
    /// What is being looked at.
    public enum Stage: String, Sendable {
        case index, rows, files
    }

    /// What is being looked at.
    public var stage: Stage
    /// Rows, or subdirectories of value files, that were looked at.
    public var done: Int
    /// How many there are.
    public var total: Int
}

/// What a check found.
public struct StoreCheckReport: Sendable, Equatable {
    /// Sound entries.
    public var entries = 0
    /// Bytes of their values.
    public var valueBytes = 0
    /// Sound value files.
    public var files = 0
    /// Rows whose sum, or whose value's sum, is wrong.
    public var damagedRows = 0
    /// Rows whose value file is not there.
    public var missingFiles = 0
    /// Rows whose value file does not fit them.
    public var damagedFiles = 0
    /// Value files that neither a row nor the journal refers to.
    public var orphanFiles = 0
    /// Names among the value files that are not of our making; never touched.
    public var foreignNames = 0
    /// Changes in the journal that the next start brings into the index.
    public var journalChanges = 0
    /// What is wrong with the index as a whole; nil: nothing.
    public var indexDamage: String?
    /// What the next start will do, in words.
    public var nextStart = ""
    /// Whether SQLite's indexes disagree with the rows: entries may not be found.
    public var hasWrongIndexes = false
    /// Whether the next start uses the store.
    public var isUsable = true
    /// Whether what was bad has been removed.
    public var isRepaired = false

    /// Whether nothing was found that costs entries or space.
    ///
    /// An orphan is what a kill leaves; a start removes it, too.
    public var isSound: Bool {
        isUsable && indexDamage == nil && !hasWrongIndexes && damagedRows == 0 && missingFiles == 0
            && damagedFiles == 0 && orphanFiles == 0
    }
}

/// The offline check of a disk tier.
public enum StoreCheck {
    /// Checks the store in `directory`, which must be there; with `repair`, removes what is bad.
    ///
    /// `progress` is called between steps. O(bytes of the store).
    ///
    /// - Throws: `.directoryInUse` while a cache has it, `.unusableDirectory` when there is none, it is not ours, or it
    ///   cannot be read.
    public static func run(
        directory: String, afterPowerLoss: PowerLossPolicy = .discard, repair: Bool = false,
        progress: (StoreCheckProgress) -> Void = { _ in }
    ) throws(CacheError) -> StoreCheckReport {
        do {
            // SAFETY: access(2) reads the path during the call; also below.
            guard unsafe access(directory, F_OK) == 0 else { throw StoreError.failed("open", directory) }
            let store = try StoreDirectory.open(path: directory)
            defer { store.release() }
            let policy: UncleanRebootPolicy = afterPowerLoss == .keep ? .keep : .discard
            let checker = StoreChecker(store, policy)
            try checker.check(repair: repair, progress)
            return checker.report
        } catch let error as StoreError {
            if case .heldBy(let pid) = error { throw .directoryInUse(directory: directory, pid: pid) }
            throw .unusableDirectory(directory: directory, reason: "\(error)")
        } catch let error as JournalFile.Failure {
            throw .unusableDirectory(
                directory: directory, reason: "journal: \(error.operation): \(systemErrorText(error.errno))")
        } catch {
            throw .unusableDirectory(directory: directory, reason: "\(error)")
        }
    }
}

extension Cache {
    /// Why a cache would not go on with the store in `directory`; nil if it would.
    ///
    /// For readers of a store that must not lose it: opening sets aside what cannot be trusted. Nothing is changed.
    public static func problemOfResuming(_ directory: String, afterPowerLoss: PowerLossPolicy) -> String? {
        do throws(StoreError) {
            guard unsafe access(directory, F_OK) == 0 else { return "there is no such directory" }
            let store = try StoreDirectory.open(path: directory)
            defer { store.release() }
            let verdict = try store.foresee(
                policy: afterPowerLoss == .keep ? .keep : .discard, bootID: DiskStart.bootID
            ).0
            if case .resumed = verdict { return nil }
            return "a start would find: " + DiskStart.report(verdict)
        } catch {
            if case .heldBy = error { return nil }
            return "\(error)"
        }
    }
}

/// One check of one directory.
final class StoreChecker {
    let directory: StoreDirectory
    let policy: UncleanRebootPolicy
    var report = StoreCheckReport()
    /// Rows that are to go: id and generation.
    var badRows: [(row: Int64, generation: UInt64)] = []
    private var journal = JournalFile.Inspection()
    private var hasWrongTotals = false

    init(_ directory: StoreDirectory, _ policy: UncleanRebootPolicy) {
        self.directory = directory
        self.policy = policy
    }

    func check(repair: Bool, _ progress: (StoreCheckProgress) -> Void) throws {
        let (verdict, anchor) = try directory.foresee(policy: policy, bootID: DiskStart.bootID)
        report.nextStart = DiskStart.report(verdict)
        guard case .resumed(let afterCrash) = verdict, let anchor else {
            report.isUsable = verdict == .fresh
            if repair, !report.isUsable { try startAnew(anchor) }
            return
        }
        guard let values = try valueFiles() else {
            report.isUsable = false
            report.nextStart = "the store has no value directory: a start makes one"
            return
        }
        try checkIndex(anchor, values, afterCrash: afterCrash, progress)
        if repair, report.indexDamage != nil || !report.isUsable { return try quarantine(anchor) }
        guard report.isUsable, report.indexDamage == nil else { return }
        do {
            try checkFiles(values, repair ? anchor : nil, afterCrash: afterCrash, progress)
        } catch let error as DiskError where repair && error.kind == .corrupt {
            // More is wrong than the rows tell.
            report.indexDamage = "\(error)"
            try setAside()
        }
    }

    private func valueFiles() throws -> ValueFiles? {
        guard let store = try directory.root.subdirectory(StoreDirectory.storeName, create: false),
            let values = try store.subdirectory(StoreDirectory.valuesName, create: false)
        else { return nil }
        return ValueFiles(directory: values)
    }

    // MARK: Index and rows

    private func checkIndex(
        _ anchor: StoreAnchor, _ values: ValueFiles, afterCrash: Bool, _ progress: (StoreCheckProgress) -> Void
    ) throws {
        progress(StoreCheckProgress(stage: .index, done: 0, total: 1))
        do {
            let connection = try Connection(path: directory.location.path, access: .readOnly)
            connection.setDefensive()
            connection.setNoCheckpointOnClose()
            try connection.execute("PRAGMA query_only = ON; PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0")
            let finding = try connection.text("PRAGMA quick_check(1)") ?? "no answer"
            guard finding == "ok" else { return report.indexDamage = finding }
            let state = try DiskIndexOpening.readState(connection)
            guard state.sequence >= anchor.sequence else {
                return report.indexDamage = "it is at sequence \(state.sequence), the anchor at \(anchor.sequence)"
            }
            try inspectJournal(state, afterCrash: afterCrash)
            var pass = StoreRowPass(values, total: state.totals.entries)
            try pass.run(connection, progress)
            report.add(pass)
            badRows = pass.badRows
            hasWrongTotals = pass.totals != state.totals
            report.hasWrongIndexes = try connection.text("PRAGMA integrity_check(1)") != "ok"
        } catch let error as SQLiteError where [.corrupt, .constraint].contains(error.cause) {
            report.indexDamage = "\(error)"
        }
    }

    private func inspectJournal(_ state: IndexState, afterCrash: Bool) throws {
        guard let format = directory.format else { return }
        if let descriptor = try directory.root.openFile(StoreDirectory.journalName, O_RDWR) {
            journal = try JournalFile.inspect(
                descriptor: descriptor, seed: format.seed, boot: DiskStart.bootHash, indexSequence: state.sequence)
        } else {
            journal.isLost = true
        }
        report.journalChanges = journal.records
        if journal.isBarred || journal.isLost && afterCrash && state.totals.entries > 0 {
            report.isUsable = false
            report.nextStart =
                "store quarantined: "
                + (journal.isBarred ? "it stopped while writes were barred" : "the journal is lost")
        }
    }

    // MARK: Files

    private func checkFiles(
        _ values: ValueFiles, _ anchor: StoreAnchor?, afterCrash: Bool, _ progress: (StoreCheckProgress) -> Void
    ) throws {
        var sweep = StoreFilePass(values, journal: journal.files)
        if let anchor {
            // As at a start, which raises the epoch; the journal stays as it is.
            _ = try directory.start(policy: policy, durability: anchor.durability, bootID: DiskStart.bootID)
            let index = try DiskIndex(directory: directory, options: IndexOptions(synchronous: .full))
            try removeBadRows(index)
            try sweep.run(progress, removes: true) { try index.hasFile(generation: $0) }
            try index.sync()
            let sequence = index.sequence
            index.close()
            if !afterCrash { try directory.writeAnchor(sequence: sequence, clean: true, sync: true) }
            report.isRepaired = true
        } else {
            let connection = try Connection(path: directory.location.path, access: .readOnly)
            connection.setNoCheckpointOnClose()
            var find = try connection.prepare(
                "SELECT 1 FROM entry WHERE generation = ?1 AND fileBytes > 0", name: "find value file")
            try sweep.run(progress, removes: false) { generation in
                find.bind(bits: generation, at: 1)
                defer { find.reset() }
                return try find.step()
            }
        }
        report.orphanFiles = sweep.orphans
        report.foreignNames = sweep.foreign
    }

    private func removeBadRows(_ index: DiskIndex) throws {
        if report.hasWrongIndexes { try index.rebuildIndexes() }
        if badRows.isEmpty, !hasWrongTotals { return }
        try index.begin()
        for bad in badRows { _ = try index.deleteRow(bad.row, ifGeneration: bad.generation) }
        try index.setTotals(try index.recount())
        try index.commit()
    }

    // MARK: Stores that are of no use

    /// Does what a start would do: sets the store aside.
    private func startAnew(_ anchor: StoreAnchor?) throws {
        _ = try directory.start(
            policy: policy, durability: anchor?.durability ?? .process, bootID: DiskStart.bootID)
        try finishAnew()
    }

    private func quarantine(_ anchor: StoreAnchor) throws {
        _ = try directory.start(policy: policy, durability: anchor.durability, bootID: DiskStart.bootID)
        try setAside()
    }

    private func setAside() throws {
        try directory.quarantine(report.indexDamage ?? report.nextStart)
        try directory.root.unlink(StoreDirectory.journalName)
        try finishAnew()
    }

    /// An empty index, stopped in order.
    private func finishAnew() throws {
        let index = try DiskIndex(directory: directory, options: IndexOptions(synchronous: .full))
        try index.sync()
        index.close()
        try directory.writeAnchor(sequence: 0, clean: true, sync: true)
        report.isRepaired = true
    }
}

extension StoreCheckReport {
    fileprivate mutating func add(_ pass: StoreRowPass) {
        entries = pass.totals.entries - pass.badRows.count
        valueBytes = pass.soundBytes
        files = pass.soundFiles
        damagedRows = pass.damagedRows
        missingFiles = pass.missingFiles
        damagedFiles = pass.damagedFiles
    }
}
