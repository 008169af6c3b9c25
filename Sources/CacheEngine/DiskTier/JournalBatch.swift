// The next run of journal records that fit one transaction, with overwritten ones left out.

import Primitives

/// Consecutive records, of which only the newest per key is to be applied.
struct JournalBatch {
    struct Flush {
        var generation: UInt64
        var at: WallTime?
    }

    /// A row's hash dirties a page of the index over hashes: of a million rows, hardly two of a small batch share one.
    static let recordsMax = 16_384
    private static let bytesMax = 16 << 20

    /// Positions of the records to apply, oldest first.
    private(set) var positions: [UInt64] = []
    /// Every hash that occurs, some of them twice if there was a flush, for the pending tables.
    private(set) var hashes: [UInt64] = []
    /// Files that only records left out refer to.
    private(set) var supersededFiles: [UInt64] = []
    private(set) var flush: Flush?
    private(set) var recordCount = 0
    /// A record is not what was appended: nothing behind it can be found, and nothing of it is to be believed.
    private(set) var isDamaged = false
    /// Behind the last record.
    private(set) var end: UInt64
    private(set) var sequence: UInt64 = 0
    private var newest: [UInt64: UInt64] = [:]

    /// Reads up to `recordsMax` records from the journal's tail on; nil if it is empty.
    init?(_ journal: Journal, upTo limit: UInt64) {
        let tail = journal.extent.tail
        // Of a small journal no more than a part, so that writes find room before long.
        let bytesMax = UInt64(min(Self.bytesMax, max(journal.capacity / 4, 64 << 10)))
        end = tail
        var passage = JournalPassage(journal, from: tail)
        while end < limit, recordCount < Self.recordsMax, end - tail < bytesMax {
            let position = journal.normalized(end)
            if position >= limit { break }
            guard let record = journal.wholeRecord(at: position) else {
                isDamaged = true
                return
            }
            take(record, at: position, journal)
            end = position + UInt64(record.header.recordBytes)
            passage.reach(end)
        }
        if recordCount == 0 { return nil }
        positions = newest.values.sorted()
    }

    private mutating func take(_ record: JournalRecord, at position: UInt64, _ journal: Journal) {
        let header = record.header
        recordCount += 1
        sequence = header.sequence
        if record.kind == .flush {
            let at = WallTime(milliseconds: header.deadline)
            if header.generation > 0 {
                for old in newest.values { supersede(journal.record(at: old), by: 0) }
                newest = [:]
            }
            flush = Flush(generation: max(header.generation, flush?.generation ?? 0), at: at == .never ? nil : at)
            return
        }
        #if DEBUG
            if SeededBug.isActive(.oldestRecordWins), newest[header.hash] != nil { return }
        #endif
        if let old = newest.updateValue(position, forKey: header.hash) {
            supersede(journal.record(at: old), by: header.generation)
        } else {
            hashes.append(header.hash)
        }
    }

    private mutating func supersede(_ record: JournalRecord, by generation: UInt64) {
        let header = record.header
        if record.kind == .fileEntry, header.generation != generation { supersededFiles.append(header.generation) }
    }
}

extension EntryMetadata {
    /// The metadata in a journal record.
    init(_ header: JournalHeader) {
        self.init(
            generation: header.generation, cas: header.cas, flags: header.flags,
            marks: EntryMarks(rawValue: header.marks), deadline: WallTime(milliseconds: header.deadline),
            written: WallTime(milliseconds: header.written), accessed: WallTime(milliseconds: header.written),
            valueBytes: Int(header.valueBytes), valueSum: header.valueSum)
    }
}
