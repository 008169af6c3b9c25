// Hashed passwords as crypt(3) strings, through Debian's libcrypt (libxcrypt): yescrypt, scrypt, bcrypt, SHA-512.
//
// Takes strings as /etc/shadow has them and tells whether a password belongs to one; makes new ones for tests and for
// what a process remembers of its own. Knows no users and no files. Any thread may use it; a check costs what the
// hash's method was made to cost, milliseconds to a second, so event loops stay away. See crypt(5).

import CCrypt
import Glibc

/// Why a string is no hash that is accepted.
public enum PasswordHashError: Error, Equatable, Sendable, CustomStringConvertible {
    /// libcrypt does not know the method, or the string is cut or misspelt.
    case malformed
    /// A method that libcrypt calls legacy: DES, MD5, SHA-256 and their like.
    case weakMethod

    /// One line for people, without a full stop and without the hash.
    public var description: String {
        switch self {
        case .malformed: "the password hash is malformed or of an unknown method"
        case .weakMethod: "the password hash is of a method that is too weak"
        }
    }
}

/// A salted, hashed password.
@safe
public struct PasswordHash: Equatable, Sendable {
    /// Longest password that libcrypt takes, in bytes.
    public static let passwordBytesMax = 511

    /// The crypt(3) string, with a zero at its end.
    private let text: [CChar]

    /// Whether `text` is meant as a hash: `$method$...`.
    public static func resembles(_ text: [UInt8]) -> Bool {
        guard text.first == UInt8(ascii: "$"), let end = text.dropFirst().firstIndex(of: UInt8(ascii: "$")) else {
            return false
        }
        let method = text[1..<end]
        return (1...3).contains(method.count) && method.allSatisfy { isLetterOrDigit($0) }
    }

    private static func isLetterOrDigit(_ byte: UInt8) -> Bool {
        (48...57).contains(byte) || (65...90).contains(byte) || (97...122).contains(byte)
    }

    /// Takes a crypt(3) string.
    ///
    /// - Throws: `PasswordHashError` when libcrypt would not check it, or its method is weak.
    public init(_ text: [UInt8]) throws(PasswordHashError) {
        guard Self.resembles(text), text.count < 256, text.allSatisfy({ $0 > 32 && $0 < 127 }) else {
            throw .malformed
        }
        self.text = text.map { CChar(bitPattern: $0) } + [0]
        // SAFETY: the string ends in zero and outlives the calls.
        switch unsafe crypt_checksalt(self.text) {
        case CRYPT_SALT_OK: break
        case CRYPT_SALT_METHOD_LEGACY, CRYPT_SALT_METHOD_DISABLED, CRYPT_SALT_TOO_CHEAP: throw .weakMethod
        default: throw .malformed
        }
        // A salt alone passes that test.
        let digest = text.split(separator: UInt8(ascii: "$"), omittingEmptySubsequences: false).last
        guard let wanted = Self.digestCharacters(of: text), digest?.count == wanted else { throw .malformed }
    }

    /// How many characters stand behind the last `$`; nil for methods that are not accepted.
    private static func digestCharacters(of text: [UInt8]) -> Int? {
        switch String(decoding: text.dropFirst().prefix { $0 != UInt8(ascii: "$") }, as: UTF8.self) {
        case "y", "gy", "7": 43
        case "6": 86
        // bcrypt: the salt's 22 characters and 31 of the digest.
        case "2a", "2b", "2y": 53
        default: nil
        }
    }

    private init(made text: [CChar]) { self.text = text }

    /// Hashes a new password with the method of `prefix`, such as `$y$` or `$5$`, and a random salt.
    ///
    /// - Parameter cost: As for crypt_gensalt(3); 0 is the method's default.
    /// - Returns: nil when the method is unknown, the system has no randomness, or the password holds a zero byte.
    public init?(of password: [UInt8], prefix: String, cost: UInt = 0) {
        var setting = [CChar](repeating: 0, count: Int(CRYPT_GENSALT_OUTPUT_SIZE))
        let size = Int32(setting.count)
        // SAFETY: crypt_gensalt_rn writes within `size`, zero included; no random bytes given: it takes the kernel's.
        guard unsafe crypt_gensalt_rn(prefix, cost, nil, 0, &setting, size) != nil,
            let text = Self.hash(password, setting)
        else { return nil }
        self.text = text
    }

    /// The crypt(3) string.
    public var string: String { String(decoding: text.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self) }

    /// Whether this is the hash of `password`.
    ///
    /// The comparison takes the same time wherever the two differ.
    public func matches(_ password: [UInt8]) -> Bool {
        guard let other = Self.hash(password, text), other.count == text.count else { return false }
        var difference: CChar = 0
        for index in text.indices { difference |= text[index] ^ other[index] }
        return difference == 0
    }

    /// The crypt(3) string of `password` with the method and salt of `setting`, zero included; nil if there is none.
    private static func hash(_ password: [UInt8], _ setting: [CChar]) -> [CChar]? {
        guard password.count <= passwordBytesMax, !password.contains(0) else { return nil }
        var phrase = password.map { CChar(bitPattern: $0) } + [0]
        var memory: UnsafeMutableRawPointer?
        var size: Int32 = 0
        // SAFETY: both strings end in zero; crypt_ra allocates `memory`, of `size` bytes, and its result lies in there.
        defer {
            unsafe explicit_bzero(&phrase, phrase.count)
            if let memory = unsafe memory {
                unsafe explicit_bzero(memory, Int(size))
                unsafe free(memory)
            }
        }
        guard let result = unsafe crypt_ra(phrase, setting, &memory, &size) else { return nil }
        let bytes = unsafe Array(UnsafeBufferPointer(start: result, count: strlen(result) + 1))
        // Failure tokens begin with a star; no hash does.
        return bytes.first == CChar(UInt8(ascii: "*")) ? nil : bytes
    }
}
