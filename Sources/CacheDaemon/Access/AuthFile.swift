// The file of accounts: memcached's `name:password` lines, hashes instead of passwords, and lines about rights.
//
//     web:correct horse             a password as it is, as in memcached's -Y file
//     batch:$y$j9T$...              a crypt(3) hash, as in /etc/shadow
//     @batch read,write prefix=b:   what that account may do; without such a line, everything
//
// Reads and checks, and knows nothing of clients. A file that others may read or write is refused, and so is one with
// any line that makes no sense: half a file of accounts would lock people out, or in. Any thread.

import Crypt
import Glibc
import Primitives

/// Why a file of accounts cannot be used; never shows what stands in it.
struct AuthFileError: Error, Equatable, CustomStringConvertible {
    let description: String

    init(_ path: String, line: Int? = nil, _ reason: String) {
        description = line.map { "\(path):\($0): \(reason)" } ?? "\(path): \(reason)"
    }

    init(_ path: String, _ operation: String, _ code: Int32) {
        self.init(path, "\(operation): \(systemErrorText(code))")
    }
}

/// One account.
struct Account: Equatable, Sendable {
    /// What proves that a client is this account.
    enum Secret: Equatable, Sendable {
        case password(FixedBytes)
        case hash(PasswordHash)
    }

    let name: FixedBytes
    let secret: Secret
    var rights = AccessRights.all
    /// What all its keys begin with; empty: any key.
    var keyPrefix: [UInt8] = []

    /// Whether a client that is the one account is also the other.
    func isSame(as other: Account) -> Bool { name == other.name && secret == other.secret }
}

/// Bytes that take the same time to compare whatever they are: a fixed number, padded with zeros, and their count.
struct FixedBytes: Equatable, Sendable {
    /// Longest name or password, in bytes: that of crypt(3).
    static let countMax = PasswordHash.passwordBytesMax
    private let padded: [UInt8]
    let count: Int

    /// Copies bytes; nil when there are too many.
    init?(_ bytes: some Collection<UInt8>) {
        guard bytes.count <= Self.countMax else { return nil }
        count = bytes.count
        padded = Array(bytes) + [UInt8](repeating: 0, count: Self.countMax - bytes.count)
    }

    /// The bytes.
    var bytes: [UInt8] { Array(padded.prefix(count)) }

    /// The bytes as text, for the log.
    var text: String { String(decoding: padded.prefix(count), as: UTF8.self) }

    /// 1 if both are the same, else 0; the time does not depend on the bytes.
    func equals(_ other: FixedBytes) -> UInt8 {
        var difference = UInt32(truncatingIfNeeded: count ^ other.count)
        for index in 0..<Self.countMax { difference |= UInt32(padded[index] ^ other.padded[index]) }
        return UInt8(truncatingIfNeeded: (difference &- 1) >> 31)
    }
}

/// The accounts of a file.
struct AuthFile: Sendable {
    /// Limits of the file, beyond memcached's 8 lines of 255 bytes.
    static let fileBytesMax = 64 << 10
    static let accountsMax = 1000
    static let nameBytesMax = 250

    let accounts: [Account]

    // MARK: Reading

    /// Reads the file at `path`, which must belong to this user or to root, and to nobody else to read or write.
    static func read(path: String) throws(AuthFileError) -> AuthFile {
        let fd = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
        guard fd >= 0 else { throw AuthFileError(path, "open", errno) }
        defer { close(fd) }
        try check(fd, path)
        var bytes = [UInt8](repeating: 0, count: fileBytesMax + 1)
        var count = 0
        while count < bytes.count {
            // SAFETY: the kernel writes behind what was read, within the array.
            let got = unsafe bytes.withUnsafeMutableBytes {
                unsafe Glibc.read(fd, $0.baseAddress.map { unsafe $0 + count }, $0.count - count)
            }
            if got == 0 { break }
            if got < 0 {
                if errno == EINTR { continue }
                throw AuthFileError(path, "read", errno)
            }
            count += got
        }
        defer { unsafe explicit_bzero(&bytes, bytes.count) }
        guard count <= fileBytesMax else { throw AuthFileError(path, "larger than \(fileBytesMax) bytes") }
        return try AuthFile(parsing: Array(bytes[..<count]), path: path)
    }

    private static func check(_ fd: Int32, _ path: String) throws(AuthFileError) {
        var status = stat()
        guard unsafe fstat(fd, &status) == 0 else { throw AuthFileError(path, "fstat", errno) }
        guard status.st_mode & S_IFMT == S_IFREG else { throw AuthFileError(path, "not a regular file") }
        guard status.st_uid == geteuid() || status.st_uid == 0 else {
            throw AuthFileError(path, "belongs to user \(status.st_uid), not to user \(geteuid()) or root")
        }
        guard status.st_mode & 0o077 == 0 else {
            let mode = String(status.st_mode & 0o7777, radix: 8)
            throw AuthFileError(path, "mode \(mode) lets others at it; chmod 600 it")
        }
    }

    /// Reads what stands in a file; `path` is for the error.
    init(parsing bytes: [UInt8], path: String) throws(AuthFileError) {
        var accounts: [Account] = []
        var rightsLines: [(line: Int, text: [UInt8])] = []
        var number = 0
        for raw in bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false) {
            number += 1
            let line = raw.last == UInt8(ascii: "\r") ? raw.dropLast() : raw
            guard let first = line.first, first != UInt8(ascii: "#") else { continue }
            if first == UInt8(ascii: "@") {
                rightsLines.append((number, Array(line.dropFirst())))
                continue
            }
            do throws(LineProblem) {
                let account = try Account(parsing: line)
                if accounts.contains(where: { $0.name == account.name }) { throw LineProblem("the name stands twice") }
                if accounts.count == Self.accountsMax { throw LineProblem("more than \(Self.accountsMax) accounts") }
                accounts.append(account)
            } catch {
                throw AuthFileError(path, line: number, error.reason)
            }
        }
        if accounts.isEmpty { throw AuthFileError(path, "holds no account") }
        var seen: Set<Int> = []
        for (line, text) in rightsLines {
            do throws(LineProblem) {
                let index = try accounts.limit(by: text)
                if !seen.insert(index).inserted { throw LineProblem("the account has its rights already") }
            } catch {
                throw AuthFileError(path, line: line, error.reason)
            }
        }
        self.accounts = accounts
    }
}

// MARK: Lines

/// What is wrong with a line, without what stands in it.
private struct LineProblem: Error {
    let reason: String

    init(_ reason: String) { self.reason = reason }
}

extension Account {
    /// Reads `name:password`.
    fileprivate init(parsing line: ArraySlice<UInt8>) throws(LineProblem) {
        guard let colon = line.firstIndex(of: UInt8(ascii: ":")) else { throw LineProblem("not name:password") }
        let nameBytes = line[..<colon]
        let secretBytes = Array(line[(colon + 1)...])
        // The client sends `name password`, so a space ends the name.
        guard !nameBytes.isEmpty, nameBytes.allSatisfy({ $0 > 32 && $0 != 127 }) else {
            throw LineProblem("the name is empty, or has a space or control character in it")
        }
        guard nameBytes.count <= AuthFile.nameBytesMax, let name = FixedBytes(nameBytes) else {
            throw LineProblem("the name is longer than \(AuthFile.nameBytesMax) bytes")
        }
        guard !secretBytes.isEmpty, !secretBytes.contains(0) else {
            throw LineProblem("the password is empty, or has a zero byte in it")
        }
        self.name = name
        if PasswordHash.resembles(secretBytes) {
            do { secret = .hash(try PasswordHash(secretBytes)) } catch { throw LineProblem(error.description) }
        } else if let password = FixedBytes(secretBytes) {
            secret = .password(password)
        } else {
            throw LineProblem("the password is longer than \(FixedBytes.countMax) bytes")
        }
    }
}

extension [Account] {
    /// Takes a line `name right,right prefix=text`, in any order behind the name; returns the account's index.
    fileprivate mutating func limit(by text: [UInt8]) throws(LineProblem) -> Int {
        let words = text.split(separator: UInt8(ascii: " "))
        guard let name = words.first, words.count >= 2,
            let index = firstIndex(where: { $0.name.bytes.elementsEqual(name) })
        else { throw LineProblem("not @name and rights, or no account of that name") }
        var rights: AccessRights?
        var prefix: [UInt8]?
        for word in words.dropFirst() {
            if word.starts(with: "prefix=".utf8) {
                guard prefix == nil, word.count > 7, word.count <= 7 + 250 else {
                    throw LineProblem("prefix= wants 1 to 250 bytes, once")
                }
                prefix = Array<UInt8>(word.dropFirst(7))
                continue
            }
            guard rights == nil else { throw LineProblem("rights go into one list with commas") }
            rights = try Self.rights(String(decoding: word, as: UTF8.self))
        }
        if let rights { self[index].rights = rights }
        if let prefix { self[index].keyPrefix = prefix }
        return index
    }

    private static func rights(_ text: String) throws(LineProblem) -> AccessRights {
        var rights: AccessRights = []
        for word in text.split(separator: ",", omittingEmptySubsequences: false) {
            switch word {
            case "read": rights.insert(.read)
            case "write": rights.insert(.write)
            case "admin": rights.insert(.admin)
            case "all": rights.formUnion(.all)
            default: throw LineProblem("rights are read, write, admin or all")
            }
        }
        return rights
    }
}
