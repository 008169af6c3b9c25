// Everything that can be set, as typed values. Flags and files are read into it by SettingsDraft.swift; the option
// table (OptionTable.swift) ties each field to its name, range and help. Nothing here opens or checks anything outside
// the process.
//
// An absent limit (`nil`) means that there is none; zero never does.

import CacheEngine
import Primitives
import TLS

/// What the daemon is told to do.
///
/// Values are in range and agree with each other once `SettingsDraft.finish` has returned them.
struct Settings: Equatable, Sendable {
    /// TCP addresses to listen on.
    ///
    /// Empty: TCP is off, and `unixPath` is set.
    var listen: [ListenAddress] = [ListenAddress(host: "127.0.0.1", port: 11211)]
    /// The port of `listen` addresses that name none.
    var port = 11211
    /// A Unix socket to listen on.
    var unixPath: String?
    /// Permission bits of the Unix socket.
    var unixMode: UInt32 = 0o700
    /// Where administrators are served over HTTP; nil: nowhere.
    var admin: AdminAddress?
    /// Worker threads.
    var threads = 1
    /// Client connections served at a time.
    var connectionsMax = 1024
    /// A connection that sent nothing for so long is closed.
    var idleTimeout: TimeSpan?
    /// How long a request may take to arrive; more for what has come, see `requestBytesPerSecondMin`.
    var requestTimeout = TimeSpan.seconds(10)
    /// A request is given another second for so many bytes received.
    var requestBytesPerSecondMin = 1024
    /// How long a socket may take nothing of its replies.
    var sendTimeout = TimeSpan.seconds(60)
    /// Bytes that connections may hold for replies and requests that are not complete.
    var clientBytesMax = 64 << 20
    /// Whether other machines may connect although nothing keeps strangers out.
    var allowsInsecure = false
    /// Largest value that clients may store, in bytes.
    var entryBytesMax = 64 << 20
    /// Whether the `shutdown` command works.
    var acceptsShutdownCommand = false
    /// Whether clients may empty the cache with `flush_all`.
    var allowsFlush = true
    /// Whether clients may list keys and see counts by key prefix.
    var allowsDumps = true
    /// Whether clients may watch what others do.
    var allowsWatching = true
    /// memcached's options that were given and mean nothing here, for the log.
    var optionsWithoutEffect: [String] = []
    /// Whether a crash may leave a core file, with everything that clients stored in it.
    var writesCoreFiles = false
    /// The user to become when started as root.
    var user: String?

    var access = Access()
    var tls = TLS()
    var memory = Memory()
    var disk = Disk()
    var timeToLive = TimeToLive()
    var logLevel = LogLevel.notice
    /// Requests that take so long are kept in the slow log.
    var slowThreshold = TimeSpan(milliseconds: 20)

    /// Who may use the server.
    struct Access: Equatable, Sendable {
        /// The file of accounts; nil: whoever can connect.
        var accountFile: String?
        /// How long a client may take to authenticate itself.
        var loginTimeout = TimeSpan.seconds(10)
    }

    /// Encryption of TCP connections.
    struct TLS: Equatable, Sendable {
        /// The certificate chain, a PEM file.
        ///
        /// Nil: connections are not encrypted.
        var certificate: String?
        /// The private key, a PEM file; nil: in the file of the certificate.
        var key: String?
        /// The authorities of clients' certificates, a PEM file; nil: clients are not asked for one.
        var clientAuthorities: String?
        /// Whether clients need a certificate, where they are asked for one.
        var clientCertificates = ClientCertificates.required
        /// The oldest protocol.
        var oldest = TLSVersion.v12
        /// How long a handshake may take.
        var handshakeTimeout = TimeSpan.seconds(5)
        /// How many handshakes begin in a second, all workers together.
        var handshakesPerSecondMax = 1000
        /// memcached's -Z was given.
        var isDemanded = false

        /// Whether TCP connections are encrypted.
        var isOn: Bool { certificate != nil }

        /// memcached's number: 0 none, 1 optional, 2 required.
        var verifyMode: UInt64 { clientAuthorities == nil ? 0 : clientCertificates == .optional ? 1 : 2 }
    }

    /// Whether clients need a certificate.
    enum ClientCertificates: String, CaseIterable, Sendable {
        case required, optional
    }

    /// The memory tier.
    struct Memory: Equatable, Sendable {
        /// Bytes of entries with all their overhead.
        var bytesMax = 64 << 20
        var entriesMax: Int?
        /// Entries not used for so long leave the tier.
        var idleMax: TimeSpan?
        /// Larger values stay out of the tier and live on disk only.
        var valueBytesMax = 1 << 20
        /// Whether what was hot before a stop is brought back from disk after the start.
        var warmsUp = true
        /// Bytes of it in a second.
        var warmUpRate = 32 << 20
        /// Whether the limit gives way to what the control group allows.
        var fitsControlGroup = true
    }

    /// The disk tier.
    struct Disk: Equatable, Sendable {
        var isEnabled = true
        /// The directory that holds everything.
        ///
        /// Empty only when the tier is disabled.
        var directory = ""
        /// Allocated bytes of the whole directory.
        var bytesMax = 1 << 30
        var entriesMax: Int?
        /// Entries not used for so long leave the tier.
        var idleMax: TimeSpan?
        /// Bytes that stay free on the file system.
        var freeBytesMin: Int?
        /// Values up to so many bytes stand in the index, larger ones in files of their own.
        var inlineBytesMax = 20 << 10
        /// When entries are written.
        var write = DiskWriteMode.through
        /// Which entries are written.
        var admission = DiskAdmission.all
        /// Bytes of entries that may be written in a day.
        var writeBudget: Int?
        var durability = Durability.process
        var afterPowerLoss = PowerLossPolicy.discard
        /// Size of the journal file, in bytes.
        var journalBytes = 64 << 20
        /// Threads that read from disk.
        var readers = 2
        /// Time between two background trims.
        var trimInterval = TimeSpan.seconds(10)
    }

    /// Limits on how long entries live.
    struct TimeToLive: Equatable, Sendable {
        /// The TTL of entries that clients store without one.
        var standard: TimeSpan?
        /// Longer TTLs, and none, are cut to this.
        var max: TimeSpan?
    }
}

/// A TCP address to listen on.
///
/// The host is a name or a numeric address, without brackets.
struct ListenAddress: Equatable, Hashable, Sendable, CustomStringConvertible {
    var host: String
    /// 0 asks the kernel for any free port.
    var port: Int
    /// Not encrypted, whatever the settings say: memcached's `notls:`.
    var isPlain = false

    var description: String { (isPlain ? "notls:" : "") + address }

    /// Host and port.
    private var address: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
}

/// Where administrators are served over HTTP.
enum AdminAddress: Equatable, Sendable, CustomStringConvertible {
    case tcp(ListenAddress)
    case unix(path: String)

    /// The port of an address that names none.
    static let standardPort = 11212

    var description: String {
        switch self {
        case .tcp(let address): "\(address)"
        case .unix(let path): "unix:\(path)"
        }
    }
}

/// How much is logged; each level includes the ones before it.
enum LogLevel: String, CaseIterable, Sendable {
    /// Something does not work.
    case error
    /// Something needs an operator's look.
    case warning
    /// Start, stop, reload, changes of the disk tier's state.
    case notice
    /// Connections and background work.
    case info
    /// Every command, with its key escaped.
    case debug
}
