// Every form of refusal, word for word: the place, then the reason.

import TLS
import Testing

@testable import CacheDaemon

struct OptionsRefusalTests {
    static let flags: [(arguments: [String], lines: [String])] = [
        (["--nope"], ["unknown option '--nope'", "try --help"]),
        (["--memry", "5"], ["unknown option '--memry'; did you mean '--memory'?", "try --help"]),
        (["-m"], ["option '-m' needs a value: SIZE", "try --help"]),
        (["--no-disk=1"], ["option '--no-disk' takes no value", "try --help"]),
        (["stray"], ["unexpected argument 'stray'", "try --help"]),
        (["-U", "11211"], ["-U: UDP is not offered; only 0"]),
        (
            ["-d"],
            ["-d: the daemon stays in the foreground; let systemd, or a shell's &, put it in the background"]
        ),
        (["-m", "0"], ["--memory: 0B is not from 1MiB to 16TiB"]),
        (["-m", "99999999999999999999"], ["--memory: '99999999999999999999MiB' is too large"]),
        (["-m", "-5"], ["--memory: '-5' is not a whole number with a unit"]),
        (["-m", ""], ["--memory: empty value"]),
        (["--disk", "1.5GiB"], ["--disk: '1.5GiB' has the unknown unit '.5GiB'; use B, KiB, MiB, GiB or TiB"]),
        (["--disk", "1"], ["--disk: 1B is not from 16MiB to 1024TiB"]),
        (["-c", "0"], ["--max-connections: 0 is not from 1 to 1000000"]),
        (["-c", "1e3"], ["--max-connections: '1e3' is not a whole number"]),
        (["-t", "257"], ["--threads: 257 is not from 1 to 256"]),
        (["-t", "18446744073709551617"], ["--threads: 18446744073709551617 is not from 1 to 256"]),
        (["-a", "8"], ["--unix-mode: '8' is not an octal mode from 0 to 777"]),
        (["-a", "1777"], ["--unix-mode: '1777' is not an octal mode from 0 to 777"]),
        (["--idle-timeout", "60"], ["--idle-timeout: '60' needs a unit: ms, s, m, h or d"]),
        (["--idle-timeout", "0s"], ["--idle-timeout: 0s is not from 1s to 36500d"]),
        (["--durability", "Always"], ["--durability: 'Always' is not none, process or always"]),
        (["--dir", ""], ["--dir: empty value"]),
        (["--dir", "a ;b"], ["--dir: contains ' ;' or begins or ends with a space"]),
        (["-s", "; h4"], ["--unix: begins with ';', which would begin a comment"]),
        (["--dir", "a\nb"], ["--dir: contains a control character"]),
        (["-s", String(repeating: "p", count: 108)], ["--unix: longer than 107 bytes"]),
        (["-l", ""], ["--listen: '' names no host"]),
        (["-l", "a,,b"], ["--listen: '' names no host"]),
        (["-l", ":5"], ["--listen: ':5' names no host"]),
        (["-l", "a:65536"], ["--listen: '65536' is not a port from 0 to 65535"]),
        (["-l", "a:"], ["--listen: '' is not a port from 0 to 65535"]),
        (["-l", "[::1"], ["--listen: '[::1' lacks a ]"]),
        (["-l", "[::1]5"], ["--listen: '[::1]5': after ] only :PORT may stand"]),
        (["-l", "a:b:c"], ["--listen: 'a:b:c' is neither HOST:PORT nor an IPv6 address"]),
        (["-l", "[a]:5"], ["--listen: '[a]:5' is neither HOST:PORT nor an IPv6 address"]),
        (["-l", "a b"], ["--listen: 'a b' is not a host"]),
        (["--allow-insecure", "-l", "a", "-l", "a:11211"], ["--listen: a:11211 is listed twice"]),
        (["-p", "0"], ["--port: nothing to listen on: TCP is off and no Unix socket is set"]),
        (
            ["-p", "0", "-s", "s", "-l", "localhost"],
            ["--listen: port is 0, so every listen address must name its own"]
        ),
        (["-p", "65536"], ["--port: 65536 is not from 0 to 65535"]),
        (["--ttl-default", "2d", "--ttl-max", "1d"], ["--ttl-default: ttl.default (2d) exceeds ttl.max (1d)"]),
        (["-m", "1", "--memory-value-max", "2MiB"], ["--memory-value-max: memory.value_max exceeds memory.limit"]),
        (
            ["--disk", "16MiB", "--disk-journal", "3MiB"],
            ["--disk-journal: disk.journal exceeds an eighth of disk.limit"]
        ),
        (
            ["--durability", "always", "--disk-write", "on_evict"],
            [
                "--disk-write: disk.durability always writes every entry at once: disk.write, disk.admission and "
                    + "disk.write_budget must have their defaults"
            ]
        ),
        // All of them, not only the first.
        (
            ["-t", "0", "-c", "0"],
            ["--threads: 0 is not from 1 to 256", "--max-connections: 0 is not from 1 to 1000000"]
        ),
    ]

    @Test(arguments: flags.indices)
    func flagIsRefused(_ index: Int) {
        let (arguments, lines) = Self.flags[index]
        #expect(launch(arguments) == .refuse(lines))
    }

    static let files: [(text: String, lines: [String])] = [
        ("nope = 1\n", ["1: unknown option nope"]),
        ("[nope]\nlimit = 1\n", ["2: unknown section [nope]"]),
        ("limit = 1GiB\n", ["1: unknown option limit; limit stands in section [memory]"]),
        ("[memory]\nthreads = 1\n", ["2: unknown option memory.threads; threads stands above the first section"]),
        ("[memory]\nlimits = 1\n", ["2: unknown option memory.limits"]),
        ("[Memory]\nlimit = 1GiB\n", ["2: unknown section [Memory]"]),
        ("\n[memory]\nlimit = 0\n", ["3: memory.limit: 0B is not from 1MiB to 16TiB"]),
        ("[memory]\nlimit = 64\n", ["2: memory.limit: 64B is not from 1MiB to 16TiB"]),
        ("[memory]\nlimit =\n", ["2: memory.limit: empty value"]),
        ("threads = 1\nthreads = 2\n", ["2: threads is already set on line 1"]),
        ("[disk]\nenabled = maybe\n", ["2: disk.enabled: 'maybe' is not yes or no"]),
        ("shutdown_command = 1\n", ["1: shutdown_command: '1' is not yes or no"]),
        ("[ttl]\ndefault = 2d\nmax = 1d\n", ["2: ttl.default (2d) exceeds ttl.max (1d)"]),
        ("port = 0\n", ["1: nothing to listen on: TCP is off and no Unix socket is set"]),
        ("threads = 1\nbroken\n", ["2: neither a [section] nor key = value"]),
        // All of them, in order.
        ("a = 1\nthreads = x\n", ["1: unknown option a", "2: threads: 'x' is not a whole number"]),
    ]

    @Test(arguments: files.indices)
    func fileIsRefused(_ index: Int) throws {
        let (text, lines) = Self.files[index]
        let file = try ConfigurationFile(text)
        #expect(launch(["--config", file.path]) == .refuse(lines.map { "\(file.path):\($0)" }))
    }

    @Test func unreadableFileIsRefused() {
        #expect(
            launch(["--config", "/nonexistent"]) == .refuse(["/nonexistent: cannot open: No such file or directory"]))
        #expect(launch(["--config", "/"]) == .refuse(["/: cannot read: Is a directory"]))
        #expect(launch(["--config", ""]) == .refuse([": cannot open: No such file or directory"]))
    }

    /// A rule broken by a file's value and a flag's names the place of the value that is too large.
    @Test func rulesAcrossSourcesNameThePlace() throws {
        let file = try ConfigurationFile("[memory]\nvalue_max = 8MiB\n")
        #expect(
            launch(["--config", file.path, "-m", "4"])
                == .refuse(["\(file.path):2: memory.value_max exceeds memory.limit"]))
    }

    /// Defaults give way where they would contradict what was set.
    @Test func defaultsGiveWay() throws {
        #expect(try settings(["-m", "1"]).memory.valueBytesMax == 1 << 20)
        #expect(try settings(["--disk", "16MiB"]).disk.journalBytes == 2 << 20)
        #expect(try settings(["--disk", "1GiB"]).disk.journalBytes == 64 << 20)
    }

    /// Who may connect from where without proving anything.
    @Test(arguments: [
        (["-l", "127.0.0.1"], true), (["-l", "::ffff:127.0.0.1"], true), (["-l", "[::ffff:10.0.0.1]:5"], false),
        (["-l", "fe80::1"], false), (["-l", "192.0.2.1", "-Y", "/accounts"], true),
        (["-l", "notls:192.0.2.1", "--tls-certificate", "c", "-Y", "/accounts"], true),
        (["-l", "127.8.9.10:5"], true), (["-l", "::1"], true),
        (["-l", "localhost"], true),
        (["-s", "/tmp/s"], true), (["-l", "0.0.0.0"], false), (["-l", "*"], false), (["-l", "::"], false),
        (["-l", "192.0.2.1"], false), (["-l", "cache.example"], false), (["-l", "127.0.0.1.example"], false),
        (["-l", "127.0.0.1,192.0.2.1"], false), (["-l", "192.0.2.1", "--allow-insecure"], true),
        (["-l", "192.0.2.1", "--tls-certificate", "c"], true),
        (["-l", "notls:192.0.2.1", "--tls-certificate", "c"], false),
        (["-l", "notls:127.0.0.1,192.0.2.1", "--tls-certificate", "c"], true),
    ])
    func exposure(_ arguments: [String], _ isSafe: Bool) {
        guard case .refuse(let lines) = launch(arguments) else { return #expect(isSafe, "\(arguments)") }
        #expect(!isSafe, "\(lines)")
        #expect(lines.count == 1 && lines[0].hasPrefix("--listen: other machines could use "), "\(lines)")
    }

    @Test func theAdminPortIsForThisMachine() throws {
        for address in ["127.0.0.1:5", "[::1]:5", "localhost", "unix:/a"] { _ = try settings(["--admin", address]) }
        _ = try settings(["--admin", "0.0.0.0:5", "--allow-insecure"])
        guard case .refuse(let lines) = launch(["--admin", "0.0.0.0:5", "-Y", "/accounts"]) else {
            Issue.record("not refused")
            return
        }
        #expect(lines.count == 1 && lines[0].hasPrefix("--admin: other machines could read"), "\(lines)")
    }

    @Test func plainListenersAreMarked() throws {
        let listen = try settings(["-l", "notls:127.0.0.1:5,127.0.0.2"]).listen
        #expect(listen.map(\.isPlain) == [true, false])
        #expect(listen.map(\.description) == ["notls:127.0.0.1:5", "127.0.0.2:11211"])
        #expect(launch(["-l", "notls:127.0.0.1:5,127.0.0.1:5"]) == .refuse(["--listen: 127.0.0.1:5 is listed twice"]))
    }

    @Test func memcachedTLSFlags() throws {
        let tls = try settings([
            "-Z", "-o", "ssl_chain_cert=/c,ssl_key=/k,ssl_ca_cert=/a,ssl_verify_mode=1,ssl_min_version=3",
        ]).tls
        #expect(tls.certificate == "/c" && tls.key == "/k" && tls.clientAuthorities == "/a")
        #expect(tls.clientCertificates == .optional && tls.oldest == .v13)
        #expect(launch(["-Z"]) == .refuse(["-Z: needs a certificate: see tls.certificate"]))
        #expect(launch(["-o", "ssl_min_version=0"]) == .refuse(["-o ssl_min_version: needs one of: 2, 3"]))
    }

    @Test func listenCombinesAsInMemcached() throws {
        func listen(_ arguments: String...) throws -> [String] {
            try settings(["--allow-insecure"] + arguments).listen.map(\.description)
        }
        #expect(
            try listen("-l", "a, b:6", "-l", "[::1]:7", "-l", "fe80::1") == [
                "a:11211", "b:6", "[::1]:7", "[fe80::1]:11211",
            ])
        #expect(try listen("-p", "5", "-l", "a,b:6") == ["a:5", "b:6"])
        #expect(try listen("-s", "x") == [])
        #expect(try listen("-s", "x", "-p", "5") == ["127.0.0.1:5"])
        #expect(try listen("-s", "x", "-l", "a") == ["a:11211"])
        #expect(try listen("-s", "x", "-p", "0") == [])
        #expect(try listen("-l", "a:0", "-l", "a:0") == ["a:0", "a:0"])
        let file = try ConfigurationFile("listen = a\nlisten = b:6, c\nport = 9\n")
        #expect(try listen("--config", file.path) == ["a:9", "b:6", "c:9"])
        #expect(try listen("--config", file.path, "-l", "d", "-l", "e") == ["d:9", "e:9"])
    }
}
