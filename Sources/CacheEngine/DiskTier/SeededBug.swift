// Faults that debug builds commit on purpose, to prove that the crash checker would see them. Release builds have none.
//
// Chosen with the environment variable CACHE_DAEMON_SEEDED_BUG; the log names the chosen one at start. Each is a
// mistake that a persistent cache is likely to make, with its window held open long enough for a kill to hit it.

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

        private static let windowMilliseconds: Int32 = 5

        /// The bug that this process commits, if any.
        static let active: SeededBug? = {
            // SAFETY: nothing in this process changes its environment; the name is copied.
            guard let name = unsafe getenv("CACHE_DAEMON_SEEDED_BUG") else { return nil }
            return unsafe SeededBug(rawValue: String(cString: name))
        }()

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
            _ = poll(nil, 0, windowMilliseconds)
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
