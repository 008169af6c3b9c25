// What `stats` answers: memcached's names in memcached's order with true values, then ours.
//
// Values that have no meaning here (LRU segments, slab moves, the binary protocol) are left out, or constant where
// tools read them. Counters count since the last `stats reset`; sizes and states are as of now. The groups are in their
// own files. Any thread.

import CacheEngine
import Glibc
import Libevent
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
        // memcached lists its disk pages here; we have none.
        case "extstore": break
        case "windows": appendWindows(service, &reply)
        case "options": appendOptions(service, &reply)
        case "latency": appendLatencies(service, &reply)
        case "hot" where service.allowsDumps: appendHotKeys(service, &reply)
        case "big" where service.allowsDumps: appendBigEntries(service, &reply)
        case "slow" where service.allowsDumps: appendSlowRequests(service, &reply)
        case "hot", "big", "slow": return reply.append(.error(.keyStatsNotAllowed))
        case "reset":
            service.resetCounters()
            return reply.append(.reset)
        case "detail": return appendDetail(words.dropFirst().first, service, &reply)
        default: return reply.append(.error(.unknownCommand))
        }
        reply.append(.end)
    }

    /// Counters since the last reset, and sizes as of now.
    func snapshot(_ service: Service) -> (CounterTotals, CacheStatistics) {
        let (baseline, engineBaseline) = service.baselines
        let engine = service.cache.statistics()
        return (service.totals.since(baseline), engineBaseline.map { engine.since($0) } ?? engine)
    }

    // MARK: General

    private func appendGeneral(_ service: Service, _ reply: inout ByteBuffer) {
        let (counters, engine) = snapshot(service)
        appendProcess(service, &reply)
        appendConnectionCounts(service, counters, &reply)
        for (name, counter) in Self.commandCounters { reply.appendStatistic(name, counters[counter]) }
        reply.appendStatistic("get_expired", UInt64(engine.expiredLookups))
        reply.appendStatistic("get_flushed", UInt64(engine.flushedLookups))
        appendTraffic(service, counters, engine, &reply)
        appendWatchers(service, &reply)
        appendExtstore(engine, &reply)
        appendMemory(engine, &reply)
        reply.appendStatistic("binary_rejected", counters[.binaryRejected])
        reply.appendStatistic("stalled_kicks", counters[.requestTimeouts] &+ counters[.sendTimeouts])
        reply.appendStatistic("request_timeouts", counters[.requestTimeouts])
        reply.appendStatistic("send_timeouts", counters[.sendTimeouts])
        reply.appendStatistic("client_bytes", UInt64(service.clientMemory.bytes))
        reply.appendStatistic("client_bytes_limit", UInt64(service.clientMemory.bytesMax))
        reply.appendStatistic("client_memory_kicks", counters[.memoryKicks])
        reply.appendStatistic("auth_timeouts", counters[.loginTimeouts])
        reply.appendStatistic("requests_not_permitted", counters[.requestsNotPermitted])
        appendEncryption(service, counters, &reply)
        appendTiers(engine, &reply)
        reply.appendStatistic("memory_shortages", UInt64(service.memoryShortageCount))
    }

    private func appendProcess(_ service: Service, _ reply: inout ByteBuffer) {
        let clock = service.cache.clock
        let uptime = (clock.now().milliseconds - service.startedAt.milliseconds) / 1000
        reply.appendStatistic("pid", UInt64(getpid()))
        reply.appendStatistic("uptime", UInt64(max(0, uptime)))
        reply.appendStatistic("time", UInt64(max(0, clock.wall().seconds)))
        reply.appendStatistic("version", ProductVersion.wire)
        reply.appendStatistic("libevent", EventLoop.libraryVersion)
        reply.appendStatistic("pointer_size", UInt64(Int.bitWidth))
        var usage = rusage()
        // SAFETY: the kernel fills the struct, which lives until the call returns.
        if unsafe getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage) == 0 {
            reply.appendStatistic("rusage_user", Self.seconds(usage.ru_utime))
            reply.appendStatistic("rusage_system", Self.seconds(usage.ru_stime))
        }
    }

    /// Seconds with six decimals, as exporters parse them.
    private static func seconds(_ time: timeval) -> String {
        let digits = String(time.tv_usec)
        return "\(time.tv_sec)." + String(repeating: "0", count: 6 - digits.count) + digits
    }

    private func appendConnectionCounts(_ service: Service, _ counters: CounterTotals, _ reply: inout ByteBuffer) {
        let waiting = service.waitingForRestart
        reply.appendStatistic("needs_restart", waiting.isEmpty ? "none" : waiting.joined(separator: ","))
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
        ("store_too_large", .valuesTooLarge), ("store_no_memory", .valuesWithoutMemory),
        ("auth_cmds", .loginCommands), ("auth_errors", .loginFailures), ("idle_kicks", .idleKicks),
    ]

    private func appendTraffic(
        _ service: Service, _ counters: CounterTotals, _ engine: CacheStatistics, _ reply: inout ByteBuffer
    ) {
        reply.appendStatistic("bytes_read", counters[.bytesRead])
        reply.appendStatistic("bytes_written", counters[.bytesWritten])
        reply.appendStatistic("limit_maxbytes", UInt64(engine.memoryBytesMax ?? 0))
        reply.appendStatistic("accepting_conns", 1)
        reply.appendStatistic("listen_disabled_num", counters[.listenPauses])
        // The listener pauses only while descriptors are short, for a moment each time.
        reply.appendStatistic("time_in_listen_disabled_us", 0)
        reply.appendStatistic("threads", UInt64(service.settings.threads))
        reply.appendStatistic("conn_yields", counters[.yields])
        let isCrawling = service.cache.isSweepingMemory || service.crawler.isDumping
        reply.appendStatistic("lru_crawler_running", isCrawling ? 1 : 0)
        reply.appendStatistic("lru_crawler_starts", service.crawler.starts)
    }

    /// memcached's names, and ours; absent while no connection is encrypted.
    private func appendEncryption(_ service: Service, _ counters: CounterTotals, _ reply: inout ByteBuffer) {
        let encryption = service.encryptionInForce
        guard let loadedAt = encryption.loadedAt, let expiresAt = encryption.expiresAt else { return }
        let now = service.cache.clock.now().milliseconds
        reply.appendStatistic("ssl_new_sessions", counters[.tlsHandshakes])
        reply.appendStatistic("ssl_handshake_errors", counters[.tlsHandshakeErrors])
        reply.appendStatistic("ssl_handshake_timeouts", counters[.handshakeTimeouts])
        reply.appendStatistic("ssl_handshakes_delayed", counters[.handshakesDelayed])
        reply.appendStatistic("ssl_proto_errors", counters[.tlsProtocolErrors])
        reply.appendStatistic("time_since_server_cert_refresh", UInt64(max(0, now - loadedAt.milliseconds) / 1000))
        reply.appendStatistic("ssl_cert_seconds_left", UInt64(max(0, expiresAt.milliseconds - now) / 1000))
    }

    private func appendWatchers(_ service: Service, _ reply: inout ByteBuffer) {
        let watchers = service.watchers.counts
        // Nothing is lost between a worker and the rings of the watchers.
        reply.appendStatistic("log_worker_dropped", 0)
        reply.appendStatistic("log_worker_written", watchers.lines)
        reply.appendStatistic("log_watcher_skipped", watchers.skipped)
        reply.appendStatistic("log_watcher_sent", watchers.sent)
        reply.appendStatistic("log_watchers", UInt64(watchers.watchers))
    }

    private func appendMemory(_ engine: CacheStatistics, _ reply: inout ByteBuffer) {
        reply.appendStatistic("bytes", UInt64(engine.memoryBytes))
        reply.appendStatistic("curr_items", UInt64(engine.memoryEntries))
        reply.appendStatistic("total_items", UInt64(engine.stores))
        reply.appendStatistic("expired_unfetched", UInt64(engine.expiredUnfetched))
        reply.appendStatistic("evicted_unfetched", UInt64(engine.evictedUnfetched))
        reply.appendStatistic("evictions", UInt64(engine.evictions))
        reply.appendStatistic("reclaimed", UInt64(max(0, engine.expirations - engine.sweptExpirations)))
        reply.appendStatistic("crawler_reclaimed", UInt64(engine.sweptExpirations))
        // No entry is ever skipped because a client holds it.
        reply.appendStatistic("lrutail_reflocked", 0)
        reply.appendStatistic("direct_reclaims", UInt64(engine.evictions))
    }
}
