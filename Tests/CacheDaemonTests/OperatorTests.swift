// What operators ask a running daemon: lists of keys, watching, statistics by prefix and by group, limits.

import CacheEngine
import Foundation
import Primitives
import Protocol
import Testing

@testable import CacheDaemon

/// The lines of a dump, which end in LF or CR LF.
///
/// CR LF is one character of a Swift string, so splitting at "\n" would miss it.
private func linesOf(_ reply: String) -> [String] {
    reply.replacing("\r\n", with: "\n").split(separator: "\n").map(String.init)
}

struct KeyDumpTests {
    @Test("a dump shows every key once, in both tiers, while other requests wait their turn behind it")
    func dump() throws {
        let directory = try TemporaryDirectory()
        let client = try Conversation(
            owning: coldCache(["cold": Array("c".utf8), "file": [UInt8](repeating: 1, count: 50_000)], in: directory))
        client.say("set warm 5 0 4\r\nwarm\r\n")
        let reply = client.say("lru_crawler metadump all\r\nget warm\r\n") + client.finish()
        let lines = linesOf(reply)
        #expect(lines.first == "OK")
        let keys = lines.filter { $0.hasPrefix("key=") }.map { $0.split(separator: " ")[0] }
        #expect(Set(keys) == ["key=cold", "key=file", "key=warm"] && keys.count == 3)
        #expect(reply.hasSuffix(" \nEND\r\nVALUE warm 5 4\r\nwarm\r\nEND\r\n"))
        let mgdump = client.say("lru_crawler mgdump 1\r\n") + client.finish()
        #expect(Set(mgdump.split(separator: "\r\n")) == ["OK", "mg cold", "mg file", "mg warm", "EN"])
    }

    @Test("a client that does not read gets one page ahead, whatever the number of keys")
    func backPressure() throws {
        let client = try Conversation(owning: memoryCache())
        for number in 0..<5000 { client.say("set key-\(number) 0 0 1\r\nx\r\n") }
        client.isReading = false
        client.say("lru_crawler metadump all\r\n")
        for _ in 0..<50 { client.deliver(client.held.takeAll()) }
        #expect(client.held.takeAll().isEmpty, "the next page is asked for only when this one is sent")
        client.isReading = true
        client.run()
        let reply = client.takeReplies() + client.finish()
        #expect(linesOf(reply).filter { $0.hasPrefix("key=") }.count == 5000)
        #expect(reply.hasSuffix("END\r\n"))
    }

    @Test("one dump at a time; a connection that dies in the middle lets the next one begin")
    func oneAtATime() throws {
        let server = try RunningServer(testSettings { $0.threads = 1 })
        let first = try PlainClient(server.addresses[0])
        // Each of its bytes takes three in a dump.
        let long = String(repeating: "%", count: 240)
        first.send((0..<20_000).map { "set \(long)\($0) 0 0 1 noreply\r\nx\r\n" }.joined())
        #expect(first.ask("version\r\n").hasPrefix("VERSION"))
        let dumper = try PlainClient(server.addresses[0])
        // Not read: 16 MB of lines fill the sockets, and the dump stays in the middle.
        dumper.send("lru_crawler metadump all\r\n")
        #expect(dumper.line() == "OK")
        #expect(first.ask("lru_crawler metadump all\r\n") == "BUSY currently processing crawler request")
        #expect(first.ask("lru_crawler mgdump all\r\n") == "BUSY currently processing crawler request")
        #expect(first.statistics()["lru_crawler_running"] == "1")
        // Others are served meanwhile.
        #expect(first.ask("set a 0 0 1\r\nx\r\n") == "STORED")
        dumper.finishSending()
        dumper.abort()
        #expect(eventually { first.statistics()["lru_crawler_running"] == "0" })
        first.send("lru_crawler mgdump all\r\n")
        #expect(first.line() == "OK")
        var count = 0
        while first.line() != "EN" { count += 1 }
        #expect(count == 20_001)
        server.stop()
    }

    @Test("a client that takes nothing of its dump for a minute is cut off, and the next dump may begin")
    func stalledReader() throws {
        let clock = ManualClock()
        let server = try RunningServer(testSettings { $0.threads = 1 }, clock: clock)
        let first = try PlainClient(server.addresses[0])
        let long = String(repeating: "%", count: 240)
        first.send((0..<20_000).map { "set \(long)\($0) 0 0 1 noreply\r\nx\r\n" }.joined())
        #expect(first.ask("version\r\n").hasPrefix("VERSION"))
        let dumper = try PlainClient(server.addresses[0])
        dumper.send("lru_crawler metadump all\r\n")
        #expect(dumper.line() == "OK")
        #expect(eventually { first.ask("lru_crawler mgdump all\r\n").hasPrefix("BUSY") })
        // Time passes again and again, because the sockets' buffers are still being filled at first.
        #expect(
            eventually {
                clock.advance(Settings().sendTimeout.milliseconds + 1000)
                return first.statistics()["lru_crawler_running"] == "0"
            })
        #expect(first.statistics()["stalled_kicks"] == "1")
        server.stop()
    }

    @Test("cachedump stops at its limit and at 2 MiB, in its place among other replies")
    func cachedump() throws {
        let client = try Conversation(owning: memoryCache())
        for number in 0..<10_000 {
            client.say("set \(String(repeating: "k", count: 230))-\(number) 0 0 1 noreply\r\nx\r\n")
        }
        client.say("ms AAE= 1 b\r\nx\r\n")
        func lines(_ reply: String) -> [Substring] { reply.split(separator: "\r\n").filter { $0.hasPrefix("ITEM ") } }
        #expect(lines(client.say("stats cachedump 1 5\r\n") + client.finish()).count == 5)
        let all = client.say("version\r\nstats cachedump 1 0\r\nversion\r\n") + client.finish()
        #expect(all.hasPrefix("VERSION ") && all.hasSuffix("END\r\nVERSION \(ProductVersion.wire)\r\n"))
        let bytes = lines(all).reduce(0) { $0 + $1.utf8.count + 2 }
        #expect(bytes > KeyDump.cachedumpBytesMax && bytes < KeyDump.cachedumpBytesMax + 400)
    }

    @Test("switched off: each command says so in memcached's words")
    func switchedOff() throws {
        let server = try RunningServer(
            testSettings {
                $0.allowsDumps = false
                $0.allowsWatching = false
                $0.allowsFlush = false
            })
        let client = try PlainClient(server.addresses[0])
        #expect(client.ask("lru_crawler metadump all\r\n") == "ERROR metadump not allowed")
        #expect(client.ask("lru_crawler mgdump all\r\n") == "ERROR key dump not allowed")
        #expect(client.ask("stats cachedump 1 0\r\n") == "CLIENT_ERROR stats cachedump not allowed")
        #expect(client.ask("stats detail on\r\n") == "CLIENT_ERROR stats detail not allowed")
        #expect(client.ask("watch\r\n") == "CLIENT_ERROR watch commands not allowed")
        #expect(client.ask("set a 0 0 1\r\nx\r\n") == "STORED")
        #expect(client.ask("flush_all\r\n") == "CLIENT_ERROR flush_all not allowed")
        #expect(client.ask("get a\r\n") == "VALUE a 0 1")
        server.stop()
    }
}

struct WatchTests {
    @Test("connections, evictions, raw lines and stores that failed are told; a watcher's end is noticed")
    func topics() throws {
        let server = try RunningServer(testSettings { $0.memory.bytesMax = 1 << 20 })
        let watcher = try PlainClient(server.addresses[0])
        #expect(watcher.ask("watch connevents\r\n") == "OK")
        let client = try PlainClient(server.addresses[0])
        #expect(client.ask("version\r\n").hasPrefix("VERSION"))
        #expect(watcher.line().contains(" type=conn_new rip=127.0.0.1 rport="))
        client.send("quit\r\n")
        #expect(client.readToEnd() == "")
        #expect(watcher.line().contains(" transport=tcp reason=normal cfd="))
        let other = try PlainClient(server.addresses[0])
        #expect(watcher.line().contains(" type=conn_new "))
        let evictions = try PlainClient(server.addresses[0])
        #expect(evictions.ask("watch evictions rawcmds mutations\r\n") == "OK")
        #expect(other.ask("set b 0 0 3000000\r\n") == "SERVER_ERROR object too large for cache")
        #expect(evictions.line().hasSuffix(" set b 0 0 3000000"))
        #expect(evictions.line().contains(" type=item_store key=b status=too_large cmd=set ttl=0 "))
        other.send([UInt8](repeating: 120, count: 3_000_000) + [13, 10])
        for number in 0..<40 {
            other.send("set k\(number) 0 100 100000 noreply\r\n\(String(repeating: "v", count: 100_000))\r\n")
        }
        #expect(other.ask("version\r\n").hasPrefix("VERSION"))
        var line = ""
        while !line.contains("type=eviction") { line = evictions.line() }
        #expect(line.contains(" key=k") && line.contains(" fetch=no ttl=") && line.hasSuffix(" clsid=1 size=100000"))
        #expect(other.statistics()["log_watchers"] == "2")
        #expect(other.statistics("conns").values.contains("conn_watch"))
        watcher.abort()
        #expect(eventually { other.statistics()["log_watchers"] == "1" })
        server.stop()
    }

    @Test("a watcher that does not read loses lines, is told how many, and costs the others nothing")
    func slowWatcher() throws {
        let server = try RunningServer(testSettings())
        let watcher = try PlainClient(server.addresses[0])
        #expect(watcher.ask("watch\r\n") == "OK")
        let client = try PlainClient(server.addresses[0])
        // Each of its bytes takes three in a line.
        let key = String(repeating: "#", count: 240)
        while UInt64(client.statistics()["log_watcher_skipped"] ?? "0") ?? 0 < 10 {
            client.send(String(repeating: "get \(key)\r\n", count: 500))
            for _ in 0..<500 { #expect(client.line() == "END") }
        }
        // Reads on until the news of the skipped lines comes with the next line that fits.
        var line = watcher.line()
        var read = 1
        while !line.hasPrefix("skipped=") {
            if read.isMultiple(of: 100) { #expect(client.ask("get \(key)\r\n") == "END") }
            line = watcher.line()
            read += 1
        }
        #expect(UInt64(line.dropFirst(8)) ?? 0 >= 10)
        #expect(watcher.line().contains(" type=item_get key=%23%23"))
        server.stop()
    }

    @Test("no more than twenty watch; they are let go when the daemon stops")
    func limit() throws {
        let server = try RunningServer(testSettings())
        var watchers: [PlainClient] = []
        for _ in 0..<WatchHub.watchersMax {
            watchers.append(try PlainClient(server.addresses[0]))
            #expect(watchers.last?.ask("watch deletions\r\n") == "OK")
        }
        let late = try PlainClient(server.addresses[0])
        #expect(late.ask("watch\r\n") == "WATCHER_TOO_MANY log watcher limit reached")
        #expect(late.ask("version\r\n").hasPrefix("VERSION"))
        #expect(server.stop() == 0)
        for watcher in watchers { #expect(watcher.readToEnd() == "") }
    }

    @Test("keys on disk are told when the disk has answered; a request that waits for it is told once")
    func onDisk() throws {
        let directory = try TemporaryDirectory()
        let client = try Conversation(owning: coldCache(["p:a": Array("12".utf8)], in: directory))
        client.watch([.fetchers, .deletions])
        #expect(client.say("get p:a\r\n") + client.finish() == "VALUE p:a 7 2\r\n12\r\nEND\r\n")
        #expect(client.watchedLines() == ["type=item_get key=p%3Aa status=found clsid=1 cfd=-1 size=2"])
        client.cache.trim(.memory, to: .entries(0))
        #expect(client.say("delete p:a\r\n") + client.finish() == "DELETED\r\n")
        #expect(client.watchedLines() == ["type=deleted key=p%3Aa cmd=delete clsid=1 size=2"])
    }
}

struct StatisticsTests {
    @Test("counts by prefix: only while switched on, from memory and disk, reset with the others")
    func detail() throws {
        let directory = try TemporaryDirectory()
        let client = try Conversation(owning: coldCache(["p:a": Array("x".utf8)], in: directory))
        #expect(client.say("get p:a\r\n") + client.finish() == "VALUE p:a 7 1\r\nx\r\nEND\r\n")
        #expect(client.say("stats detail dump\r\n") == "END\r\n")
        client.say("stats detail on\r\n")
        client.cache.trim(.memory, to: .entries(0))
        _ = client.say("get p:a p:b plain q:c\r\n") + client.finish()
        let batch = "mg p:a\r\nms p:a 1\r\nx\r\nset p:b 0 0 1\r\nx\r\ndelete p:b\r\nmd p:z\r\ntouch p:a 1\r\n"
        _ = client.say(batch) + client.finish()
        let lines = Set(client.say("stats detail dump\r\n").split(separator: "\r\n"))
        #expect(lines == ["PREFIX p get 3 hit 2 set 2 del 2", "PREFIX q get 1 hit 0 set 0 del 0", "END"])
        client.say("stats detail off\r\n")
        client.say("get p:a\r\n")
        #expect(Set(client.say("stats detail dump\r\n").split(separator: "\r\n")) == lines)
        client.say("stats reset\r\n")
        #expect(client.say("stats detail dump\r\n") == "END\r\n")
    }

    @Test("size class 1 carries true totals, and extstore's names the disk tier")
    func groups() throws {
        let directory = try TemporaryDirectory()
        let client = try Conversation(
            owning: coldCache(["a": Array("12345".utf8), "b": Array("x".utf8)], in: directory))
        #expect(client.say("get a\r\n") + client.finish() == "VALUE a 7 5\r\n12345\r\nEND\r\n")
        let general = client.statistics("")
        #expect(general["get_extstore"] == "1" && general["extstore_objects_read"] == "1")
        #expect(general["extstore_bytes_read"] == "5" && general["extstore_objects_used"] == "2")
        #expect(general["extstore_limit_maxbytes"] == "\(1 << 30)")
        #expect(general["curr_items"] == "1")
        let items = client.statistics("items")
        #expect(items["items:1:number"] == "1" && items["items:1:mem_requested"] == general["bytes"])
        let slabs = client.statistics("slabs")
        #expect(slabs["1:used_chunks"] == "1" && slabs["active_slabs"] == "1")
        #expect(slabs["1:chunk_size"] == general["bytes"])
        client.say("lru_crawler disable\r\n")
        #expect(client.statistics("settings")["lru_crawler"] == "no")
        client.say("lru_crawler enable\r\nlru_crawler sleep 7\r\nlru_crawler tocrawl 9\r\n")
        let settings = client.statistics("settings")
        #expect(settings["lru_crawler"] == "yes")
        #expect(settings["lru_crawler_sleep"] == "7" && settings["lru_crawler_tocrawl"] == "9")
    }

    @Test("cache_memlimit takes effect at once")
    func memoryLimit() throws {
        let client = try Conversation(owning: memoryCache())
        for number in 0..<200 {
            client.say("set k\(number) 0 0 100000\r\n\(String(repeating: "v", count: 100_000))\r\n")
        }
        #expect(client.cache.statistics().memoryBytes > 16 << 20)
        #expect(client.say("cache_memlimit 8\r\n") == "OK\r\n")
        #expect(client.statistics("")["limit_maxbytes"] == "\(8 << 20)")
        #expect(client.statistics("settings")["maxbytes"] == "\(8 << 20)")
        #expect(eventually { client.cache.statistics().memoryBytes <= 8 << 20 })
    }

    @Test("-I without a disk tier raises what memory takes; -o means idle_timeout, tuning is without effect")
    func compatibleOptions() throws {
        #expect(try settings(["-I", "8m", "--no-disk"]).memory.valueBytesMax == 8 << 20)
        #expect(try settings(["-I", "8m"]).memory.valueBytesMax == 1 << 20)
        #expect(try settings(["-I", "8m", "--no-disk", "--memory-value-max", "2MiB"]).memory.valueBytesMax == 2 << 20)
        #expect(try settings(["-o", "idle_timeout=3,modern"]).idleTimeout == .seconds(3))
        #expect(try settings(["-o", "idle_timeout=3,modern"]).optionsWithoutEffect == ["-o modern"])
        #expect(try settings(["-o", "idle_timeout=0"]).idleTimeout == nil)
        for refused in ["ext_path=/x:1g", "idle_timeout", "idle_timeout=x", "bogus", ""] {
            guard case .refuse(let lines) = launch(["-o", refused]) else {
                Issue.record("-o \(refused) is accepted")
                continue
            }
            #expect(lines.first?.hasPrefix("-o ") == true, "\(lines)")
        }
    }
}
