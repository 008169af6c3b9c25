// The file of accounts, the check of a name and a password, rights, and the delays after failures.

import Crypt
import Foundation
import Primitives
import Protocol
import Testing

@testable import CacheDaemon

struct AuthFileTests {
    private func parse(_ text: String) throws -> [Account] {
        try AuthFile(parsing: Array(text.utf8), path: "f").accounts
    }

    private func reason(_ text: String) -> String? {
        do { _ = try parse(text) } catch { return "\(error)" }
        return nil
    }

    @Test func readsMemcachedsFiles() throws {
        let accounts = try parse("foo:bar\nbaaaz:quux\n")
        #expect(accounts.map(\.name.text) == ["foo", "baaaz"])
        #expect(accounts.allSatisfy { $0.rights == .all && $0.keyPrefix.isEmpty })
        // Without a last line feed, with carriage returns, and with colons and spaces in the password.
        #expect(try parse("foo:bar").first?.secret == parse("foo:bar\r\n").first?.secret)
        guard case .password(let password) = try #require(parse("foo:a b:c ").first).secret else {
            Issue.record("not a plain password")
            return
        }
        #expect(password.text == "a b:c ")
    }

    @Test func readsCommentsRightsAndHashes() throws {
        let hash = try #require(PasswordHash(of: Array("pw".utf8), prefix: "$6$", cost: 1000))
        let accounts = try parse("# who\n\n@b read prefix=b:\na:1\nb:\(hash.string)\n@a write,read\n")
        #expect(accounts.map(\.rights) == [[.read, .write], .read])
        #expect(accounts[1].keyPrefix == Array("b:".utf8))
        #expect(accounts[1].secret == .hash(hash))
        #expect(try parse("a:1\n@a prefix=x").first?.rights == .all)
    }

    @Test(arguments: [
        ("", "f: holds no account"), ("# only\n", "f: holds no account"), ("ab", "f:1: not name:password"),
        ("a:1\n\nx", "f:3: not name:password"),
        (":x", "f:1: the name is empty, or has a space or control character in it"),
        ("a b:x", "f:1: the name is empty, or has a space or control character in it"),
        ("a:", "f:1: the password is empty, or has a zero byte in it"),
        ("a:x\0", "f:1: the password is empty, or has a zero byte in it"),
        ("a:1\na:2", "f:2: the name stands twice"),
        ("a:$6$salt$short", "f:1: the password hash is malformed or of an unknown method"),
        ("a:$1$salt$0123456789012345678901", "f:1: the password hash is of a method that is too weak"),
        ("a:$5$salt$\(String(repeating: "a", count: 43))", "f:1: the password hash is of a method that is too weak"),
        ("a:1\n@b read", "f:2: not @name and rights, or no account of that name"),
        ("a:1\n@a", "f:2: not @name and rights, or no account of that name"),
        ("a:1\n@a root", "f:2: rights are read, write, admin or all"),
        ("a:1\n@a read write", "f:2: rights go into one list with commas"),
        ("a:1\n@a prefix=", "f:2: prefix= wants 1 to 250 bytes, once"),
        ("a:1\n@a read\n@a write", "f:3: the account has its rights already"),
        (String(repeating: "n", count: 251) + ":x", "f:1: the name is longer than 250 bytes"),
        ("n:" + String(repeating: "x", count: 512), "f:1: the password is longer than 511 bytes"),
    ])
    func refusesTheWholeFile(_ text: String, _ expected: String) { #expect(reason(text) == expected) }

    @Test func errorsShowNoSecret() {
        for text in ["sesame", "a:sesame\na:sesame", "a:$6$sesame", "a:1\n@sesame sesame", "a:1\n@a sesame"] {
            let shown = reason(text)
            #expect(shown?.contains("sesame") == false, "\(shown ?? "accepted")")
        }
    }

    @Test func boundsTheFile() {
        #expect(reason((0..<1001).map { "u\($0):p\n" }.joined()) == "f:1001: more than 1000 accounts")
        #expect(reason((0..<1000).map { "u\($0):p\n" }.joined()) == nil)
    }

    @Test func refusesFilesOfOthers() throws {
        let directory = try TemporaryDirectory()
        let path = directory.path + "/accounts"
        try Data("foo:bar\n".utf8).write(to: URL(fileURLWithPath: path))
        func failure() -> String? {
            do { _ = try AuthFile.read(path: path) } catch { return error.description }
            return nil
        }
        for mode in [0o644, 0o640, 0o604, 0o660, 0o606, 0o601, 0o610] {
            chmod(path, mode_t(mode))
            #expect(failure()?.contains("mode \(String(mode, radix: 8)) lets others at it") == true, "\(mode)")
        }
        for mode in [0o600, 0o400] {
            chmod(path, mode_t(mode))
            #expect(failure() == nil, "\(mode)")
        }
        if geteuid() == 0 {
            chown(path, 4242, 0)
            #expect(failure()?.contains("belongs to user 4242") == true)
            chown(path, 0, 0)
        }
        chmod(path, 0o600)
        try Data(repeating: 35, count: (64 << 10) + 1).write(to: URL(fileURLWithPath: path))
        #expect(failure()?.contains("larger than 65536 bytes") == true)
        #expect(throws: AuthFileError.self) { try AuthFile.read(path: directory.path) }
        #expect(throws: AuthFileError.self) { try AuthFile.read(path: directory.path + "/none") }
        // A pipe must not hang the start.
        mkfifo(directory.path + "/pipe", 0o600)
        #expect(throws: AuthFileError.self) { try AuthFile.read(path: directory.path + "/pipe") }
    }
}

struct LoginCheckTests {
    private func check(_ text: String) throws -> LoginCheck {
        LoginCheck(try AuthFile(parsing: Array(text.utf8), path: "f").accounts.map { AccessGrant($0) })
    }

    private func opened(_ check: inout LoginCheck, _ name: String, _ password: String) -> String? {
        check.check(name: Array(name.utf8), password: Array(password.utf8))?.account.name.text
    }

    @Test func plainPasswords() throws {
        var check = try check("foo:bar\nbaaaz:quux\nsame:bar\n")
        #expect(opened(&check, "foo", "bar") == "foo")
        #expect(opened(&check, "baaaz", "quux") == "baaaz")
        #expect(opened(&check, "same", "bar") == "same")
        for (name, password) in [
            ("foo", "bab"), ("foo", "quux"), ("foo", ""), ("", "bar"), ("fo", "bar"), ("foo", "bar\0"),
            ("foo\0", "bar"),
            ("foo", "barr"), ("foo", "ba"), ("nobody", "bar"), ("foo", String(repeating: "b", count: 600)),
        ] {
            #expect(opened(&check, name, password) == nil, "\(name) \(password)")
        }
    }

    @Test(arguments: ["$y$", "$6$", "$2b$", "$7$"])
    func hashes(_ prefix: String) throws {
        let hash = try #require(PasswordHash(of: Array("open".utf8), prefix: prefix, cost: prefix == "$2b$" ? 4 : 0))
        var check = try check("plain:text\nhashed:\(hash.string)\n")
        // The second time the account is known, which must change nothing but the cost.
        for _ in 0..<2 {
            #expect(opened(&check, "hashed", "open") == "hashed")
            #expect(opened(&check, "hashed", "opem") == nil)
            #expect(opened(&check, "plain", "open") == nil)
            #expect(opened(&check, "plain", "text") == "plain")
            #expect(opened(&check, "nobody", "open") == nil)
            #expect(opened(&check, "hashed", hash.string) == nil, "the hash is not the password")
        }
    }

    @Test func fixedBytesCompareAll() throws {
        func fixed(_ text: String) throws -> FixedBytes { try #require(FixedBytes(Array(text.utf8))) }
        #expect(try fixed("abc").equals(fixed("abc")) == 1)
        #expect(try fixed("").equals(fixed("")) == 1)
        for other in ["abd", "bbc", "ab", "abcd", "", "abc\0"] {
            #expect(try fixed("abc").equals(fixed(other)) == 0, "\(other)")
        }
        let long = String(repeating: "x", count: 511)
        #expect(try fixed(long).equals(fixed(long)) == 1)
        #expect(try fixed(long).equals(fixed(long.dropLast() + "y")) == 0)
        #expect(FixedBytes([UInt8](repeating: 1, count: 512)) == nil)
    }
}

struct FailureLedgerTests {
    @Test func delaysGrowPerAddressAndAreForgotten() {
        var ledger = FailureLedger()
        var now = Instant(milliseconds: 5_000_000)
        let delays = (0..<8).map { _ in ledger.fail("a", now: now) }
        #expect(delays == [250, 500, 1000, 2000, 4000, 8000, 8000, 8000])
        #expect(ledger.fail("b", now: now) == 250)
        now = now.advanced(byMilliseconds: FailureLedger.memoryMilliseconds)
        #expect(ledger.fail("a", now: now) == 8000)
        now = now.advanced(byMilliseconds: FailureLedger.memoryMilliseconds + 1)
        #expect(ledger.fail("a", now: now) == 250)
        for _ in 0..<100 { #expect(ledger.fail("c", now: now) <= 8000) }
    }

    @Test func isBounded() {
        var ledger = FailureLedger()
        let now = Instant(milliseconds: 0)
        for number in 0..<FailureLedger.addressesMax { _ = ledger.fail("a\(number)", now: now) }
        #expect(ledger.fail("one more", now: now) == 250)
        #expect(ledger.fail("another", now: now) == 500, "shared by those that have no place of their own")
        #expect(ledger.addressCount == FailureLedger.addressesMax + 1)
        #expect(ledger.fail("later", now: now.advanced(byMilliseconds: 200_000)) == 250)
        #expect(ledger.addressCount == 1)
    }

    @Test func networks() {
        #expect(FailureLedger.network(of: "10.1.2.3") == "10.1.2.3")
        #expect(FailureLedger.network(of: "2001:db8:1:2::1") == FailureLedger.network(of: "2001:db8:1:2:ffff::9"))
        #expect(FailureLedger.network(of: "2001:db8:1:2::1") != FailureLedger.network(of: "2001:db8:1:3::1"))
        #expect(FailureLedger.network(of: "::ffff:10.1.2.3") != FailureLedger.network(of: "::ffff:10.1.2.4"))
        #expect(FailureLedger.network(of: "unix") == "unix")
    }
}

struct AccessRightsTests {
    private func allows(_ rights: AccessRights, _ line: String, prefix: String = "") throws -> Bool {
        let name = try #require(FixedBytes(Array("u".utf8)))
        let grant = AccessGrant(
            Account(name: name, secret: .password(name), rights: rights, keyPrefix: Array(prefix.utf8)))
        let bytes = Array((line + "\r\n").utf8)
        return bytes.withUnsafeBytes { input in
            var parser = RequestParser(limits: ProtocolLimits())
            guard case .request(let request, _) = parser.parse(input) else {
                Issue.record("not a request: \(line)")
                return false
            }
            return grant.allows(request, in: input)
        }
    }

    private static let needs: [(line: String, letters: String)] = [
        ("get a b", "r"), ("gets a", "r"), ("mg a v", "r"), ("me a", "r"), ("stats", "r"), ("stats settings", "r"),
        ("stats conns", "r"), ("gat 0 a", "rw"), ("gats 0 a", "rw"), ("mg a T0", "rw"), ("mg a N0", "rw"),
        ("mg a R9", "rw"), ("set a 0 0 1", "w"), ("add a 0 0 1", "w"), ("cas a 0 0 1 1", "w"),
        ("append a 0 0 1", "w"), ("delete a", "w"), ("incr a 1", "w"), ("touch a 0", "w"), ("ms a 1", "w"),
        ("md a", "w"), ("ma a", "w"), ("flush_all", "a"), ("flush_all 10 noreply", "a"), ("verbosity 1", "a"),
        ("cache_memlimit 64", "a"), ("shutdown", "a"), ("watch", "a"), ("lru_crawler metadump all", "a"),
        ("lru_crawler enable", "a"), ("slabs automove 1", "a"), ("stats reset", "a"), ("stats cachedump 1 0", "a"),
        ("stats detail dump", "a"), ("stats anything", "a"), ("version", ""), ("mn", ""), ("quit", ""), ("help", ""),
    ]

    @Test(arguments: needs)
    func neededRights(_ line: String, _ letters: String) throws {
        var needed = AccessRights()
        if letters.contains("r") { needed.insert(.read) }
        if letters.contains("w") { needed.insert(.write) }
        if letters.contains("a") { needed.insert(.admin) }
        for raw in UInt8(0)...7 {
            let rights = AccessRights(rawValue: raw)
            #expect(try allows(rights, line) == rights.isSuperset(of: needed), "\(line) with \(raw)")
        }
    }

    private static let prefixed: [(line: String, isAllowed: Bool)] = [
        ("get a:1 a:2", true), ("get a:1 b:1", false), ("get a", false), ("get a:", true), ("gat 0 a:1 ab", false),
        ("set b 0 0 1", false), ("set a:b 0 0 1", true), ("delete b", false), ("incr b 1", false), ("touch b 1", false),
        ("mg b v", false), ("mg a:b v", true), ("mn", true), ("ms b 1", false), ("md b", false), ("ma b", false),
        ("mg YTox b", true), ("mg YjoxMQ== b", false), ("me b", false), ("version", true), ("flush_all", true),
    ]

    @Test(arguments: prefixed)
    func prefix(_ line: String, _ expected: Bool) throws { #expect(try allows(.all, line, prefix: "a:") == expected) }
}
