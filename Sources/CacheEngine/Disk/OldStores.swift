// Removes former stores: quarantines and discarded ones.
//
// They count against the disk limit, so they have to go, but a large one must not be removed at one go. Only names that
// we make are removed; a directory that holds anything else stays. Runs on the disk writer thread in small steps.

import Glibc

/// What one step of `StoreDirectory.removeOldStores` did.
struct RemovalProgress: Sendable, Equatable {
    var removedFiles = 0
    /// Allocated bytes of the removed files.
    var removedBytes = 0
    /// Whether nothing is left that could be removed.
    var isDone = false
}

extension StoreDirectory {
    /// Removes at most `budget` files of former stores; the newest quarantine is kept if so wanted.
    func removeOldStores(keepNewestQuarantine: Bool, budget: Int) throws(StoreError) -> RemovalProgress {
        var progress = RemovalProgress()
        for name in try oldStores(keepNewestQuarantine: keepNewestQuarantine) {
            guard let old = try root.subdirectory(name, create: false) else { continue }
            try removeContent(of: old, budget: budget, &progress)
            if progress.removedFiles >= budget { return progress }
            _ = try root.removeDirectory(name)
        }
        progress.isDone = true
        return progress
    }

    /// Allocated bytes of all former stores.
    ///
    /// O(their files).
    func oldStoreBytes() throws(StoreError) -> Int {
        var bytes = 0
        for name in try oldStores(keepNewestQuarantine: false) {
            guard let old = try root.subdirectory(name, create: false) else { continue }
            bytes += try Self.allocatedBytes(of: old, depth: 3)
        }
        return bytes
    }

    /// Names of former stores, quarantines in ascending order of their epochs.
    private func oldStores(keepNewestQuarantine: Bool) throws(StoreError) -> [String] {
        var names: [String] = []
        for name in try root.names() {
            let isOld = name.hasPrefix(Self.discardedPrefix) || name.hasPrefix(Self.quarantinePrefix)
            // What is no directory has its name from someone else.
            if isOld, try root.status(name)?.isDirectory == true { names.append(name) }
        }
        let discarded = names.filter { $0.hasPrefix(Self.discardedPrefix) }
        var quarantines = names.filter { $0.hasPrefix(Self.quarantinePrefix) }
        quarantines.sort { Self.order(of: $0) < Self.order(of: $1) }
        if keepNewestQuarantine, !quarantines.isEmpty { quarantines.removeLast() }
        return discarded + quarantines
    }

    private static func order(of name: String) -> (UInt32, UInt32) {
        let numbers = name.dropFirst(quarantinePrefix.count).split(separator: "-").map { UInt32($0) ?? 0 }
        return (numbers.first ?? 0, numbers.dropFirst().first ?? 0)
    }

    private func removeContent(
        of old: Directory, budget: Int, _ progress: inout RemovalProgress
    ) throws(StoreError) {
        if let values = try old.subdirectory(Self.valuesName, create: false) {
            for number in 0..<256 where progress.removedFiles < budget {
                let name = ValueFiles.directoryName(number)
                guard let subdirectory = try values.subdirectory(name, create: false) else { continue }
                let files = try subdirectory.names().filter { OrphanSweep.generation($0) != nil }
                try Self.remove(files, from: subdirectory, budget: budget, &progress)
                if progress.removedFiles < budget { _ = try values.removeDirectory(name) }
            }
            if progress.removedFiles < budget { _ = try old.removeDirectory(Self.valuesName) }
        }
        let index = ["", "-wal", "-shm"].map { Self.indexName + $0 }
        try Self.remove(index + ["REASON"], from: old, budget: budget, &progress)
    }

    private static func remove(
        _ names: [String], from directory: Directory, budget: Int, _ progress: inout RemovalProgress
    ) throws(StoreError) {
        for name in names where progress.removedFiles < budget {
            guard let status = try directory.status(name), status.isRegular else { continue }
            if try directory.unlink(name) {
                progress.removedFiles += 1
                progress.removedBytes += status.allocatedBytes
            }
        }
    }

    private static func allocatedBytes(of directory: Directory, depth: Int) throws(StoreError) -> Int {
        var bytes = 0
        for name in try directory.names() {
            guard let status = try directory.status(name) else { continue }
            bytes += status.allocatedBytes
            guard status.isDirectory, depth > 1,
                let subdirectory = try directory.subdirectory(name, create: false)
            else { continue }
            bytes += try allocatedBytes(of: subdirectory, depth: depth - 1)
        }
        return bytes
    }
}
