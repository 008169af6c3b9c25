// What `stats` answers: memcached's names in memcached's order with true values, then ours.
//
// Values that have no meaning here (slab classes, binary protocol) are left out, or constant where tools read them.
// Counters count since the last `stats reset`; sizes and states are as of now. Any thread.

import CacheEngine
import Glibc
import Primitives
import Protocol

/// Renders statistics.
///
/// Owned by the service that it reports on.
struct StatsReport: Sendable {
    /// Appends the answer to `stats <group>`, `END` or error line included.
    func append(group: String, of service: Service, to reply: inout ByteBuffer) {
        let words = group.split(separator: " ").map(String.init)
        switch words.first ?? "" {
        case "": appendGeneral(service, &reply)
        case "settings": appendSettings(service, &reply)
        case "items": appendItems(service, &reply)
        case "slabs": appendSlabs(service, &reply)
        case "sizes": reply.appendStatistic("sizes_status", "disabled")
        case "conns": appendConnections(service, &reply)
        case "reset":
            service.resetCounters()
            return reply.append(.reset)
        case "detail": return appendDetail(words.dropFirst().first, &reply)
        default: return reply.append(.error(.unknownCommand))
        }
        reply.append(.end)
    }

    // MARK: General

    private func appendGeneral(_ service: Service, _ reply: inout ByteBuffer) {
        let (counters, engine) = snapshot(service)
        appendProcess(service, &reply)
        appendConnectionCounts(service, counters, &reply)
        for (name, counter) in Self.commandCounters { reply.appendStatistic(name, counters[counter]) }
        reply.appendStatistic("bytes_read", counters[.bytesRead])
        reply.appendStatistic("bytes_written", counters[.bytesWritten])
        reply.appendStatistic("limit_maxbytes", UInt64(engine.memoryBytesMax ?? 0))
        reply.appendStatistic("accepting_conns", 1)
        reply.appendStatistic("listen_disabled_num", counters[.listenPauses])
        reply.appendStatistic("threads", UInt64(service.settings.threads))
        reply.appendStatistic("conn_yields", counters[.yields])
        reply.appendStatistic("bytes", UInt64(engine.memoryBytes))
        reply.appendStatistic("curr_items", UInt64(engine.memoryEntries))
        reply.appendStatistic("total_items", UInt64(engine.stores))
        reply.appendStatistic("expired_unfetched", UInt64(engine.expiredUnfetched))
        reply.appendStatistic("evicted_unfetched", UInt64(engine.evictedUnfetched))
        reply.appendStatistic("evictions", UInt64(engine.evictions))
        reply.appendStatistic("reclaimed", UInt64(engine.expirations))
        reply.appendStatistic("binary_rejected", counters[.binaryRejected])
        reply.appendStatistic("stalled_kicks", counters[.stalledKicks])
        appendTiers(engine, &reply)
    }

    private func appendProcess(_ service: Service, _ reply: inout ByteBuffer) {
        let clock = service.cache.clock
        let uptime = (clock.now().milliseconds - service.startedAt.milliseconds) / 1000
        reply.appendStatistic("pid", UInt64(getpid()))
        reply.appendStatistic("uptime", UInt64(max(0, uptime)))
        reply.appendStatistic("time", UInt64(max(0, clock.wall().seconds)))
        reply.appendStatistic("version", ProductVersion.wire)
        reply.appendStatistic("libevent", "2.1")
        reply.appendStatistic("pointer_size", UInt64(Int.bitWidth))
        var usage = rusage()
        // SAFETY: getrusage(2) fills the structure that it is given.
        if unsafe getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage) == 0 {
            reply.appendStatistic("rusage_user", Self.seconds(usage.ru_utime))
            reply.appendStatistic("rusage_system", Self.seconds(usage.ru_stime))
        }
    }

    private static func seconds(_ time: timeval) -> String {
        let digits = String(time.tv_usec)
        return "\(time.tv_sec)." + String(repeating: "0", count: 6 - digits.count) + digits
    }

    private func appendConnectionCounts(_ service: Service, _ counters: CounterTotals, _ reply: inout ByteBuffer) {
        reply.appendStatistic("max_connections", UInt64(service.connectionsMax))
        reply.appendStatistic("curr_connections", UInt64(max(0, service.connectionCount)))
        reply.appendStatistic("total_connections", counters[.connectionsOpened])
        reply.appendStatistic("rejected_connections", counters[.connectionsRejected])
        reply.appendStatistic("connection_structures", UInt64(max(0, service.connectionCount)))
    }

    /// Commands and their results, in memcached's order.
    private static let commandCounters: [(StaticString, Counter)] = [
        ("cmd_get", .getCommands), ("cmd_set", .setCommands), ("cmd_flush", .flushCommands),
        ("cmd_touch", .touchCommands), ("cmd_meta", .metaCommands), ("get_hits", .getHits), ("get_misses", .getMisses),
        ("delete_misses", .deleteMisses), ("delete_hits", .deleteHits),
        ("incr_misses", .incrementMisses), ("incr_hits", .incrementHits),
        ("decr_misses", .decrementMisses), ("decr_hits", .decrementHits),
        ("cas_misses", .casMisses), ("cas_hits", .casHits), ("cas_badval", .casMismatches),
        ("touch_hits", .touchHits), ("touch_misses", .touchMisses),
        ("store_too_large", .valuesTooLarge), ("store_no_memory", .valuesWithoutMemory), ("idle_kicks", .idleKicks),
    ]

    // MARK: The tiers

    private func appendTiers(_ engine: CacheStatistics, _ reply: inout ByteBuffer) {
        reply.appendStatistic("memory_entries", UInt64(engine.memoryEntries))
        reply.appendStatistic("memory_bytes", UInt64(engine.memoryBytes))
        if let limit = engine.memoryBytesMax { reply.appendStatistic("memory_limit_bytes", UInt64(limit)) }
        reply.appendStatistic("memory_hits", UInt64(engine.memoryHits))
        reply.appendStatistic("disk_hits", UInt64(engine.diskHits))
        reply.appendStatistic("misses", UInt64(engine.misses))
        reply.appendStatistic("promotions", UInt64(engine.promotions))
        reply.appendStatistic("expirations", UInt64(engine.expirations))
        guard let disk = engine.disk else { return reply.appendStatistic("disk_state", "off") }
        reply.appendStatistic("disk_state", "\(disk.state)")
        reply.appendStatistic("disk_entries", UInt64(disk.entries))
        reply.appendStatistic("disk_bytes", UInt64(disk.allocatedBytes))
        reply.appendStatistic("disk_limit_bytes", UInt64(disk.bytesMax))
        reply.appendStatistic("disk_value_bytes", UInt64(disk.valueBytes))
        reply.appendStatistic("disk_file_entries", UInt64(disk.fileEntries))
        reply.appendStatistic("disk_file_bytes", UInt64(disk.fileBytes))
        reply.appendStatistic("disk_index_bytes", UInt64(disk.indexBytes))
        reply.appendStatistic("disk_wal_bytes", UInt64(disk.walBytes))
        reply.appendStatistic("journal_bytes", UInt64(disk.journalBytes))
        reply.appendStatistic("journal_used_bytes", UInt64(disk.journalUsedBytes))
        reply.appendStatistic("disk_evictions", UInt64(disk.evictions))
        reply.appendStatistic("disk_expirations", UInt64(disk.expirations))
        reply.appendStatistic("disk_write_errors", UInt64(disk.writeErrors))
        reply.appendStatistic("disk_read_errors", UInt64(disk.readErrors))
        reply.appendStatistic("disk_quarantines", UInt64(disk.quarantines))
        if let error = disk.lastError { reply.appendStatistic("disk_last_error", Self.oneLine(error)) }
    }

    private static func oneLine(_ text: String) -> String {
        String(text.map { $0.isNewline ? " " : $0 })
    }

    /// Counters since the last reset.
    private func snapshot(_ service: Service) -> (CounterTotals, CacheStatistics) {
        let (baseline, engineBaseline) = service.baselines
        let engine = service.cache.statistics()
        return (service.totals.since(baseline), engineBaseline.map { engine.since($0) } ?? engine)
    }

    // MARK: Groups

    /// What tools read; our own names for the rest stand in the configuration.
    private func appendSettings(_ service: Service, _ reply: inout ByteBuffer) {
        let settings = service.settings
        reply.appendStatistic("maxbytes", UInt64(settings.memory.bytesMax))
        reply.appendStatistic("maxconns", UInt64(service.connectionsMax))
        reply.appendStatistic("tcpport", UInt64(settings.listen.first?.port ?? 0))
        reply.appendStatistic("udpport", 0)
        reply.appendStatistic("inter", settings.listen.map(\.host).joined(separator: ","))
        reply.appendStatistic("verbosity", UInt64(service.log.verbosity))
        reply.appendStatistic("oldest", 0)
        reply.appendStatistic("evictions", "on")
        reply.appendStatistic("domain_socket", settings.unixPath ?? "NULL")
        reply.appendStatistic("umask", String(settings.unixMode, radix: 8))
        reply.appendStatistic("growth_factor", "1.00")
        reply.appendStatistic("chunk_size", 1)
        reply.appendStatistic("num_threads", UInt64(settings.threads))
        reply.appendStatistic("stat_key_prefix", ":")
        reply.appendStatistic("detail_enabled", "no")
        reply.appendStatistic("reqs_per_event", UInt64(Turn.requestsMax))
        reply.appendStatistic("cas_enabled", "yes")
        reply.appendStatistic("tcp_backlog", UInt64(ListeningSocket.backlog))
        reply.appendStatistic("binding_protocol", "ascii")
        reply.appendStatistic("auth_enabled_sasl", "no")
        reply.appendStatistic("auth_enabled_ascii", "no")
        reply.appendStatistic("item_size_max", UInt64(settings.entryBytesMax))
        reply.appendStatistic("maxconns_fast", "yes")
        reply.appendStatistic("flush_enabled", "yes")
        reply.appendStatistic("dump_enabled", "no")
        reply.appendStatistic("shutdown_command", settings.acceptsShutdownCommand ? "yes" : "no")
        reply.appendStatistic("client_flags_size", 4)
        reply.appendStatistic("idle_timeout", UInt64((settings.idleTimeout?.milliseconds ?? 0) / 1000))
        reply.appendStatistic("disk_enabled", settings.disk.isEnabled ? "yes" : "no")
        guard settings.disk.isEnabled else { return }
        reply.appendStatistic("disk_dir", settings.disk.directory)
        reply.appendStatistic("disk_limit", UInt64(settings.disk.bytesMax))
        reply.appendStatistic("disk_durability", settings.disk.durability.rawValue)
    }

    /// There are no slab classes: all entries of the memory tier are class 1.
    private func appendItems(_ service: Service, _ reply: inout ByteBuffer) {
        let (_, engine) = snapshot(service)
        guard engine.memoryEntries > 0 else { return }
        reply.appendStatistic("items:1:number", UInt64(engine.memoryEntries))
        reply.appendStatistic("items:1:mem_requested", UInt64(engine.memoryBytes))
        reply.appendStatistic("items:1:evicted", UInt64(engine.evictions))
        reply.appendStatistic("items:1:evicted_unfetched", UInt64(engine.evictedUnfetched))
        reply.appendStatistic("items:1:expired_unfetched", UInt64(engine.expiredUnfetched))
        reply.appendStatistic("items:1:reclaimed", UInt64(engine.expirations))
        reply.appendStatistic("items:1:outofmemory", 0)
    }

    private func appendSlabs(_ service: Service, _ reply: inout ByteBuffer) {
        let (counters, engine) = snapshot(service)
        if engine.memoryEntries > 0 {
            reply.appendStatistic("1:chunk_size", 1)
            reply.appendStatistic("1:used_chunks", UInt64(engine.memoryBytes))
            reply.appendStatistic("1:get_hits", counters[.getHits])
            reply.appendStatistic("1:cmd_set", counters[.setCommands])
            reply.appendStatistic("1:delete_hits", counters[.deleteHits])
            reply.appendStatistic("1:incr_hits", counters[.incrementHits])
            reply.appendStatistic("1:decr_hits", counters[.decrementHits])
            reply.appendStatistic("1:cas_hits", counters[.casHits])
            reply.appendStatistic("1:cas_badval", counters[.casMismatches])
            reply.appendStatistic("1:touch_hits", counters[.touchHits])
        }
        reply.appendStatistic("active_slabs", engine.memoryEntries > 0 ? 1 : 0)
        reply.appendStatistic("total_malloced", UInt64(engine.memoryBytes))
    }

    /// Clients by descriptor, from the registry of open connections.
    private func appendConnections(_ service: Service, _ reply: inout ByteBuffer) {
        let now = service.cache.clock.now()
        for (fd, card) in service.connectionCards {
            // A connection that closes just now leaves an unknown address.
            reply.appendStatistic("\(fd):addr", PeerAddress(fd).statistic)
            reply.appendStatistic("\(fd):listen_addr", PeerAddress.local(fd).statistic)
            reply.appendStatistic("\(fd):state", "conn_read")
            let seconds = (now.milliseconds - card.lastActivity.milliseconds) / 1000
            reply.appendStatistic("\(fd):secs_since_last_cmd", String(max(0, seconds)))
        }
    }

    /// Statistics by key prefix are not kept.
    private func appendDetail(_ word: String?, _ reply: inout ByteBuffer) {
        switch word {
        case "on", "off": reply.append(.ok)
        case "dump": reply.append(.end)
        default: reply.append("CLIENT_ERROR usage: stats detail on|off|dump\r\n")
        }
    }
}

extension CacheStatistics {
    /// The same with counters since `earlier`; sizes stay as they are.
    func since(_ earlier: CacheStatistics) -> CacheStatistics {
        var rest = self
        rest.memoryHits -= earlier.memoryHits
        rest.diskHits -= earlier.diskHits
        rest.misses -= earlier.misses
        rest.promotions -= earlier.promotions
        rest.evictions -= earlier.evictions
        rest.evictedUnfetched -= earlier.evictedUnfetched
        rest.expirations -= earlier.expirations
        rest.expiredUnfetched -= earlier.expiredUnfetched
        rest.stores -= earlier.stores
        if let disk, let before = earlier.disk {
            rest.disk?.evictions = disk.evictions - before.evictions
            rest.disk?.expirations = disk.expirations - before.expirations
            rest.disk?.readErrors = disk.readErrors - before.readErrors
            rest.disk?.writeErrors = disk.writeErrors - before.writeErrors
        }
        return rest
    }
}
