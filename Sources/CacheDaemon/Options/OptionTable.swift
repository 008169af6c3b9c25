// The one option table. Flags, configuration file, --help, config/cache-daemon.conf and docs/OPERATIONS.md follow it;
// tests hold them together. Sections are contiguous, because the sample configuration is printed in this order.

import Primitives

extension OptionSpec {
    /// Every option, in the order of the sample configuration.
    static let table: [OptionSpec] = network + access + tls + memory + disk + life + log

    /// The options by name.
    static let named = Dictionary(uniqueKeysWithValues: table.map { ($0.name, $0) })

    /// The sections that exist; the empty one is what stands above the first.
    static let sections = Set(table.map(\.section))

    private static let year = TimeSpan.seconds(365 * 86_400)
    private static let anySpan = TimeSpan.seconds(1)...TimeSpan.seconds(100 * 365 * 86_400)
    private static let entryCounts = 1...1_000_000_000_000

    private static let network: [OptionSpec] = [
        .option(
            "listen", flag: "listen", short: "l", .network, .addresses,
            "Address to listen on; may be given several times.",
            "Without a port, `port` is meant; port 0 is any free one. With `unix` and no `listen`, TCP is off."
        ),
        .option(
            "port", flag: "port", short: "p", .network, .count(\.port, 0...65_535),
            "Port of listen addresses that name none.", "0 turns TCP off, as in memcached; then `unix` must be set."),
        .option(
            "unix", flag: "unix", short: "s", .network,
            .optionalText(\.unixPath, valueName: "PATH", range: "a path of at most 107 bytes", bytesMax: 107),
            absence: "no Unix socket", sample: "/run/cache-daemon/socket", "Unix socket to listen on."),
        .option(
            "unix_mode", flag: "unix-mode", short: "a", .network, .permissions(\.unixMode),
            "Permission bits of the Unix socket."),
        .option(
            "admin", flag: "admin", .network, .adminAddress, absence: "none", sample: "127.0.0.1:11212",
            "Address of the dashboard, /metrics and the probes over HTTP.",
            """
            Who reaches it can read statistics and names of keys, and change nothing. Without a port, 11212. Other \
            machines may reach it only with `allow_insecure`.
            """),
        .option(
            "threads", flag: "threads", short: "t", .network, .count(\.threads, 1...256), absence: "one per core",
            sample: "4", "Worker threads.", "Each serves its share of the connections."),
        .option(
            "max_connections", flag: "max-connections", short: "c", .network, .count(\.connectionsMax, 1...1_000_000),
            reloads: true, "Client connections served at a time.",
            "More are told `ERROR Too many open connections` and closed."),
        .option(
            "idle_timeout", flag: "idle-timeout", .network, .optionalSpan(\.idleTimeout, anySpan), reloads: true,
            absence: "never", sample: "10m", "Close connections that were silent for so long."),
        .option(
            "request_timeout", flag: "request-timeout", .network, .span(\.requestTimeout, second...hour), reloads: true,
            "Close connections whose request does not arrive within this.",
            "Counted from its first byte; a request is given more time as its bytes come, see `request_rate_min`."),
        .option(
            "request_rate_min", flag: "request-rate-min", .network,
            .size(\.requestBytesPerSecondMin, 1...1 << 30), reloads: true,
            "Bytes of a request that buy it another second.", "Slower clients are cut off after `request_timeout`."),
        .option(
            "send_timeout", flag: "send-timeout", .network, .span(\.sendTimeout, second...hour), reloads: true,
            "Close connections that take none of their replies for so long."),
        .option(
            "client_memory", flag: "client-memory", .network, .size(\.clientBytesMax, 1 << 20...1 << 44), reloads: true,
            "Bytes that all connections may hold for replies not taken and requests not complete.",
            """
            From half of it on a connection is served little at a time; at the limit those are closed that have waited \
            for the longest. Beside `memory.limit`.
            """),
        .option(
            "allow_insecure", flag: "allow-insecure", .network, .toggle(\.allowsInsecure, flagMeans: true),
            reloads: true, "Listen for other machines without TLS or authentication.",
            "Only where the network keeps strangers out: whoever connects can read, change and empty the cache.",
            inFile: "Whether other machines may connect although nothing keeps strangers out."),
        .option(
            "max_entry", flag: "max-entry", short: "I", .network, .size(\.entryBytesMax, 1024...1 << 30),
            "Largest value that clients may store.",
            "Plain bytes of the value. Larger ones get `SERVER_ERROR object too large for cache`."),
        .option(
            "shutdown_command", flag: "enable-shutdown", short: "A", .network,
            .toggle(\.acceptsShutdownCommand, flagMeans: true), "Let clients stop the daemon with `shutdown`."),
        .option(
            "flush_command", flag: "disable-flush-all", short: "F", .network,
            .toggle(\.allowsFlush, flagMeans: false), "Refuse `flush_all`.",
            inFile: "Whether clients may empty the cache with `flush_all`."),
        .option(
            "dump_commands", flag: "disable-dumping", short: "X", .network,
            .toggle(\.allowsDumps, flagMeans: false), "Refuse lists of keys and `stats detail`.",
            inFile: "Whether clients may list keys and use `stats detail`."),
        .option(
            "watch_command", flag: "disable-watch", short: "W", .network,
            .toggle(\.allowsWatching, flagMeans: false), "Refuse `watch`.",
            inFile: "Whether clients may watch what others do with `watch`."),
        .option(
            "core_files", flag: "core-files", short: "r", .network, .toggle(\.writesCoreFiles, flagMeans: true),
            "Let a crash leave a core file.", "It holds what clients have stored, and passwords.",
            inFile: "Whether a crash may leave a core file."),
        .option(
            "user", flag: "user", short: "u", .network,
            .optionalText(\.user, valueName: "NAME", range: "a user name", bytesMax: 255), absence: "no change",
            sample: "cache-daemon", "User to become when started as root."),
    ]

    private static let access: [OptionSpec] = [
        .option(
            "auth.file", flag: "auth-file", short: "Y", .access,
            .optionalText(
                \.access.accountFile, valueName: "FILE", range: "a path of at most 4000 bytes", bytesMax: 4000),
            absence: "no authentication", sample: "/etc/cache-daemon/accounts",
            "Clients must authenticate themselves against this file.",
            """
            Lines name:password as for memcached's -Y, crypt(3) hashes instead of passwords, and rights; see \
            docs/OPERATIONS.md. Only its owner may read it. A reload reads it again.
            """),
        .option(
            "auth.timeout", flag: "auth-timeout", .access,
            .span(\.access.loginTimeout, TimeSpan(milliseconds: 100)...TimeSpan.seconds(3600)), reloads: true,
            "How long a client may take to authenticate itself.", "Then its connection is closed."),
    ]

    private static let second = TimeSpan.seconds(1)
    private static let hour = TimeSpan.seconds(3600)

    private static func file(_ field: Field<String?>) -> OptionForm {
        .optionalText(field, valueName: "FILE", range: "a path", bytesMax: 4000)
    }

    private static let tls: [OptionSpec] = [
        .option(
            "tls.certificate", flag: "tls-certificate", .tls, file(\.tls.certificate), reloads: true,
            absence: "no TLS", sample: "/etc/cache-daemon/server.pem", "Certificate chain, PEM: turns TLS on.",
            """
            TCP connections are encrypted then, Unix sockets are not. Read again at each reload; on any error the old \
            one stays. Connections that are open keep theirs.
            """),
        .option(
            "tls.key", flag: "tls-key", .tls, file(\.tls.key), reloads: true, absence: "in the certificate's file",
            sample: "/etc/cache-daemon/server.key", "Private key, PEM, without a passphrase.",
            "Others must not be able to read it: mode 600, or 640."),
        .option(
            "tls.client_ca", flag: "tls-client-ca", .tls, file(\.tls.clientAuthorities), reloads: true,
            absence: "clients are not asked", sample: "/etc/cache-daemon/clients.pem",
            "Authorities of clients' certificates, PEM.", "Clients need a certificate of one of them then."),
        .option(
            "tls.client_certificates", flag: "tls-client-certificates", .tls,
            .choice(\.tls.clientCertificates, valueName: "WORD"), reloads: true,
            "Whether clients need a certificate: required or optional.",
            "Only with `tls.client_ca`. optional: who shows a wrong one is refused, who shows none is not."),
        .option(
            "tls.min_version", flag: "tls-min-version", .tls, .choice(\.tls.oldest, valueName: "VERSION"),
            reloads: true,
            "Oldest protocol: 1.2 or 1.3."),
        .option(
            "tls.handshake_timeout", flag: "tls-handshake-timeout", .tls, .span(\.tls.handshakeTimeout, second...hour),
            reloads: true, "Close connections whose handshake is not over within this."),
        .option(
            "tls.handshake_rate", flag: "tls-handshake-rate", .tls,
            .count(\.tls.handshakesPerSecondMax, 1...1_000_000), reloads: true,
            "Handshakes that may begin in a second.",
            """
            More wait for their turn, within `tls.handshake_timeout`. Each costs a worker half a millisecond or more, \
            so that a flood of them would keep it from everybody's requests.
            """),
    ]

    private static let memory: [OptionSpec] = [
        .option(
            "memory.limit", flag: "memory", short: "m", .memory,
            .size(\.memory.bytesMax, 1 << 20...1 << 44, bareFlagUnit: "MiB"), reloads: true,
            "Bytes that the memory tier may hold.",
            "Keys, values and all overhead count. On the command line a number alone is MiB, as in memcached."),
        .option(
            "memory.entries_max", flag: "memory-entries-max", .memory, .optionalCount(\.memory.entriesMax, entryCounts),
            reloads: true, absence: "unlimited", sample: "1000000", "Entries that the memory tier may hold."),
        .option(
            "memory.idle_max", flag: "memory-idle-max", .memory, .optionalSpan(\.memory.idleMax, anySpan),
            reloads: true, absence: "unlimited", sample: "1h",
            "Drop entries from memory not used for so long."),
        .option(
            "memory.value_max", flag: "memory-value-max", .memory, .size(\.memory.valueBytesMax, 1024...1 << 30),
            reloads: true, "Largest value kept in memory.",
            "Larger ones live on disk only; without a disk tier they are refused. At most `memory.limit`."),
        .option(
            "memory.warm_up", flag: "no-warm-up", .memory, .toggle(\.memory.warmsUp, flagMeans: false),
            "Begin with an empty memory.", "Nothing is remembered for the next start either.",
            inFile: "Bring what was hot in memory back from disk after a start."),
        .option(
            "memory.warm_up_rate", flag: "warm-up-rate", .memory, .size(\.memory.warmUpRate, 64 << 10...1 << 40),
            "Bytes of entries that a warm-up brings back in a second.",
            "Each lookup counts as 1 KiB at least. It ends when memory is full to 80 %."),
        .option(
            "memory.fit_cgroup", flag: "ignore-cgroup", .memory,
            .toggle(\.memory.fitsControlGroup, flagMeans: false), reloads: true,
            "Use all of `memory.limit` although the control group allows less.",
            """
            Otherwise the limit is lowered to what fits, and gives way step by step while the processes of the group \
            take 15/16 of its memory.
            """,
            inFile: "Whether `memory.limit` gives way to the limit of the control group."),
    ]

    private static let disk: [OptionSpec] = [
        .option(
            "disk.enabled", flag: "no-disk", .disk, .toggle(\.disk.isEnabled, flagMeans: false),
            "Run without a disk tier.", "Without one, everything is lost on exit.",
            inFile: "Whether there is a disk tier."),
        .option(
            "disk.dir", flag: "dir", .disk, .directory(\.disk.directory),
            absence: "$CACHE_DIRECTORY, else $XDG_CACHE_HOME/cache-daemon, else ~/.cache/cache-daemon",
            sample: "/var/cache/cache-daemon", "Directory of the disk tier.",
            "Made if absent; must belong to the daemon's user alone."),
        .option(
            "disk.limit", flag: "disk", .disk, .size(\.disk.bytesMax, 16 << 20...1 << 50), reloads: true,
            "Bytes that the directory may take.", "Allocated bytes of everything in it count, the journal included."),
        .option(
            "disk.entries_max", flag: "disk-entries-max", .disk, .optionalCount(\.disk.entriesMax, entryCounts),
            reloads: true, absence: "unlimited", sample: "10000000", "Entries that the disk tier may hold."),
        .option(
            "disk.idle_max", flag: "disk-idle-max", .disk, .optionalSpan(\.disk.idleMax, anySpan), reloads: true,
            absence: "unlimited", sample: "30d", "Delete entries from disk not used for so long."),
        .option(
            "disk.min_free", flag: "disk-min-free", .disk, .optionalSize(\.disk.freeBytesMin, 1 << 20...1 << 50),
            reloads: true, absence: "none", sample: "1GiB", "Bytes to keep free on the disk tier's file system.",
            "Below it, entries are evicted as if the disk limit were reached."),
        .option(
            "disk.inline_max", flag: "disk-inline-max", .disk, .size(\.disk.inlineBytesMax, 0...1 << 20),
            "Largest value kept inside the index.",
            "Larger ones are files of their own. Values above an eighth of `disk.journal` always are."),
        .option(
            "disk.durability", flag: "durability", .disk, .choice(\.disk.durability, valueName: "LEVEL"),
            "What acknowledged changes survive: none, process or always.",
            """
            none: a clean stop only, otherwise the disk tier starts empty. process: the end of the process, however \
            sudden. always: loss of power too; every reply waits for the disk.
            """),
        .option(
            "disk.after_power_loss", flag: "disk-after-power-loss", .disk,
            .choice(\.disk.afterPowerLoss, valueName: "ACTION"),
            "Disk tier after an unclean reboot: discard or keep.",
            "keep may bring back old values and deleted entries. With durability always it is kept and correct."),
        .option(
            "disk.write", flag: "disk-write", .disk, .choice(\.disk.write, valueName: "WHEN"),
            "When entries are written to disk: through or on_evict.",
            """
            through: when they are stored. on_evict: when they leave memory for room, and at a clean stop; what is \
            only in memory is lost with the process. Values above `memory.value_max` are always written at once.
            """),
        .option(
            "disk.admission", flag: "disk-admission", .disk, .choice(\.disk.admission, valueName: "WHICH"),
            "Which entries are written to disk: all or second_hit.",
            """
            second_hit: those that were read since they were stored, and those whose key was seen before; what was \
            wanted once only never costs a write.
            """),
        .option(
            "disk.write_budget", flag: "disk-write-budget", .disk,
            .optionalSize(\.disk.writeBudget, 1 << 20...1 << 50), absence: "unlimited", sample: "50GiB",
            "Bytes of entries written to disk in a day.",
            "Given out evenly, saved for up to an hour. Entries beyond it stay in memory until they are evicted."),
        .option(
            "disk.journal", flag: "disk-journal", .disk, .size(\.disk.journalBytes, 1 << 20...1 << 34),
            "Size of the journal file.",
            "Changes wait there for the index. At most an eighth of `disk.limit`."
        ),
        .option(
            "disk.readers", flag: "disk-readers", .disk, .count(\.disk.readers, 1...64),
            "Threads that read from disk."),
        .option(
            "disk.trim_interval", flag: "disk-trim-interval", .disk,
            .span(\.disk.trimInterval, TimeSpan(milliseconds: 100)...TimeSpan.seconds(86_400)), reloads: true,
            "Time between two background trims.", "Limits hold at every write; trims only make room ahead."),
    ]

    private static let life: [OptionSpec] = [
        .option(
            "ttl.default", flag: "ttl-default", .life, .optionalSpan(\.timeToLive.standard, anySpan), reloads: true,
            absence: "unlimited", sample: "1d", "TTL of entries stored without one.", "At most `ttl.max`."),
        .option(
            "ttl.max", flag: "ttl-max", .life, .optionalSpan(\.timeToLive.max, anySpan), reloads: true,
            absence: "unlimited", sample: "30d", "Cut longer TTLs to this.",
            "Entries stored without a TTL get it too."),
    ]

    private static let log: [OptionSpec] = [
        .option(
            "log.level", flag: "log-level", .log, .choice(\.logLevel, valueName: "LEVEL"), reloads: true,
            "How much to log: error, warning, notice, info or debug.", "-v is info, -vv is debug."),
        .option(
            "log.slow", flag: "log-slow", .log,
            .span(\.slowThreshold, TimeSpan(milliseconds: 1)...TimeSpan.seconds(3600)), reloads: true,
            "Keep requests that take so long in the slow log.",
            "It is in memory and shown by `cache-stats slow`; nothing is written."),
    ]
}
