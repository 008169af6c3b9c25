// The groups of `stats`: settings, items, slabs, conns and detail.

import CacheEngine
import Primitives
import Protocol
import TLS

extension StatsReport {
    // MARK: settings

    /// Appends what tools read; our own names for the rest stand in the configuration.
    func appendSettings(_ service: Service, _ reply: inout ByteBuffer) {
        let settings = service.settings
        reply.appendStatistic("maxbytes", UInt64(settings.memory.bytesMax))
        reply.appendStatistic("maxconns", UInt64(service.connectionsMax))
        reply.appendStatistic("tcpport", UInt64(settings.listen.first?.port ?? 0))
        reply.appendStatistic("udpport", 0)
        reply.appendStatistic("inter", settings.listen.map(\.host).joined(separator: ","))
        reply.appendStatistic("verbosity", UInt64(service.log.verbosity))
        reply.appendStatistic("oldest", 0)
        reply.appendStatistic("evictions", "on")
        reply.appendStatistic("domain_socket", settings.unixPath?.replacing(" ", with: "%20") ?? "NULL")
        reply.appendStatistic("umask", String(settings.unixMode, radix: 8))
        reply.appendStatistic("shutdown_command", Self.word(settings.acceptsShutdownCommand))
        reply.appendStatistic("growth_factor", "1.00")
        reply.appendStatistic("chunk_size", 1)
        reply.appendStatistic("num_threads", UInt64(settings.threads))
        reply.appendStatistic("stat_key_prefix", ":")
        reply.appendStatistic("detail_enabled", Self.word(service.watchers.observation.contains(.prefixes)))
        reply.appendStatistic("reqs_per_event", UInt64(Turn.requestsMax))
        reply.appendStatistic("cas_enabled", "yes")
        reply.appendStatistic("tcp_backlog", UInt64(ListeningSocket.backlog))
        reply.appendStatistic("binding_protocol", "ascii")
        reply.appendStatistic("auth_enabled_sasl", "no")
        reply.appendStatistic("auth_enabled_ascii", settings.access.accountFile?.replacing(" ", with: "%20") ?? "no")
        reply.appendStatistic("item_size_max", UInt64(settings.entryBytesMax))
        reply.appendStatistic("maxconns_fast", "yes")
        appendCrawlerSettings(service, &reply)
        reply.appendStatistic("flush_enabled", Self.word(settings.allowsFlush))
        reply.appendStatistic("dump_enabled", Self.word(settings.allowsDumps))
        reply.appendStatistic("client_flags_size", 4)
        appendEncryptionSettings(settings, &reply)
        reply.appendStatistic("request_timeout", UInt64(settings.requestTimeout.milliseconds / 1000))
        reply.appendStatistic("request_rate_min", UInt64(settings.requestBytesPerSecondMin))
        reply.appendStatistic("send_timeout", UInt64(settings.sendTimeout.milliseconds / 1000))
        reply.appendStatistic("idle_timeout", UInt64((settings.idleTimeout?.milliseconds ?? 0) / 1000))
        reply.appendStatistic("watcher_logbuf_size", UInt64(WatchHub.ringBytesMax))
        reply.appendStatistic("track_sizes", "no")
        reply.appendStatistic("disk_enabled", Self.word(settings.disk.isEnabled))
        guard settings.disk.isEnabled else { return }
        reply.appendStatistic("disk_dir", settings.disk.directory.replacing(" ", with: "%20"))
        reply.appendStatistic("disk_limit", UInt64(settings.disk.bytesMax))
        reply.appendStatistic("disk_durability", settings.disk.durability.rawValue)
        reply.appendStatistic("disk_write", settings.disk.write.rawValue)
        reply.appendStatistic("disk_admission", settings.disk.admission.rawValue)
    }

    /// Appends what encrypts connections, by memcached's names.
    private func appendEncryptionSettings(_ settings: Settings, _ reply: inout ByteBuffer) {
        reply.appendStatistic("ssl_enabled", Self.word(settings.tls.isOn))
        guard let certificate = settings.tls.certificate else { return }
        reply.appendStatistic("ssl_chain_cert", certificate.replacing(" ", with: "%20"))
        reply.appendStatistic("ssl_key", (settings.tls.key ?? certificate).replacing(" ", with: "%20"))
        reply.appendStatistic("ssl_ca_cert", settings.tls.clientAuthorities?.replacing(" ", with: "%20") ?? "NULL")
        reply.appendStatistic("ssl_verify_mode", settings.tls.verifyMode)
        reply.appendStatistic("ssl_min_version", "TLSv\(settings.tls.oldest.rawValue)")
    }

    /// There is one LRU list: its segments take no share of the memory, and nothing moves between size classes.
    private func appendCrawlerSettings(_ service: Service, _ reply: inout ByteBuffer) {
        reply.appendStatistic("slab_reassign", "no")
        reply.appendStatistic("slab_automove", 0)
        reply.appendStatistic("lru_crawler", Self.word(service.crawler.isEnabled))
        reply.appendStatistic("lru_crawler_sleep", UInt64(service.crawler.sleepMicroseconds))
        reply.appendStatistic("lru_crawler_tocrawl", UInt64(service.crawler.entriesMax))
        reply.appendStatistic("lru_maintainer_thread", "no")
        reply.appendStatistic("lru_segmented", "no")
        reply.appendStatistic("hot_lru_pct", 0)
        reply.appendStatistic("warm_lru_pct", 0)
        reply.appendStatistic("hot_max_factor", "0.00")
        reply.appendStatistic("warm_max_factor", "0.00")
        reply.appendStatistic("temp_lru", "no")
    }

    private static func word(_ isOn: Bool) -> String { isOn ? "yes" : "no" }

    // MARK: items and slabs

    /// Appends the entries in memory as the one size class that they are in, 1; nothing while there are none.
    func appendItems(_ service: Service, _ reply: inout ByteBuffer) {
        let (_, engine) = snapshot(service)
        guard engine.memoryEntries > 0 else { return }
        let numbers: [(StaticString, Int)] = [
            ("items:1:number", engine.memoryEntries),
            ("items:1:number_hot", 0), ("items:1:number_warm", 0), ("items:1:number_cold", engine.memoryEntries),
            ("items:1:number_temp", 0), ("items:1:age_hot", 0), ("items:1:age_warm", 0),
            ("items:1:age", engine.oldestIdleSeconds), ("items:1:mem_requested", engine.memoryBytes),
            ("items:1:evicted", engine.evictions), ("items:1:evicted_nonzero", engine.mortalEvictions),
            ("items:1:evicted_time", engine.lastEvictionIdleSeconds), ("items:1:outofmemory", 0),
            ("items:1:tailrepairs", 0), ("items:1:reclaimed", engine.expirations - engine.sweptExpirations),
            ("items:1:expired_unfetched", engine.expiredUnfetched),
            ("items:1:evicted_unfetched", engine.evictedUnfetched),
            ("items:1:crawler_reclaimed", engine.sweptExpirations), ("items:1:lrutail_reflocked", 0),
            ("items:1:direct_reclaims", engine.evictions), ("items:1:hits_to_cold", engine.memoryHits),
        ]
        for (name, number) in numbers { reply.appendStatistic(name, UInt64(max(0, number))) }
    }

    /// Appends memory as slabs: an entry is a chunk of the average size, and a page is memcached's 1 MiB.
    func appendSlabs(_ service: Service, _ reply: inout ByteBuffer) {
        let (counters, engine) = snapshot(service)
        if engine.memoryEntries > 0 { appendChunks(engine, &reply) }
        if engine.memoryEntries > 0 {
            for (name, counter) in Self.classCounters { reply.appendStatistic(name, counters[counter]) }
        }
        reply.appendStatistic("active_slabs", engine.memoryEntries > 0 ? 1 : 0)
        reply.appendStatistic("total_malloced", UInt64(engine.memoryBytes))
    }

    private func appendChunks(_ engine: CacheStatistics, _ reply: inout ByteBuffer) {
        let pageBytes = 1 << 20
        let chunkBytes = max(1, engine.memoryBytes / engine.memoryEntries)
        let perPage = max(1, pageBytes / chunkBytes)
        let pages = (engine.memoryEntries + perPage - 1) / perPage
        let numbers: [(StaticString, Int)] = [
            ("1:chunk_size", chunkBytes), ("1:chunks_per_page", perPage), ("1:total_pages", pages),
            ("1:total_chunks", pages * perPage), ("1:used_chunks", engine.memoryEntries),
            ("1:free_chunks", pages * perPage - engine.memoryEntries), ("1:free_chunks_end", 0),
            ("1:mem_requested", engine.memoryBytes),
        ]
        for (name, number) in numbers { reply.appendStatistic(name, UInt64(max(0, number))) }
    }

    private static let classCounters: [(StaticString, Counter)] = [
        ("1:get_hits", .getHits), ("1:cmd_set", .setCommands), ("1:delete_hits", .deleteHits),
        ("1:incr_hits", .incrementHits), ("1:decr_hits", .decrementHits), ("1:cas_hits", .casHits),
        ("1:cas_badval", .casMismatches), ("1:touch_hits", .touchHits),
    ]

    // MARK: conns and detail

    /// Appends listeners and clients by descriptor, the newest client last.
    func appendConnections(_ service: Service, _ reply: inout ByteBuffer) {
        let now = service.cache.clock.now()
        for (fd, card) in service.connectionCards {
            // A connection that closes just now leaves an unknown address.
            reply.appendStatistic("\(fd):addr", PeerAddress(fd).statistic)
            reply.appendStatistic("\(fd):listen_addr", PeerAddress.local(fd).statistic)
            reply.appendStatistic("\(fd):state", card.isWatching ? "conn_watch" : "conn_read")
            let seconds = (now.milliseconds - card.lastActivity.milliseconds) / 1000
            reply.appendStatistic("\(fd):secs_since_last_cmd", String(max(0, seconds)))
        }
    }

    /// Answers `stats detail`.
    func appendDetail(_ word: String?, _ service: Service, _ reply: inout ByteBuffer) {
        guard service.allowsDumps else { return reply.append(.error(.detailNotAllowed)) }
        switch word {
        case "on", "off":
            service.watchers.setPrefixTally(word == "on")
            reply.append(.ok)
        case "dump":
            service.prefixes.append(to: &reply)
            reply.append(.end)
        default: reply.append(.error(.badDetailWord))
        }
    }
}
