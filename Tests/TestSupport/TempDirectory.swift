// A directory of a test's own.

import Foundation

/// A new directory (0700) that is removed with its owner.
public final class TempDirectory: Sendable {
    /// Absolute path, without symbolic links.
    public let path: String

    /// Makes a directory below the system's temporary one.
    public init() throws {
        let url = FileManager.default.temporaryDirectory.resolvingSymlinksInPath()
            .appendingPathComponent("cache-daemon-test-\(UUID().uuidString)")
        try FileManager.default.createDirectory(
            at: url, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        path = url.path
    }

    deinit {
        // What a test has already removed cannot be removed again.
        do { try FileManager.default.removeItem(atPath: path) } catch { return }
    }

    /// The path of `name` in it.
    public func path(_ name: String) -> String { "\(path)/\(name)" }

    /// Whether there is a file or directory `name`.
    public func exists(_ name: String) -> Bool { FileManager.default.fileExists(atPath: path(name)) }

    /// Everything below `name`, as sorted relative paths.
    public func files(below name: String) -> [String] {
        (FileManager.default.enumerator(atPath: path(name))?.compactMap { $0 as? String } ?? []).sorted()
    }

    /// The names in the directory `name`, sorted.
    public func names(_ name: String) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: path(name)).sorted()
    }

    /// Copies the whole tree `source` to `target`, both names in it.
    public func copy(_ source: String, to target: String) throws {
        try FileManager.default.copyItem(atPath: path(source), toPath: path(target))
    }

    /// The bytes of the file `name`.
    public func read(_ name: String) throws -> [UInt8] {
        try Array(Data(contentsOf: URL(fileURLWithPath: path(name))))
    }

    /// Replaces the file `name`, in place.
    public func write(_ bytes: [UInt8], to name: String) throws {
        try Data(bytes).write(to: URL(fileURLWithPath: path(name)))
    }
}
