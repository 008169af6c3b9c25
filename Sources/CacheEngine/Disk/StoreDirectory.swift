// The directory of the disk tier: who may use it, what is in it, and where the parts are.
//
//   lock  FORMAT  anchor  journal  hot  store/{index.db,index.db-wal,index.db-shm,v/00..ff/<generation>}
//   quarantine-<epoch>/  discarded-<epoch>/            former store/ directories, renamed whole
//
// Opening takes the lock and reads; `start` (StoreStart.swift) decides what becomes of the store. Used by the thread
// that starts the disk tier, then by the disk writer thread; not Sendable. What other threads need of it (`location`,
// `valueFiles()`) is Sendable. Nothing here follows a symbolic link or touches a file that is not ours.

import Glibc
import Primitives

final class StoreDirectory {
    static let lockName = "lock"
    static let formatName = "FORMAT"
    static let anchorName = "anchor"
    static let journalName = "journal"
    static let newJournalName = "journal.new"
    static let storeName = "store"
    static let indexName = "index.db"
    static let valuesName = "v"
    static let quarantinePrefix = "quarantine-"
    static let discardedPrefix = "discarded-"

    let root: Directory
    /// nil after `release`.
    private var lock: FileLock?
    /// The FORMAT file as found; nil if it is missing or damaged, until `start` writes a new one.
    var format: StoreFormat?
    /// Whether a FORMAT file was found, sound or not.
    let hadFormat: Bool
    /// The slot as last written; nil before `start`.
    var anchor: StoreAnchor?
    var anchorFile: AnchorFile?
    /// The store's time; nil before `start`.
    var clock: StoreClock?
    var store: Directory?
    var values: Directory?
    /// Whether an index was opened in the current epoch.
    private var isIndexOpened = false

    private init(root: Directory, lock: consuming FileLock, format: StoreFormat?, hadFormat: Bool) {
        self.root = root
        self.lock = consume lock
        self.format = format
        self.hadFormat = hadFormat
    }

    /// Opens the directory at `path`, making it (0700) if there is none, and takes its lock for life.
    ///
    /// - Throws: `.heldBy` when another process has the lock; `.newerFormat`, with nothing touched; `.notOurs` when it
    ///   is a symbolic link, belongs to another user, is writable by others, or holds foreign files and no FORMAT.
    static func open(path: String) throws(StoreError) -> StoreDirectory {
        let root = try openRoot(path)
        _ = try readFormat(root)
        let lock = try FileLock(in: root, name: lockName)
        // Read again under the lock: until now another process could have been at work.
        let (format, hadFormat) = try readFormat(root)
        return StoreDirectory(root: root, lock: lock, format: format, hadFormat: hadFormat)
    }

    private static func openRoot(_ path: String) throws(StoreError) -> Directory {
        var trimmed = path[...]
        while trimmed.utf8.count > 1, trimmed.hasSuffix("/") { trimmed.removeLast() }
        let path = String(trimmed)
        try makeDirectories(path)
        let root: Directory
        do {
            root = try Directory.open(path: path)
        } catch .io(_, _, ELOOP), .io(_, _, ENOTDIR) {
            throw StoreError.notOurs("\(path) is a symbolic link or no directory")
        }
        let status = try root.status()
        guard status.owner == geteuid() else {
            throw .notOurs("\(path) belongs to user \(status.owner), not to user \(geteuid())")
        }
        guard status.mode & 0o022 == 0 else { throw .notOurs("\(path) is writable by other users") }
        // SQLite wants a path without symbolic links in it.
        // SAFETY: realpath(3) returns a C string of its own, which is copied below and freed here.
        guard let resolved = unsafe realpath(path, nil) else { throw .failed("realpath", path) }
        defer { unsafe free(resolved) }
        return try Directory.open(path: unsafe String(cString: resolved))
    }

    private static func makeDirectories(_ path: String) throws(StoreError) {
        var end = path.startIndex
        while end < path.endIndex {
            end = path[path.index(after: end)...].firstIndex(of: "/") ?? path.endIndex
            let part = String(path[..<end])
            if unsafe mkdir(part, 0o700) == 0 {
                _ = syncName(of: part)
            } else if errno != EEXIST, errno != EISDIR {
                // A parent that exists may refuse (EROFS, EACCES); whether it matters, the open will tell.
                let code = errno
                if unsafe access(part, F_OK) != 0 { throw .io(operation: "mkdir", path: part, errno: code) }
            }
        }
    }

    /// Makes the name of the directory at `path` durable: a power cut must not take the whole directory along.
    ///
    /// False if that is refused, as by a parent that we may not read: then the file system's own order has to do.
    static func syncName(of path: String) -> Bool {
        let end = path.lastIndex(of: "/")
        let parent = end.map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
        do throws(StoreError) {
            // With a dot behind it: the parent, unlike what is ours, may be a symbolic link.
            try Directory.open(path: parent + "/.").sync()
            return true
        } catch {
            return false
        }
    }

    private static func readFormat(_ root: Directory) throws(StoreError) -> (format: StoreFormat?, isThere: Bool) {
        guard let bytes = try readSmallFile(root, formatName, bytesMax: 4096) else {
            for name in try root.names(limit: 10_000) where !isOurs(name) {
                throw .notOurs("\(root.path) holds \(printable(name)) and no FORMAT file: it is not a cache directory")
            }
            return (nil, false)
        }
        return switch StoreFormat.read(String(decoding: bytes, as: UTF8.self)) {
        case .valid(let format): (format, true)
        case .newer(let major, let minor): throw .newerFormat(major: major, minor: minor)
        case .damaged: (nil, true)
        }
    }

    private static func isOurs(_ name: String) -> Bool {
        [
            lockName, formatName, "\(formatName).new", anchorName, journalName, newJournalName, storeName,
            HotList.fileName, HotList.newName, "lost+found",
        ].contains(name) || name.hasPrefix(quarantinePrefix) || name.hasPrefix(discardedPrefix)
    }

    /// Lets another process, or another cache of this one, use the directory.
    ///
    /// Nothing may be used afterwards.
    func release() { lock = nil }

    // MARK: what the parts need

    /// Names the index for reader threads.
    var location: IndexLocation { IndexLocation(path: "\(root.path)/\(Self.storeName)/\(Self.indexName)") }

    /// Seed of the keyed hash of keys; the same as long as the directory lives.
    var hashSeed: UInt64 {
        invariant(format != nil, "not started")
        return format?.seed ?? 0
    }

    /// This start's number: the high 24 bits of every generation that it makes.
    var epoch: UInt32 { anchor?.epoch ?? 0 }

    /// The sequence in the anchor: what the index must have reached.
    var anchorSequence: UInt64 { anchor?.sequence ?? 0 }

    /// Path of the journal, for messages.
    var journalPath: String { "\(root.path)/\(Self.journalName)" }

    /// A new descriptor of the journal, made if there is none.
    ///
    /// The caller owns it.
    func openJournal() throws(StoreError) -> Int32 {
        let descriptor = try root.openFile(Self.journalName, O_RDWR | O_CREAT) ?? -1
        guard try FileStatus(descriptor: descriptor, path: journalPath).isOurPlainFile else {
            close(descriptor)
            throw .notOurs("\(journalPath) is not a plain file of ours")
        }
        return descriptor
    }

    /// A journal to be made beside the present one, which stays what it is until `adoptNewJournal`.
    func openNewJournal() throws(StoreError) -> Int32 {
        try root.unlink(Self.newJournalName)
        return try root.openFile(Self.newJournalName, O_RDWR | O_CREAT | O_EXCL) ?? -1
    }

    /// Gives the new journal the place of the present one: a crash leaves the one or the other.
    ///
    /// With `syncs` its name is on the device on return.
    func adoptNewJournal(syncs: Bool) throws(StoreError) {
        try root.rename(Self.newJournalName, to: Self.journalName)
        if syncs { try root.sync() }
    }

    /// Removes the journal, and one that was not finished: what they take up is needed for another.
    func removeJournals() throws(StoreError) {
        try root.unlink(Self.journalName)
        try root.unlink(Self.newJournalName)
    }

    /// The value files of the present store.
    ///
    /// Ask again after a quarantine.
    func valueFiles() throws(StoreError) -> ValueFiles {
        guard let values else { throw .notOurs("\(root.path): not started") }
        return ValueFiles(directory: values)
    }

    /// Makes the database file (0600) if there is none, and says where it is.
    ///
    /// Only while no connection is open.
    func prepareIndexFile() throws(StoreError) -> String {
        guard let store else { throw .notOurs("\(root.path): not started") }
        if let status = try store.status(Self.indexName) {
            guard status.isOurPlainFile else { throw .notOurs("\(location.path) is not a plain file of ours") }
        } else if let descriptor = try store.openFile(Self.indexName, O_RDWR | O_CREAT | O_EXCL) {
            close(descriptor)
        }
        return location.path
    }

    /// Whether the system lets us write to the database file.
    ///
    /// Without opening it: closing it would take SQLite's locks on it away, see fcntl(2).
    var canWriteIndex: Bool {
        var system = statvfs()
        guard unsafe fstatvfs(root.descriptor, &system) == 0, system.f_flag & UInt(ST_RDONLY) == 0 else { return false }
        do throws(StoreError) {
            return (try store?.status(Self.indexName)?.mode ?? 0) & 0o200 != 0
        } catch {
            return false
        }
    }

    /// Bytes of the database file (`suffix` "") or of a file beside it; 0 if there is none.
    func indexFileBytes(suffix: String) -> Int {
        do throws(StoreError) {
            return try store?.status(Self.indexName + suffix)?.bytes ?? 0
        } catch {
            return 0
        }
    }

    /// Whether an index last opened in `indexEpoch` can be this store's: no start of another lineage has used it.
    func admits(indexEpoch: UInt32) -> Bool { isIndexOpened ? indexEpoch <= epoch : indexEpoch < epoch }

    /// Notes that the index is open, and carries the present epoch from now on.
    func indexWasOpened() { isIndexOpened = true }

    /// Notes that there is a new, empty store.
    func indexWasReplaced() { isIndexOpened = false }

    /// Checks that the directory itself was not removed, renamed or unmounted under us.
    func checkInPlace() throws(StoreError) {
        let ours = try root.status()
        var status = stat()
        guard unsafe lstat(root.path, &status) == 0 else { throw .failed("stat", root.path) }
        let named = FileStatus(status)
        guard ours.links > 0, named.device == ours.device, named.inode == ours.inode else {
            throw .io(operation: "check", path: root.path, errno: ESTALE)
        }
    }

    /// Checks that neither the directory nor the store in it was removed, renamed or unmounted under us.
    func checkIntact() throws(StoreError) {
        try checkInPlace()
        guard let store, let found = try root.status(Self.storeName), found.inode == (try store.status()).inode else {
            throw .io(operation: "check", path: "\(root.path)/\(Self.storeName)", errno: ESTALE)
        }
    }

    /// Bytes that we may still allocate on the file system.
    func availableBytes() throws(StoreError) -> Int {
        var status = statvfs()
        guard unsafe fstatvfs(root.descriptor, &status) == 0 else { throw .failed("statvfs", root.path) }
        let (bytes, overflow) = Int(status.f_bavail).multipliedReportingOverflow(by: Int(status.f_frsize))
        return overflow ? .max : bytes
    }
}

/// The whole content of a small plain file; nil if there is none.
func readSmallFile(_ directory: Directory, _ name: String, bytesMax: Int) throws(StoreError) -> [UInt8]? {
    guard let descriptor = try directory.openFile(name, O_RDONLY) else { return nil }
    defer { close(descriptor) }
    let path = "\(directory.path)/\(name)"
    guard try FileStatus(descriptor: descriptor, path: path).isOurPlainFile else {
        throw .notOurs("\(path) is not a plain file of ours")
    }
    var failed = false
    let bytes = unsafe [UInt8](unsafeUninitializedCapacity: bytesMax) { room, count in
        let read = unsafe readFully(descriptor, at: 0, into: UnsafeMutableRawBufferPointer(room))
        failed = read == nil
        count = read ?? 0
    }
    if failed { throw .failed("read", path) }
    return bytes
}

/// A file name as it may appear in a message.
private func printable(_ name: String) -> String {
    String(decoding: name.utf8.prefix(64).map { (0x20..<0x7f).contains($0) ? $0 : UInt8(ascii: "?") }, as: UTF8.self)
}
