// What the control group allows, and how the memory tier gives way to it.

import Testing

@testable import CacheDaemon

@Suite("the control group's memory limit")
struct ControlGroupTests {
    private func read(_ files: [String: String]) -> ControlGroup? { ControlGroup.read { files[$0] } }

    @Test("version 2: the tightest of the group and those above it, with its own use")
    func unified() {
        let files = [
            "/proc/self/cgroup": "0::/system.slice/cache.service\n",
            "/sys/fs/cgroup/system.slice/cache.service/memory.max": "max\n",
            "/sys/fs/cgroup/system.slice/cache.service/memory.stat": "anon 1\n",
            "/sys/fs/cgroup/system.slice/memory.max": "209715200\n",
            "/sys/fs/cgroup/system.slice/memory.stat": "anon 5000\nfile 77\nanon_thp 3\n",
        ]
        #expect(read(files) == ControlGroup(limitBytes: 200 << 20, anonymousBytes: 5000))
    }

    @Test("version 1: the memory controller among others, in whatever line; huge numbers are no limit")
    func separate() {
        var files = [
            "/proc/self/cgroup": "9:name=systemd:/\n4:hugetlb,memory:/a/b:c\n0::/\n",
            "/sys/fs/cgroup/memory/a/b:c/memory.limit_in_bytes": "100663296\n",
            "/sys/fs/cgroup/memory/a/b:c/memory.stat": "rss 1\ntotal_rss 4096\n",
            "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        ]
        #expect(read(files) == ControlGroup(limitBytes: 96 << 20, anonymousBytes: 4096))
        files["/sys/fs/cgroup/memory/a/b:c/memory.limit_in_bytes"] = "9223372036854771712\n"
        #expect(read(files) == nil)
    }

    @Test("in a container the path may be the host's: the mounted root counts")
    func container() {
        let files = [
            "/proc/self/cgroup": "0::/../../docker/0123\n", "/sys/fs/cgroup/memory.max": "67108864\n",
        ]
        #expect(read(files) == ControlGroup(limitBytes: 64 << 20, anonymousBytes: 0))
    }

    @Test(
        "what cannot be read does not limit",
        arguments: ["", "0::", "0:", "x\n:::\n", "0::/\n", "3:cpu:/a\n", "0::/a\n9:memory"])
    func nothing(text: String) {
        #expect(read(["/proc/self/cgroup": text]) == nil)
        #expect(read([:]) == nil)
        #expect(read(["/proc/self/cgroup": text, "/sys/fs/cgroup/memory.max": "many\n"]) == nil)
    }
}

@Suite("the memory tier's share of the control group")
struct MemoryAllowanceTests {
    private func group(_ limit: Int, taken: Int = 0) -> ControlGroup {
        ControlGroup(limitBytes: limit << 20, anonymousBytes: taken << 20)
    }

    @Test("a tenth more than the share and 32 MiB stay within the group's limit; what fits is left alone")
    func fitting() {
        for limit in stride(from: 40, to: 4000, by: 7) {
            let bytes = MemoryAllowance(wanted: 8 << 30, group: group(limit)).bytes
            #expect(bytes + bytes / 10 + (32 << 20) <= limit << 20, "a group of \(limit) MiB")
            #expect(bytes + bytes / 10 + (35 << 20) >= limit << 20, "a group of \(limit) MiB: all of it")
        }
        #expect(MemoryAllowance(wanted: 64 << 20, group: group(103)).bytes == 64 << 20)
        #expect(MemoryAllowance(wanted: 64 << 20, group: group(102)).bytes < 64 << 20)
        #expect(MemoryAllowance(wanted: 64 << 20, group: group(1)).bytes == 1 << 20)
        #expect(MemoryAllowance(wanted: 64 << 20, group: nil).bytes == 64 << 20)
    }

    @Test("while the group is short the share shrinks by steps, never below a quarter, and grows back")
    func shortage() {
        var allowance = MemoryAllowance(wanted: 64 << 20, group: group(160))
        var held = 60 << 20
        var before = allowance.bytes
        for second in 0..<60 {
            allowance.update(wanted: 64 << 20, group: group(160, taken: 151), heldBytes: held)
            #expect(allowance.isShort)
            #expect(allowance.bytes <= before && allowance.bytes >= 16 << 20, "second \(second)")
            #expect(allowance.bytes >= min(before, held) / 16 * 15 || allowance.bytes == 16 << 20, "no leap")
            before = allowance.bytes
            held = min(held, before)
        }
        #expect(before == 16 << 20)
        allowance.update(wanted: 64 << 20, group: group(160, taken: 145), heldBytes: held)
        #expect(!allowance.isShort && allowance.bytes == before, "between the two borders nothing moves")
        for _ in 0..<12 { allowance.update(wanted: 64 << 20, group: group(160, taken: 100), heldBytes: held) }
        #expect(allowance.bytes == 64 << 20)
    }

    @Test("a limit that changes is followed at once, down and up")
    func changes() {
        var allowance = MemoryAllowance(wanted: 64 << 20, group: nil)
        allowance.update(wanted: 64 << 20, group: group(65), heldBytes: 64 << 20)
        #expect(allowance.bytes == 30 << 20)
        for _ in 0..<20 { allowance.update(wanted: 64 << 20, group: nil, heldBytes: 0) }
        #expect(allowance.bytes == 64 << 20)
        allowance.update(wanted: 5 << 20, group: nil, heldBytes: 0)
        #expect(allowance.bytes == 5 << 20)
    }
}
