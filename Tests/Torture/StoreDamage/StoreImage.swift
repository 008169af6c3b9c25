// A store's directory as bytes in memory, and the ways to damage it.

import Foundation
import TestSupport

/// Directories and files below one directory.
struct StoreImage {
    /// Relative paths of directories, parents first.
    private var directories: [String] = []
    private var files: [String: [UInt8]] = [:]
    /// Names to be made as symbolic links to a file elsewhere.
    private var links: [String: String] = [:]
    /// Sorted, so that a number always means the same file.
    private var paths: [String] = []

    init(directory: String) throws {
        let names = (FileManager.default.enumerator(atPath: directory)?.compactMap { $0 as? String } ?? []).sorted()
        for name in names {
            var isDirectory: ObjCBool = false
            guard FileManager.default.fileExists(atPath: "\(directory)/\(name)", isDirectory: &isDirectory) else {
                continue
            }
            if isDirectory.boolValue {
                directories.append(name)
            } else {
                files[name] = [UInt8](try Data(contentsOf: URL(fileURLWithPath: "\(directory)/\(name)")))
            }
        }
        // Rebuilt by whoever opens first after a crash, and the lock holds nothing.
        files["lock"] = nil
        paths = files.keys.sorted()
    }

    /// Makes `directory` anew with this content.
    func write(to directory: String) throws {
        removeTree(directory)
        mkdir(directory, 0o700)
        for name in directories { mkdir("\(directory)/\(name)", 0o700) }
        for (name, bytes) in files {
            let file = open("\(directory)/\(name)", O_WRONLY | O_CREAT | O_TRUNC, 0o600)
            guard file >= 0 else { continue }
            // Zero pages stay holes, as they are in a journal that was allocated and not used.
            var length = bytes.count
            while length > 0, bytes[length - 1] == 0 { length -= 1 }
            guard Glibc.write(file, bytes, length) == length, ftruncate(file, bytes.count) == 0 else {
                throw CocoaError(.fileWriteOutOfSpace)
            }
            close(file)
        }
        for (name, target) in links { symlink(target, "\(directory)/\(name)") }
    }

    // MARK: One bit

    /// Inverts one bit of one file; each kind of file is as likely as any other.
    static func flip(_ image: inout StoreImage, _ numbers: inout SeededRandom) -> String {
        let kinds: [(StoreImage) -> [String]] = [
            { _ in ["FORMAT"] }, { _ in ["anchor"] }, { _ in ["journal"] }, { _ in ["store/index.db"] },
            { $0.paths.filter { $0.hasSuffix("-wal") } }, { $0.paths.filter { $0.contains("/v/") } },
        ]
        var candidates: [String] = []
        while candidates.isEmpty { candidates = image.present(kinds[Int.random(in: 0..<6, using: &numbers)](image)) }
        let path = candidates[Int.random(in: 0..<candidates.count, using: &numbers)]
        guard var bytes = image.files[path], !bytes.isEmpty else { return "nothing" }
        // Of a journal, mostly what is used of it: the rest is never read.
        let used = (bytes.lastIndex { $0 != 0 } ?? 0) + 1
        let range = Int.random(in: 0..<10, using: &numbers) == 0 ? bytes.count : min(bytes.count, used + 200)
        let bit = Int.random(in: 0..<range * 8, using: &numbers)
        bytes[bit / 8] ^= 1 << UInt8(bit % 8)
        image.files[path] = bytes
        return "bit \(bit) of \(path)"
    }

    private func present(_ names: [String]) -> [String] { names.filter { files[$0]?.isEmpty == false } }

    // MARK: Whole files

    /// Cuts, removes, swaps, adds, zeroes or replaces files.
    static func reshape(_ image: inout StoreImage, _ numbers: inout SeededRandom) -> String {
        let path = image.paths[Int.random(in: 0..<image.paths.count, using: &numbers)]
        switch Int.random(in: 0..<8, using: &numbers) {
        case 0...1: return image.cut(path, &numbers)
        case 2:
            image.files[path] = nil
            return "\(path) removed"
        case 3: return image.swap(path, &numbers)
        case 4: return image.add(&numbers)
        case 5: return image.zero(path, &numbers)
        case 6: return image.replaceByLink(path, &numbers)
        default: return image.lengthen(path, &numbers)
        }
    }

    private mutating func cut(_ path: String, _ numbers: inout SeededRandom) -> String {
        let bytes = files[path] ?? []
        let count = Int.random(in: 0...bytes.count, using: &numbers)
        files[path] = Array(bytes.prefix(count))
        return "\(path) cut to \(count) of \(bytes.count)"
    }

    /// Two files change places; mostly two value files.
    private mutating func swap(_ path: String, _ numbers: inout SeededRandom) -> String {
        let values = paths.filter { $0.contains("/v/") }
        let pool = Int.random(in: 0..<4, using: &numbers) > 0 && values.count > 1 ? values : paths
        let one = pool == values ? values[Int.random(in: 0..<values.count, using: &numbers)] : path
        let other = pool[Int.random(in: 0..<pool.count, using: &numbers)]
        (files[one], files[other]) = (files[other], files[one])
        return "\(one) and \(other) swapped"
    }

    private mutating func add(_ numbers: inout SeededRandom) -> String {
        let names = [
            "store/v/00/0000010000000000", "store/v/zz", "store/v/01/garbage", "store/index.db-journal", "garbage",
            "store/garbage", "quarantine-1", "quarantine-999/REASON", "discarded-2/v/00/0000010000000000", "FORMAT.new",
            "store/v/03/ffffffffffffff03",
        ]
        let name = names[Int.random(in: 0..<names.count, using: &numbers)]
        var parent = ""
        for part in name.split(separator: "/").dropLast() {
            parent += parent.isEmpty ? String(part) : "/\(part)"
            if !directories.contains(parent) { directories.append(parent) }
        }
        files[name] = (0..<Int.random(in: 0..<9000, using: &numbers)).map { _ in
            UInt8.random(in: 0...255, using: &numbers)
        }
        return "\(name) added"
    }

    private mutating func zero(_ path: String, _ numbers: inout SeededRandom) -> String {
        guard var bytes = files[path], !bytes.isEmpty else { return "nothing" }
        let block = Int.random(in: 0...(bytes.count - 1) / 512, using: &numbers) * 512
        let end = min(bytes.count, block + (Bool.random(using: &numbers) ? 512 : 4096))
        for index in block..<end { bytes[index] = 0 }
        files[path] = bytes
        return "\(path) zero from \(block) to \(end)"
    }

    private mutating func replaceByLink(_ path: String, _ numbers: inout SeededRandom) -> String {
        files[path] = nil
        links[path] = Bool.random(using: &numbers) ? "/dev/null" : "nowhere"
        return "\(path) is a link"
    }

    private mutating func lengthen(_ path: String, _ numbers: inout SeededRandom) -> String {
        let count = Int.random(in: 1..<5000, using: &numbers)
        files[path, default: []] += (0..<count).map { _ in UInt8.random(in: 0...255, using: &numbers) }
        return "\(path) is \(count) bytes longer"
    }
}

/// Removes a directory with all that is in it; follows no link.
func removeTree(_ path: String) {
    guard let stream = opendir(path) else {
        unlink(path)
        return
    }
    while let entry = readdir(stream) {
        let name = withUnsafePointer(to: &entry.pointee.d_name) {
            $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
        }
        if name == "." || name == ".." { continue }
        let child = "\(path)/\(name)"
        var status = stat()
        guard lstat(child, &status) == 0 else { continue }
        if status.st_mode & S_IFMT == S_IFDIR { removeTree(child) } else { unlink(child) }
    }
    closedir(stream)
    rmdir(path)
}
