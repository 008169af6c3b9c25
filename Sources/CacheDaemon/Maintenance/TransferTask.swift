// `--export` and `--import`: entries between a stopped store, or a running server, and a file or pipe.
//
// A directory is opened as a cache of its own, with little memory, so that journal, flushes and checks mean the same as
// in the daemon. A running server is asked through its socket (`ServerTransfer`). FILE is `-` for standard output or
// input. A new file is written beside its name and renamed when it is complete.

import CacheClient
import CacheEngine
import Glibc
import Primitives

/// One transfer.
struct TransferTask: Equatable, Sendable {
    /// A directory, or `HOST:PORT`, or `unix:PATH`.
    let place: String
    let file: String
    /// Out of `place`, not into it.
    let isExport: Bool
    /// How to speak to a server.
    var access = CredentialArguments()

    /// Whether `place` is a server.
    var isOfServer: Bool { Self.isAddress(place) }

    /// The same, with what the command line says of encryption and login.
    func with(_ access: CredentialArguments) -> TransferTask {
        var task = self
        task.access = access
        return task
    }

    /// The server, and how to speak to it.
    private func server() throws -> ServerTransfer {
        try ServerTransfer(
            ServerAddress(parsing: place), encryption: access.encryption.map { try Encryption($0) },
            login: access.login())
    }

    /// Whether `place` is the address of a server: it has a colon and is no path.
    static func isAddress(_ place: String) -> Bool {
        place.hasPrefix("unix:") || (place.contains(":") && !place.contains("/"))
    }

    // MARK: Export

    func export(_ settings: Settings) -> Int32 {
        let descriptor: Int32
        let partial = file + ".part"
        if file == "-" {
            descriptor = STDOUT_FILENO
        } else {
            // SAFETY: open(2) reads the path during the call.
            descriptor = unsafe open(partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
            guard descriptor >= 0 else { return fail("open \(partial)", errno) }
        }
        let status = export(settings, to: descriptor)
        if file == "-" { return status }
        guard status == MaintenanceTask.fine else {
            _ = unsafe unlink(partial)
            return status
        }
        guard fsync(descriptor) == 0, close(descriptor) == 0, unsafe rename(partial, file) == 0 else {
            return fail("finish \(file)", errno)
        }
        return status
    }

    private func export(_ settings: Settings, to descriptor: Int32) -> Int32 {
        let line = ProgressLine()
        var writer = EntryStreamWriter(writtenAt: SystemClock().wall()) { Self.write($0, to: descriptor) }
        let done: TransferProgress
        do {
            if Self.isAddress(place) {
                done = try server().export(to: &writer) { line.show(Self.text($0)) }
            } else {
                let cache = try Cache.open(try Self.options(reading: place, settings))
                defer { cache.close() }
                done = try cache.export(to: &writer) { line.show(Self.text($0)) }
            }
        } catch {
            line.end()
            return complain(error)
        }
        line.end()
        StandardStream.error.write("exported \(Self.text(done))\n")
        return done.failed == 0 ? MaintenanceTask.fine : MaintenanceTask.wrong
    }

    /// The store as it is: nothing is trimmed, the journal keeps its size.
    private static func options(reading directory: String, _ settings: Settings) throws(CacheError) -> CacheOptions {
        var options = CacheOptions(settings)
        var disk = DiskOptions(directory: directory)
        disk.afterPowerLoss = options.disk?.afterPowerLoss ?? .discard
        if let problem = Cache.problemOfResuming(directory, afterPowerLoss: disk.afterPowerLoss) {
            throw .unusableDirectory(directory: directory, reason: problem)
        }
        options.memory.bytesMax = 64 << 20
        disk.bytesMax = 1 << 50
        var status = stat()
        if unsafe stat("\(directory)/journal", &status) == 0 {
            disk.journalBytes = max(1 << 20, Int(status.st_size) - 4096)
        }
        disk.trimInterval = 86_400_000
        options.disk = disk
        options.defaultTTL = nil
        options.maximumTTL = nil
        return options
    }

    private static func write(_ bytes: Span<UInt8>, to descriptor: Int32) -> Int32 {
        // SAFETY: write(2) reads the span's own bytes.
        unsafe bytes.withUnsafeBytes { bytes in
            var done = 0
            while done < bytes.count {
                let count = unsafe Glibc.write(
                    descriptor, bytes.baseAddress.map { unsafe $0 + done }, bytes.count - done)
                if count > 0 { done += count } else if count == 0 || errno != EINTR { return count == 0 ? EIO : errno }
            }
            return 0
        }
    }

    // MARK: Import

    func importAll(_ settings: Settings) -> Int32 {
        var descriptor = STDIN_FILENO
        if file != "-" {
            descriptor = unsafe open(file, O_RDONLY | O_CLOEXEC)
            guard descriptor >= 0 else { return fail("open \(file)", errno) }
        }
        let line = ProgressLine()
        let done: TransferProgress
        do {
            var reader = try EntryStreamReader { Self.read($0, from: descriptor) }
            if Self.isAddress(place) {
                done = try server().importAll(from: &reader) { line.show(Self.text($0)) }
            } else {
                var options = CacheOptions(settings)
                options.disk = options.disk ?? DiskOptions(directory: place)
                options.disk?.directory = place
                options.disk?.warmUp = nil
                let cache = try Cache.open(options)
                defer { cache.close() }
                done = try cache.importEntries(from: &reader) { line.show(Self.text($0)) }
            }
        } catch {
            line.end()
            return complain(error)
        }
        line.end()
        StandardStream.error.write("imported \(Self.text(done))\n")
        return done.failed == 0 ? MaintenanceTask.fine : MaintenanceTask.wrong
    }

    private static func read(_ count: Int, from descriptor: Int32) -> Result<[UInt8], EntryStreamError> {
        var failure: Int32 = 0
        // SAFETY: read(2) fills at most the room's size.
        let bytes = unsafe [UInt8](unsafeUninitializedCapacity: count) { room, filled in
            while true {
                let got = unsafe Glibc.read(descriptor, room.baseAddress, room.count)
                if got >= 0 { return filled = got }
                if errno != EINTR { return failure = errno }
            }
        }
        return failure == 0 ? .success(bytes) : .failure(.failed(operation: "read", errno: failure))
    }

    // MARK: Words

    private static func text(_ progress: TransferProgress) -> String {
        "\(progress.entries) entries, \(progress.valueBytes) bytes of values, \(progress.skipped) skipped, "
            + "\(progress.failed) failed"
    }

    private func complain(_ error: any Error) -> Int32 {
        if let error = error as? CacheError { return MaintenanceTask.refuse(error) }
        StandardStream.error.write("cache-daemon: \(file == "-" ? place : file): \(error)\n")
        return MaintenanceTask.wrong
    }

    private func fail(_ operation: String, _ code: Int32) -> Int32 {
        StandardStream.error.write("cache-daemon: \(operation): \(systemErrorText(code))\n")
        return MaintenanceTask.wrong
    }
}
