// The disk fails: memory keeps serving, nothing old comes back, and the tier recovers by itself.

import Foundation
import Glibc
import Primitives
import SQLite
import Synchronization
import TestSupport
import Testing

@testable import CacheEngine

/// What the disk tier announced.
private final class States: Sendable {
    private let states = Answer<[DiskState]>([])
    var all: [DiskState] { states.value }
    func note(_ state: DiskState) { states.value += [state] }
}

@Suite struct DegradeTests {
    /// Makes every transaction fail with SQLITE_FULL until `release`.
    private func fill(_ cache: Cache) {
        cache.onWriter { writer in
            do {
                let pages = try writer.index?.open?.connection.integer("PRAGMA page_count") ?? 0
                try writer.index?.open?.connection.execute("PRAGMA max_page_count = \(pages)")
            } catch {
                Issue.record(error)
            }
        }
    }
}
