// The memory control group that the process is in: how much the kernel lets it take before it ends it.
//
// Reads version 2 (memory.max) and version 1 (memory.limit_in_bytes) where systemd and container run times mount them,
// below /sys/fs/cgroup. The tightest of all groups above counts. What cannot be read does not limit. Any thread; a few
// short reads of kernel files. See cgroups(7) and cgroup_namespaces(7).

import Glibc

/// A memory limit that the kernel enforces.
struct ControlGroup: Equatable, Sendable {
    /// The limit.
    var limitBytes: Int
    /// Memory of the group's processes that is in no file: the kernel cannot take it back.
    var anonymousBytes: Int

    /// Larger limits are the kernel's way to write none.
    private static let limitBytesMax = 1 << 60

    /// The tightest limit that this process is under; nil: none.
    static var current: ControlGroup? { read { text(of: $0) } }

    /// The same, from files that `text` gives; nil where there is no such file.
    static func read(_ text: (String) -> String?) -> ControlGroup? {
        var tightest: (limit: Int, folder: String, isUnified: Bool)?
        for line in (text("/proc/self/cgroup") ?? "").split(separator: "\n") {
            // hierarchy-ID:controller-list:cgroup-path, where the path may hold colons.
            let fields = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
            guard fields.count == 3 else { continue }
            let isUnified = fields[0] == "0" && fields[1].isEmpty
            guard isUnified || fields[1].split(separator: ",").contains("memory") else { continue }
            let root = isUnified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory"
            let file = isUnified ? "memory.max" : "memory.limit_in_bytes"
            for folder in folders(String(fields[2]), below: root) {
                guard let limit = number(text("\(folder)/\(file)")), limit < limitBytesMax else { continue }
                if limit < tightest?.limit ?? .max { tightest = (limit, folder, isUnified) }
            }
        }
        guard let tightest else { return nil }
        let name = tightest.isUnified ? "anon" : "total_rss"
        return ControlGroup(
            limitBytes: tightest.limit,
            anonymousBytes: statistic(name, in: text("\(tightest.folder)/memory.stat") ?? ""))
    }

    /// The group's folder and those above it; in a container the path may be the host's, then only the root is there.
    private static func folders(_ path: String, below root: String) -> [String] {
        var parts = path.split(separator: "/").filter { $0 != ".." }
        var folders: [String] = []
        while !parts.isEmpty {
            folders.append(root + "/" + parts.joined(separator: "/"))
            parts.removeLast()
        }
        return folders + [root]
    }

    private static func number(_ text: String?) -> Int? {
        text.flatMap { Int($0.split(separator: "\n").first ?? "") }
    }

    private static func statistic(_ name: String, in text: String) -> Int {
        for line in text.split(separator: "\n") {
            let words = line.split(separator: " ")
            if words.count == 2, words[0] == name { return Int(words[1]) ?? 0 }
        }
        return 0
    }

    /// A file of the kernel's, as far as its first 16 KiB.
    private static func text(of path: String) -> String? {
        let fd = unsafe open(path, O_RDONLY | O_CLOEXEC)
        guard fd >= 0 else { return nil }
        defer { close(fd) }
        var bytes = [UInt8](repeating: 0, count: 16 << 10)
        // SAFETY: at most as many bytes are read as the array has.
        let count = unsafe Glibc.read(fd, &bytes, bytes.count)
        return count > 0 ? String(decoding: bytes[..<count], as: UTF8.self) : nil
    }
}

/// How much of `memory.limit` the control group leaves, and how that gives way while the group is short of memory.
///
/// Pure: told the numbers once a second.
struct MemoryAllowance: Equatable, Sendable {
    /// What the daemon takes besides a tenth more than its entries.
    static let fixedBytes = 32 << 20
    private static let bytesMin = 1 << 20

    /// The limit in force.
    private(set) var bytes: Int
    /// Whether the group was short of memory when it was last looked at.
    private(set) var isShort = false

    /// Begins with as much of `wanted` as fits.
    init(wanted: Int, group: ControlGroup?) { bytes = Self.fitting(wanted, group) }

    /// As much of `wanted` as a group allows whose limit is not to be reached: resident memory is a tenth more, and
    /// some.
    static func fitting(_ wanted: Int, _ group: ControlGroup?) -> Int {
        guard let group else { return wanted }
        // Whole MiB read better.
        let fitting = (group.limitBytes - fixedBytes) / 11 * 10 / bytesMin * bytesMin
        return min(wanted, max(bytesMin, fitting))
    }

    /// A second later: gives way to a shortage of the group, or takes back what it gave.
    ///
    /// Less by a sixteenth of what is held while all but a sixteenth of the group's memory is taken,
    /// down to a quarter; more by a sixteenth again when an eighth of it is free.
    mutating func update(wanted: Int, group: ControlGroup?, heldBytes: Int) {
        let most = Self.fitting(wanted, group)
        let taken = group?.anonymousBytes ?? 0
        let limit = group?.limitBytes ?? .max
        isShort = taken > limit - limit / 16
        if isShort {
            bytes = max(most / 4, min(bytes, heldBytes) / 16 * 15)
        } else if taken <= limit - limit / 8 {
            bytes += max(Self.bytesMin, most / 16)
        }
        bytes = max(Self.bytesMin, min(bytes, most))
    }
}
