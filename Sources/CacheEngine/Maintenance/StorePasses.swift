// The two walks of a check: through all rows with their values, and through all value files.
//
// Each holds one page of rows, or the names of one subdirectory, at a time. They judge and count; what becomes of what
// is bad is the checker's business, but for orphans, which the second walk removes if told to. One thread.

import Primitives
import SQLite

/// The walk through all rows.
struct StoreRowPass {
    private let values: ValueFiles
    private let total: Int
    /// What the rows add up to, good or bad.
    private(set) var totals = DiskTotals()
    private(set) var soundBytes = 0
    private(set) var soundFiles = 0
    private(set) var damagedRows = 0
    private(set) var missingFiles = 0
    private(set) var damagedFiles = 0
    private(set) var badRows: [(row: Int64, generation: UInt64)] = []

    private static let rowsPerStep = 256

    /// `total` is how many rows the meta row promises.
    init(_ values: ValueFiles, total: Int) {
        self.values = values
        self.total = total
    }

    private enum Judgement {
        case sound
        case damaged
        /// To be judged by its file.
        case inFile(key: [UInt8], EntryMetadata)
    }

    mutating func run(_ connection: Connection, _ progress: (StoreCheckProgress) -> Void) throws(SQLiteError) {
        var rows = try connection.prepare(
            "SELECT \(DiskIndexSchema.entryColumns), value FROM entry WHERE id > ?1 ORDER BY id LIMIT ?2",
            name: "check rows")
        var last = Int64.min
        var count = Self.rowsPerStep
        while count == Self.rowsPerStep {
            count = 0
            rows.bind(last, at: 1)
            rows.bind(Int64(Self.rowsPerStep), at: 2)
            defer { rows.reset() }
            while try rows.step() {
                count += 1
                last = rows.integer(at: 0)
                take(rows)
            }
            progress(StoreCheckProgress(stage: .rows, done: totals.entries, total: max(total, totals.entries)))
        }
    }

    private mutating func take(_ row: borrowing Statement) {
        let valueBytes = Int(row.integer(at: 8))
        totals.add(valueBytes: valueBytes, fileBytes: Int(row.integer(at: 9)), sign: 1)
        let isSound: Bool
        switch Self.judge(row) {
        case .sound: isSound = true
        case .damaged:
            damagedRows += 1
            isSound = false
        case .inFile(let key, let metadata): isSound = judgeFile(key, metadata)
        }
        if isSound { soundBytes += valueBytes } else { badRows.append((row.integer(at: 0), row.bits(at: 1))) }
    }

    private static func judge(_ row: borrowing Statement) -> Judgement {
        guard let columns = EntryColumns(row) else { return .damaged }
        return row.withBlob(at: 13) { key -> Judgement in
            guard row.withBlob(at: 12, { columns.isIntact(key: key, extended: $0) }) else { return .damaged }
            let isFile = columns.fileBytes > 0
            guard row.storageClass(at: 15) == (isFile ? .null : .blob) else { return .damaged }
            if isFile { return .inFile(key: Array(copying: key), columns.metadata) }
            let seed = EntrySum.seed(key: key, generation: columns.metadata.generation)
            let isWhole = row.withBlob(at: 15) { value in
                value.count == columns.metadata.valueBytes
                    && EntrySum.value(value, seed: seed) == columns.metadata.valueSum
            }
            return isWhole ? .sound : .damaged
        }
    }

    private mutating func judgeFile(_ key: [UInt8], _ metadata: EntryMetadata) -> Bool {
        do throws(ValueFileError) {
            let reader = try values.open(key: key.span, expecting: metadata)
            try reader.verify()
            soundFiles += 1
            return true
        } catch {
            if error == .missing { missingFiles += 1 } else { damagedFiles += 1 }
            return false
        }
    }
}

/// The walk through all value files.
struct StoreFilePass {
    private let values: ValueFiles
    private let journal: Set<UInt64>
    private(set) var orphans = 0
    private(set) var foreign = 0

    /// `journal` has the files that the journal refers to.
    init(_ values: ValueFiles, journal: Set<UInt64>) {
        self.values = values
        self.journal = journal
    }

    mutating func run(
        _ progress: (StoreCheckProgress) -> Void, removes: Bool, isReferenced: (UInt64) throws -> Bool
    ) throws {
        for name in try values.directory.names() where name.utf8.count != 2 || UInt8(name, radix: 16) == nil {
            foreign += 1
        }
        for number in 0..<256 {
            progress(StoreCheckProgress(stage: .files, done: number, total: 256))
            let subdirectory = try values.directory.subdirectory(ValueFiles.directoryName(number), create: false)
            for name in try subdirectory?.names() ?? [] {
                guard let generation = OrphanSweep.generation(name), generation & 0xff == UInt64(number),
                    try subdirectory?.status(name)?.isOurPlainFile == true
                else {
                    foreign += 1
                    continue
                }
                if try journal.contains(generation) || isReferenced(generation) { continue }
                orphans += 1
                if removes { try subdirectory?.unlink(name) }
            }
        }
        progress(StoreCheckProgress(stage: .files, done: 256, total: 256))
    }
}
