// What happened, as plain counts. Each thread keeps its own and they are added up at the end.

/// Counts of one thread or of a whole run.
struct Tally: Sendable, Equatable {
    /// Gets answered by a value or a miss.
    var gets = 0
    /// Gets that brought a value.
    var hits = 0
    /// Sets answered `STORED`.
    var sets = 0
    /// Requests answered by an error line.
    var refused = 0
    /// Requests that were never answered, since their connection broke.
    var lost = 0
    /// Connections that broke.
    var disconnects = 0
    /// Values of another key.
    var foreign = 0
    /// Values that were cut, mixed or damaged.
    var torn = 0
    /// Values older than one whose set was answered before.
    var stale = 0
    /// Replies that are none.
    var malformed = 0
    /// Hits whose value an earlier run of cache-bench wrote.
    var earlier = 0
    /// Bytes given to the kernel.
    var bytesSent = 0
    /// Bytes taken from the kernel.
    var bytesReceived = 0
    /// Some error lines and wrong values in words, for the report.
    var remarks: [String] = []

    /// Requests that did what they should.
    var operations: Int { gets + sets }
    /// Gets that brought nothing.
    var misses: Int { gets - hits }
    /// Replies that no correct server gives.
    var wrong: Int { foreign + torn + stale + malformed }

    /// Keeps `text` if there are few remarks yet.
    mutating func remark(_ text: @autoclosure () -> String) {
        if remarks.count < 5 { remarks.append(text()) }
    }

    /// Adds the counts of `other`.
    mutating func add(_ other: Tally) {
        gets += other.gets
        hits += other.hits
        sets += other.sets
        refused += other.refused
        lost += other.lost
        disconnects += other.disconnects
        foreign += other.foreign
        torn += other.torn
        stale += other.stale
        malformed += other.malformed
        earlier += other.earlier
        bytesSent += other.bytesSent
        bytesReceived += other.bytesReceived
        remarks = Array((remarks + other.remarks).prefix(5))
    }
}
