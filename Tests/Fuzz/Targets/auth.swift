// The file of accounts: any bytes are read or refused with a line number; what is read has names, secrets and rights.

@testable import CacheDaemon

/// Reads the input as a file of accounts.
func fuzz(_ bytes: UnsafeRawBufferPointer) {
    do {
        let file = try AuthFile(parsing: Array(bytes), path: "f")
        precondition(!file.accounts.isEmpty)
        for account in file.accounts { precondition(account == account) }
    } catch {
        precondition(error.description.hasPrefix("f"))
    }
}
