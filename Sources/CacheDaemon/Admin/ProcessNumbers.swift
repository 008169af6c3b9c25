// What the kernel knows about the process: CPU time, resident memory, descriptors. See proc(5) and getrusage(2).
//
// A number that cannot be had is 0: a scrape must not fail for it. Any thread.

import Glibc
import Primitives

/// The process at one moment.
struct ProcessNumbers: Sendable {
    var cpuSeconds = 0.0
    var residentBytes = 0
    var openDescriptors = 0
    var startSeconds = 0.0

    /// Nothing.
    init() {}

    /// The numbers of now.
    init(_ service: Service) {
        var usage = rusage()
        // SAFETY: the kernel fills the struct, which lives until the call returns.
        if unsafe getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage) == 0 {
            cpuSeconds = Self.seconds(usage.ru_utime) + Self.seconds(usage.ru_stime)
        }
        residentBytes = Self.residentPages * Int(sysconf(Int32(_SC_PAGESIZE)))
        openDescriptors = Self.countDescriptors()
        startSeconds = Double(service.startedAtWall.milliseconds) / 1000
    }

    private static func seconds(_ time: timeval) -> Double { Double(time.tv_sec) + Double(time.tv_usec) / 1e6 }

    /// The second number of /proc/self/statm.
    private static var residentPages: Int {
        let fd = unsafe open("/proc/self/statm", O_RDONLY | O_CLOEXEC)
        guard fd >= 0 else { return 0 }
        defer { close(fd) }
        var bytes = [UInt8](repeating: 0, count: 128)
        // SAFETY: at most as many bytes are read as the array has.
        let count = unsafe read(fd, &bytes, bytes.count)
        guard count > 0 else { return 0 }
        let words = String(decoding: bytes[..<count], as: UTF8.self).split(separator: " ")
        return words.count > 1 ? Int(words[1]) ?? 0 : 0
    }

    private static func countDescriptors() -> Int {
        guard let folder = unsafe opendir("/proc/self/fd") else { return 0 }
        defer { unsafe closedir(folder) }
        var count = 0
        while unsafe readdir(folder) != nil { count += 1 }
        // Without `.`, `..` and the folder itself.
        return max(0, count - 3)
    }
}
