// The options for login and encryption, which every client program shares.

import Arguments
import TestSupport
import Testing

@testable import CacheBench
@testable import CacheClient
@testable import CacheStats

@Suite("Credential options")
struct CredentialOptionsTests {
    private func stats(_ line: String) throws -> StatsSettings {
        let request = try StatsRequest(arguments: line.split(separator: " ").map(String.init))
        guard case .show(let settings) = request else { throw StatsUsageError(description: "not a view") }
        return settings
    }

    @Test("nothing said is a plain connection of nobody")
    func plain() throws {
        let settings = try stats("summary")
        #expect(settings.encryption == nil)
        #expect(settings.login == nil)
    }

    @Test("naming any file asks for encryption, and the later of two wins")
    func files() throws {
        #expect(try stats("--tls").encryption == EncryptionSettings())
        #expect(try stats("--ca a.pem --ca b.pem").encryption == EncryptionSettings(authoritiesPath: "b.pem"))
        #expect(
            try stats("--key k.pem --cert c.pem --tls").encryption
                == EncryptionSettings(certificatePath: "c.pem", keyPath: "k.pem"))
    }

    @Test("the password is the first line of its file, wherever on the line the file is named")
    func password() throws {
        let directory = try TempDirectory()
        try directory.write(Array("secret word\nsecond\n".utf8), to: "password")
        let login = try stats("--password-file \(directory.path("password")) -u ann").login
        #expect(try login == Login(user: "ann", password: "secret word"))
    }

    @Test("a password of nobody is refused in the same words by every program")
    func passwordOfNobody() {
        let arguments = ["--password-file", "secret"]
        #expect(throws: StatsUsageError(description: "--password-file needs --user")) {
            try StatsRequest(arguments: arguments)
        }
        #expect(throws: BenchUsageError(description: "--password-file needs --user")) {
            try BenchRequest(arguments: arguments)
        }
    }

    @Test("an unreadable password file is named")
    func unreadable() {
        #expect(throws: StatsUsageError(description: "cannot open no-such-file: No such file or directory")) {
            try StatsRequest(arguments: ["--user", "ann", "--password-file", "no-such-file"])
        }
    }
}
