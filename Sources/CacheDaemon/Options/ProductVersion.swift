// The version, once.

/// Name and version of the program.
enum ProductVersion {
    /// See CHANGELOG.md.
    static let number = "0.1.0"

    /// What `--version` prints.
    static let line = "cache-daemon \(number)"

    /// What the `version` command and `stats` answer.
    ///
    /// Clients and tools compare it with memcached's version; it names the release whose commands we speak.
    static let wire = "1.6.45-cache-daemon-\(number)"
}
