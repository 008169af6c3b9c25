// Faults that debug builds commit on purpose, to prove that the crash checker would see them. Release builds have none.
//
// Chosen with the environment variable CACHE_DAEMON_SEEDED_BUG; the log names the chosen one at start. Each is a
// mistake that a persistent cache is likely to make, with its window held open long enough for a kill to hit it. Where
// a bug is committed, the code asks `isActive`. Tests/Torture/mutants.py says which checker has to find which bug.

#if DEBUG
    import Glibc

    /// A mistake in the order of writes.
    enum SeededBug: String {
        /// Writes are acknowledged though nothing keeps them before they are committed.
        case ackBeforeCommit = "ack_before_commit"
        /// The file of the present value is unlinked before the new value is committed.
        case unlinkBeforeCommit = "unlink_before_commit"
        /// A new value is written over the file of the present one.
        case inPlaceOverwrite = "in_place_overwrite"
        /// A delete hides the entry and is written down nowhere.
        case deletionNotJournalled = "deletion_not_journalled"
        /// A flush hides everything and is written down nowhere.
        case flushNotJournalled = "flush_not_journalled"
        /// A touch changes memory alone.
        case touchNotJournalled = "touch_not_journalled"
        /// A touch of an entry that is only in memory is journalled over the deletion of its older row.
        case touchHidesDeletion = "touch_hides_deletion"
        /// The journal forgets its records before their rows are committed.
        case tailBeforeCommit = "tail_before_commit"
        /// Lookups believe the row while a newer write of its key is not committed.
        case forgottenBeforeCommit = "forgotten_before_commit"
        /// Of several records of one key the oldest reaches the index.
        case oldestRecordWins = "oldest_record_wins"
        /// A batch leaves the flush mark of the index as it is.
        case flushNotCommitted = "flush_not_committed"
        /// A touch does not reach the index.
        case touchNotCommitted = "touch_not_committed"
        /// A lookup lands though its key was written meanwhile.
        case promotionUnchecked = "promotion_unchecked"
        /// A row is believed whatever its sum is.
        case rowSumUnchecked = "row_sum_unchecked"
        /// A value file is believed whatever its sum is.
        case fileSumUnchecked = "file_sum_unchecked"
        /// A record of the journal is believed whatever its sum is.
        case recordSumUnchecked = "record_sum_unchecked"
        /// An index that is older than the anchor is believed.
        case anchorIgnored = "anchor_ignored"
        /// A store is believed though it was barred.
        case barIgnored = "bar_ignored"
        /// Rows of keys that were written without the journal stay.
        case barredRowsKept = "barred_rows_kept"
        /// A start goes on with the epoch of the one before.
        case epochRepeated = "epoch_repeated"
        /// With durability `process`, a store is believed after an unclean reboot.
        case rebootIgnored = "reboot_ignored"
        /// With durability `always`, nobody waits for the commit.
        case commitNotAwaited = "commit_not_awaited"
        /// The sweep of orphans takes files of the present epoch, too.
        case sweepTakesNewFiles = "sweep_takes_new_files"
        /// A start takes the civil clock for the time, whatever the store has seen.
        case clockTrusted = "clock_trusted"
        /// A lookup uses the snapshot at hand, however many commits there were since.
        case snapshotKept = "snapshot_kept"

        private static let windowMilliseconds: Int32 = 5

        /// The bug that this process commits, if any.
        static let active: SeededBug? = {
            // SAFETY: nothing in this process changes its environment; the name is copied.
            guard let name = unsafe getenv("CACHE_DAEMON_SEEDED_BUG") else { return nil }
            return unsafe SeededBug(rawValue: String(cString: name))
        }()

        /// Whether this process commits `bug`.
        static func isActive(_ bug: SeededBug) -> Bool { active == bug }

        /// Holds a window open.
        static func wait() { _ = poll(nil, 0, windowMilliseconds) }

        /// Does to the present value's file what must not be done while the new one is not committed.
        static func spoilPresent(of draft: DraftFile, _ index: IndexReader?, _ files: ValueFiles) {
            guard active == .unlinkBeforeCommit || active == .inPlaceOverwrite, let index else { return }
            var present: EntryMetadata?
            let key = draft.key
            do {
                // SAFETY: the pointers are valid during the closure, which only asks whether there is one.
                _ = try unsafe index.read(hash: draft.hash, key: key.span) { metadata, _, value in
                    if unsafe value == nil { present = metadata }
                }
                guard let present else { return }
                if active == .unlinkBeforeCommit { _ = try files.remove(generation: present.generation) }
                if active == .inPlaceOverwrite { try overwrite(present, files) }
            } catch {
                return
            }
            wait()
        }

        private static func overwrite(_ present: EntryMetadata, _ files: ValueFiles) throws(StoreError) {
            let name = ValueFiles.name(present.generation)
            guard let directory = try files.directory.subdirectory(name.directory, create: false),
                let file = try directory.openFile(name.file, O_WRONLY)
            else { return }
            let text = Array("overwritten in place".utf8)
            // SAFETY: pwrite(2) reads `text.count` bytes of the array during the call.
            _ = unsafe pwrite(file, text, text.count, off_t(ValueFiles.blockBytes))
            close(file)
        }
    }
#endif
