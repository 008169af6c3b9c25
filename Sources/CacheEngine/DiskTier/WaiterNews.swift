// What comes of a burst of lookups for those who wait: collected while shards are locked, told when none is, so that an
// event loop is woken once for all of them. Confined to a reader's thread.

/// What waiters are to be told when no lock is held any more.
struct WaiterNews {
    private var items: [(waiter: Waiter, outcome: CompletionOutcome, flight: Flight?)] = []
    /// Who has to wait for room in the journal first.
    var needRoom: [Waiter] = []

    mutating func add(_ waiter: Waiter, _ outcome: CompletionOutcome, _ flight: Flight? = nil) {
        items.append((waiter, outcome, flight))
    }

    mutating func add(_ waiters: [Waiter], _ outcome: CompletionOutcome, _ flight: Flight? = nil) {
        for waiter in waiters { add(waiter, outcome, flight) }
    }

    /// Tells them, and forgets.
    mutating func tell(_ disk: DiskTier) {
        for item in items { item.waiter.complete(item.outcome, flight: item.flight) }
        items.removeAll(keepingCapacity: true)
        for waiter in needRoom { disk.whenJournalHasRoom(waiter) }
        needRoom.removeAll(keepingCapacity: true)
    }
}
