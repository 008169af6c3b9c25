// Counts all rows anew, some at a time, after a damaged row was deleted.
//
// The totals are kept by adding what a row holds when it is put and taking that away when it is deleted. A row whose
// sizes were damaged takes away something else, and the totals would be wrong for ever. The walk goes by row id,
// between the writer's batches: a new row has a higher id than all others and is met later, what is deleted or
// replaced behind the walk is set right in its count. Disk writer thread only.

import SQLite

/// A walk through all rows that counts them.
struct Recounting {
    /// Rows up to this id are in `totals`.
    fileprivate var cursor: Int64 = 0
    fileprivate var totals = DiskTotals()

    /// A row was given other sizes.
    mutating func replace(_ row: PresentRow, valueBytes: Int, fileBytes: Int) {
        guard row.rowID <= cursor else { return }
        totals.add(valueBytes: row.valueBytes, fileBytes: row.fileBytes, sign: -1)
        totals.add(valueBytes: valueBytes, fileBytes: fileBytes, sign: 1)
    }

    /// A row was deleted.
    ///
    /// If it was the last one that was counted, its id may be given to the next row that is put.
    mutating func forget(_ rowID: Int64, valueBytes: Int, fileBytes: Int) {
        guard rowID <= cursor else { return }
        totals.add(valueBytes: valueBytes, fileBytes: fileBytes, sign: -1)
        if rowID == cursor { cursor -= 1 }
    }
}

extension DiskIndex {
    /// Whether a count is under way.
    var isRecounting: Bool { counting != nil }

    /// Puts the totals in doubt: `recountStep` will set them right.
    func beginRecount() { counting = Recounting() }

    /// Counts the next `limit` rows, and sets the totals once all are counted.
    ///
    /// Not inside a transaction. Does nothing without a count under way.
    func recountStep(limit: Int) throws(DiskError) {
        guard let cursor = counting?.cursor else { return }
        let open = try ready("recount")
        let isDone = try DiskError.wrapping { () throws(SQLiteError) in
            open.walk.bind(Int64(limit), at: 1)
            open.walk.bind(cursor, at: 2)
            defer { open.walk.reset() }
            var examined = 0
            while try open.walk.step() {
                examined += 1
                counting?.cursor = open.walk.integer(at: 0)
                counting?.totals.add(
                    valueBytes: Int(open.walk.integer(at: 4)), fileBytes: Int(open.walk.integer(at: 5)), sign: 1)
            }
            return examined < limit
        }
        guard isDone, let totals = counting?.totals else { return }
        try begin()
        state.totals = totals
        try commit()
        counting = nil
    }
}
