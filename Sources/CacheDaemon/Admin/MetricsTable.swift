// The one table of metrics: name, kind, unit, help, and where the numbers come from. `/metrics` is made from it, and so
// is docs/METRICS.md; a test holds them together.
//
// Names follow Prometheus' rules: base units, `_total` for counters, one unit per name. Counters count since the start,
// whatever `stats reset` did.

import CacheEngine
import Primitives

/// What the numbers of one scrape are taken from.
struct MetricsSnapshot: Sendable {
    let counters: CounterTotals
    let engine: CacheStatistics
    let histograms: [LatencyHistogram]
    let process: ProcessNumbers
    let connections: Int
    let connectionsMax: Int
    let slowRequests: UInt64
    let version: String

    /// What a daemon with both tiers says before anything has happened: for the manual.
    static var sample: MetricsSnapshot {
        var engine = CacheStatistics()
        engine.memoryBytesMax = 0
        engine.disk = DiskStatistics()
        return MetricsSnapshot(
            counters: CounterTotals(), engine: engine, histograms: LatencyKind.allCases.map { _ in LatencyHistogram() },
            process: ProcessNumbers(), connections: 0, connectionsMax: 0, slowRequests: 0,
            version: ProductVersion.number)
    }
}

extension MetricsSnapshot {
    /// The numbers of now.
    init(_ service: Service) {
        counters = service.totals
        engine = service.cache.statistics()
        histograms = service.telemetry.histograms
        process = ProcessNumbers(service)
        connections = max(0, service.connectionCount)
        connectionsMax = service.connectionsMax
        slowRequests = service.telemetry.slow.all.total
        version = ProductVersion.number
    }
}

/// One value of a metric, with the labels that tell it from the others.
struct MetricValue: Sendable {
    var labels: [(name: String, value: String)] = []
    var value: Double

    /// One number without labels.
    static func plain(_ value: some BinaryInteger) -> [MetricValue] { [MetricValue(value: Double(value))] }

    /// One number; none where there is no disk tier.
    static func plain(_ value: (some BinaryInteger)?) -> [MetricValue] { value.map { plain($0) } ?? [] }

    /// Several numbers told apart by one label.
    static func by(_ label: String, _ values: KeyValuePairs<String, Int>) -> [MetricValue] {
        values.map { MetricValue(labels: [(label, $0.key)], value: Double($0.value)) }
    }

    /// Counters of commands told apart by one label.
    static func by(
        _ label: String, _ counters: CounterTotals, _ values: KeyValuePairs<String, Counter>
    ) -> [MetricValue] {
        values.map { MetricValue(labels: [(label, $0.key)], value: Double(counters[$0.value])) }
    }
}

/// One metric.
struct Metric: Sendable {
    /// The types of OpenMetrics that we use.
    enum Kind: String, Sendable { case counter, gauge, info }

    let name: String
    let kind: Kind
    /// The unit, which the name ends with; empty for plain numbers.
    let unit: String
    let help: String
    let values: @Sendable (MetricsSnapshot) -> [MetricValue]

    init(
        _ name: String, _ kind: Kind, unit: String = "", _ help: String,
        _ values: @escaping @Sendable (MetricsSnapshot) -> [MetricValue]
    ) {
        self.name = name
        self.kind = kind
        self.unit = unit
        self.help = help
        self.values = values
    }

    /// Every metric but the histogram of request times, in the order of the page.
    static let table: [Metric] = requests + memory + disk + connections + process

    /// The histogram's name.
    static let durationName = "cache_daemon_request_duration_seconds"
    static let durationHelp = "Time from when a worker turns to a request until the kernel has its reply."

    private static let requests: [Metric] = [
        Metric("cache_daemon_build", .info, "The version that runs.") {
            [MetricValue(labels: [("version", $0.version)], value: 1)]
        },
        Metric("cache_daemon_lookups", .counter, "Lookups of keys, by the tier that answered; none for a miss.") {
            MetricValue.by(
                "tier", ["memory": $0.engine.memoryHits, "disk": $0.engine.diskHits, "none": $0.engine.misses])
        },
        Metric("cache_daemon_commands", .counter, "Commands, by kind; a get counts once for each key.") {
            MetricValue.by(
                "command", $0.counters,
                [
                    "get": .getCommands, "set": .setCommands, "touch": .touchCommands, "flush": .flushCommands,
                    "meta": .metaCommands,
                ])
        },
        Metric("cache_daemon_results", .counter, "What became of changes, by command and result.") {
            MetricValue.by(
                "result", $0.counters,
                [
                    "delete_hit": .deleteHits, "delete_miss": .deleteMisses, "incr_hit": .incrementHits,
                    "incr_miss": .incrementMisses, "decr_hit": .decrementHits, "decr_miss": .decrementMisses,
                    "touch_hit": .touchHits, "touch_miss": .touchMisses, "cas_stored": .casHits,
                    "cas_miss": .casMisses, "cas_mismatch": .casMismatches, "too_large": .valuesTooLarge,
                    "no_memory": .valuesWithoutMemory,
                ])
        },
        Metric("cache_daemon_received_bytes", .counter, unit: "bytes", "Bytes from clients.") {
            MetricValue.plain($0.counters[.bytesRead])
        },
        Metric("cache_daemon_sent_bytes", .counter, unit: "bytes", "Bytes to clients.") {
            MetricValue.plain($0.counters[.bytesWritten])
        },
        Metric("cache_daemon_slow_requests", .counter, "Requests that took longer than log.slow.") {
            MetricValue.plain($0.slowRequests)
        },
    ]

    private static let memory: [Metric] = [
        Metric("cache_daemon_memory_bytes", .gauge, unit: "bytes", "Bytes of the memory tier, overhead included.") {
            MetricValue.plain($0.engine.memoryBytes)
        },
        Metric("cache_daemon_memory_limit_bytes", .gauge, unit: "bytes", "Limit of the memory tier.") {
            MetricValue.plain($0.engine.memoryBytesMax)
        },
        Metric("cache_daemon_memory_entries", .gauge, "Entries in memory.") {
            MetricValue.plain($0.engine.memoryEntries)
        },
        Metric("cache_daemon_evictions", .counter, "Entries that made room for others, by tier.") {
            MetricValue.by("tier", ["memory": $0.engine.evictions, "disk": $0.engine.disk?.evictions ?? 0])
        },
        Metric("cache_daemon_unread_evictions", .counter, "Of those that left memory, entries never read.") {
            MetricValue.plain($0.engine.evictedUnfetched)
        },
        Metric("cache_daemon_expirations", .counter, "Entries whose time was over, by tier.") {
            MetricValue.by("tier", ["memory": $0.engine.expirations, "disk": $0.engine.disk?.expirations ?? 0])
        },
        Metric("cache_daemon_promotions", .counter, "Entries brought from disk to memory.") {
            MetricValue.plain($0.engine.promotions)
        },
        Metric("cache_daemon_warm_up_listed", .gauge, "Entries that were hot before the start.") {
            MetricValue.plain($0.engine.warmUp?.listed)
        },
        Metric("cache_daemon_warm_up_looked_up", .gauge, "Of those, entries looked up on disk so far.") {
            MetricValue.plain($0.engine.warmUp?.looked)
        },
        Metric("cache_daemon_warm_up_loaded", .gauge, "Of those, entries brought to memory.") {
            MetricValue.plain($0.engine.warmUp?.loaded)
        },
        Metric("cache_daemon_oldest_idle_seconds", .gauge, unit: "seconds", "Idle time of memory's oldest entry.") {
            MetricValue.plain($0.engine.oldestIdleSeconds)
        },
    ]

    private static let disk: [Metric] = [
        Metric("cache_daemon_disk_up", .gauge, "1 if the disk tier takes reads and writes, else 0.") {
            MetricValue.plain($0.engine.disk.map { $0.state == .ok ? 1 : 0 })
        },
        Metric("cache_daemon_disk_bytes", .gauge, unit: "bytes", "Allocated bytes of the whole directory.") {
            MetricValue.plain($0.engine.disk?.allocatedBytes)
        },
        Metric("cache_daemon_disk_limit_bytes", .gauge, unit: "bytes", "Limit of the directory.") {
            MetricValue.plain($0.engine.disk?.bytesMax)
        },
        Metric("cache_daemon_disk_entries", .gauge, "Entries on disk.") { MetricValue.plain($0.engine.disk?.entries) },
        Metric("cache_daemon_disk_files", .gauge, "Values in files of their own.") {
            MetricValue.plain($0.engine.disk?.fileEntries)
        },
        Metric("cache_daemon_journal_bytes", .gauge, unit: "bytes", "Size of the journal.") {
            MetricValue.plain($0.engine.disk?.journalBytes)
        },
        Metric("cache_daemon_journal_used_bytes", .gauge, unit: "bytes", "Of it, changes that wait for the index.") {
            MetricValue.plain($0.engine.disk?.journalUsedBytes)
        },
        Metric("cache_daemon_disk_read_bytes", .counter, unit: "bytes", "Bytes of values read from disk.") {
            MetricValue.plain($0.engine.disk?.readBytes)
        },
        Metric("cache_daemon_disk_written_bytes", .counter, unit: "bytes", "Bytes of values written to disk.") {
            MetricValue.plain($0.engine.disk?.writtenBytes)
        },
        Metric("cache_daemon_disk_commits", .counter, "Transactions of the index.") {
            MetricValue.plain($0.engine.disk?.commits)
        },
        Metric("cache_daemon_disk_queued_reads", .gauge, "Reads that wait for a disk thread.") {
            MetricValue.plain($0.engine.disk?.queuedJobs)
        },
        Metric("cache_daemon_disk_errors", .counter, "What the system refused or the checksums found, by kind.") {
            guard let disk = $0.engine.disk else { return [] }
            return MetricValue.by("kind", ["read": disk.readErrors, "write": disk.writeErrors])
        },
        Metric("cache_daemon_disk_quarantines", .counter, "Stores given up and replaced by empty ones.") {
            MetricValue.plain($0.engine.disk?.quarantines)
        },
    ]

    private static let connections: [Metric] = [
        Metric("cache_daemon_connections", .gauge, "Clients connected.") { MetricValue.plain($0.connections) },
        Metric("cache_daemon_connections_max", .gauge, "Clients served at a time.") {
            MetricValue.plain($0.connectionsMax)
        },
        Metric("cache_daemon_connection_events", .counter, "What became of connections, by event.") {
            MetricValue.by(
                "event", $0.counters,
                [
                    "opened": .connectionsOpened, "closed": .connectionsClosed, "refused": .connectionsRejected,
                    "idle": .idleKicks, "request_timeout": .requestTimeouts, "send_timeout": .sendTimeouts,
                    "memory": .memoryKicks,
                    "binary": .binaryRejected, "accept_pause": .listenPauses, "login_failure": .loginFailures,
                    "login_timeout": .loginTimeouts, "tls_handshake": .tlsHandshakes,
                    "tls_handshake_error": .tlsHandshakeErrors,
                    "tls_handshake_timeout": .handshakeTimeouts, "tls_handshake_delayed": .handshakesDelayed,
                ])
        },
    ]

    private static let process: [Metric] = [
        Metric("process_cpu_seconds", .counter, unit: "seconds", "CPU time, user and system.") {
            [MetricValue(value: $0.process.cpuSeconds)]
        },
        Metric("process_resident_memory_bytes", .gauge, unit: "bytes", "Resident memory.") {
            MetricValue.plain($0.process.residentBytes)
        },
        Metric("process_open_fds", .gauge, "Open descriptors.") { MetricValue.plain($0.process.openDescriptors) },
        Metric("process_start_time_seconds", .gauge, unit: "seconds", "When it was started, in Unix time.") {
            [MetricValue(value: $0.process.startSeconds)]
        },
    ]
}
