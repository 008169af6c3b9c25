// Removes value files that no row refers to: leftovers of crashes.
//
// Only files of earlier epochs are looked at, so that no file of a put in progress can be taken for an orphan; whoever
// sweeps has replayed the journal before, whose records may refer to such files. Only names that we could have made, in
// the directories that we make, and only plain files, are removed; everything else is counted and left alone. One
// subdirectory's names are held at a time. Runs on the disk writer thread in small steps.

/// What a sweep did so far.
struct SweepProgress: Sendable, Equatable {
    /// Names looked at.
    var examined = 0
    var removed = 0
    /// Bytes of the removed files, rounded up to 4 KiB each.
    var removedBytes = 0
    /// Names that are not ours.
    ///
    /// Never touched.
    var foreign = 0
    /// Files that could not be removed: a later start tries again.
    var failed = 0
    var isDone = false
}

/// A sweep in progress.
struct OrphanSweep {
    private let directory: Directory
    private let epoch: UInt32
    private var nextSubdirectory = 0
    private var subdirectory: Directory?
    private var pending: [String] = []
    private(set) var progress = SweepProgress()
    /// Subdirectories, of 256, that were looked through.
    var subdirectoriesDone: Int { progress.isDone ? nextSubdirectory : max(0, nextSubdirectory - 1) }

    init(directory: Directory, epoch: UInt32) {
        self.directory = directory
        self.epoch = epoch
    }

    /// Examines at most `budget` names and returns the progress of the whole sweep.
    ///
    /// `isReferenced` asks the index whether a row has this generation (`DiskIndex.hasFile`). A directory that cannot
    /// be read is skipped.
    mutating func step(
        budget: Int, isReferenced: (UInt64) throws(DiskError) -> Bool
    ) throws(DiskError) -> SweepProgress {
        var left = budget
        while left > 0, !progress.isDone {
            guard let name = pending.popLast() else {
                // Opening a subdirectory costs as much as a name.
                left -= 1
                openNext()
                continue
            }
            left -= 1
            progress.examined += 1
            guard let generation = Self.generation(name), generation & 0xff == UInt64(nextSubdirectory - 1) else {
                progress.foreign += 1
                continue
            }
            #if DEBUG
                let isOld = generation >> 40 < UInt64(epoch) || SeededBug.isActive(.sweepTakesNewFiles)
            #else
                let isOld = generation >> 40 < UInt64(epoch)
            #endif
            guard isOld, try !isReferenced(generation) else { continue }
            remove(name)
        }
        return progress
    }

    private mutating func remove(_ name: String) {
        do throws(StoreError) {
            guard let subdirectory, let status = try subdirectory.status(name) else { return }
            guard status.isOurPlainFile else {
                progress.foreign += 1
                return
            }
            if try subdirectory.unlink(name) {
                progress.removed += 1
                progress.removedBytes += ValueFiles.rounded(status.bytes)
            }
        } catch {
            progress.failed += 1
        }
    }

    private mutating func openNext() {
        if nextSubdirectory == 0 { countForeignSubdirectories() }
        guard nextSubdirectory < 256 else {
            progress.isDone = true
            subdirectory = nil
            return
        }
        let name = ValueFiles.directoryName(nextSubdirectory)
        nextSubdirectory += 1
        do throws(StoreError) {
            subdirectory = try directory.subdirectory(name, create: false)
            pending = try subdirectory?.names() ?? []
        } catch {
            progress.failed += 1
            pending = []
        }
    }

    private mutating func countForeignSubdirectories() {
        do throws(StoreError) {
            for name in try directory.names() where name.utf8.count != 2 || UInt8(name, radix: 16) == nil {
                progress.foreign += 1
            }
        } catch {
            progress.failed += 1
        }
    }

    /// The generation that a file name stands for; nil if we never make such a name.
    static func generation(_ name: String) -> UInt64? {
        guard let generation = UInt64(name, radix: 16), hexadecimal(generation) == name else { return nil }
        return generation
    }
}
