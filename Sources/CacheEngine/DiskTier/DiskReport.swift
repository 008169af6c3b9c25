// What the writer tells about the store after each batch: the statistics read it. A value, replaced as a whole.

/// The writer's view of the store after its last batch.
struct DiskReport: Sendable {
    var totals = DiskTotals()
    var indexBytes = 0
    var freeIndexBytes = 0
    var walBytes = 0
    /// Value files that the index does not know yet.
    var underWayBytes = 0
    var lastError: String?

    /// Allocated bytes of the directory, without the journal.
    var allocatedBytes: Int { indexBytes + walBytes + totals.fileBytes + underWayBytes }
}

extension DiskReport {
    init(_ index: DiskIndex, lastError: String?) {
        totals = index.totals
        indexBytes = index.pageBytes
        freeIndexBytes = index.freePages * index.pageSize
        walBytes = index.walBytes
        self.lastError = lastError
    }
}
