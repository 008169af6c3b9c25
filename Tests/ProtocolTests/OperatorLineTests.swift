// The bytes of watch lines and of lists of keys.

import Primitives
import Protocol
import Testing

@Suite struct OperatorLineTests {
    @Test func prefixHasMicrosecondsWithAllDigits() {
        let early = line { $0.appendWatchPrefix(milliseconds: 1_700_000_000_004, number: 7) }
        #expect(early == "ts=1700000000.004000 gid=7 ")
        let late = line { $0.appendWatchPrefix(milliseconds: 1_700_000_000_120, number: .max) }
        #expect(late == "ts=1700000000.120000 gid=18446744073709551615 ")
    }

    @Test func fetches() {
        let found = line { $0.appendWatchedFetch(key: bytes("a b"), .found, descriptor: 9, valueBytes: 5) }
        #expect(found == "type=item_get key=a%20b status=found clsid=1 cfd=9 size=5")
        let missed = line { $0.appendWatchedFetch(key: bytes("k"), .notFound, descriptor: 9, valueBytes: 0) }
        #expect(missed == "type=item_get key=k status=not_found clsid=0 cfd=9 size=0")
    }

    @Test(arguments: [
        (StoreStatus.stored, "stored"), (.notStored, "not_stored"), (.exists, "exists"), (.notFound, "not_found"),
        (.tooLarge, "too_large"), (.noMemory, "no_memory"),
    ])
    func stores(status: StoreStatus, word: String) {
        let text = line {
            $0.appendWatchedStore(
                key: bytes("k"), status, command: "cas", timeToLive: 60, descriptor: 3, valueBytes: 4)
        }
        #expect(text == "type=item_store key=k status=\(word) cmd=cas ttl=60 clsid=1 cfd=3 size=4")
    }

    @Test func deletionsAndEvictions() {
        let deleted = line { $0.appendWatchedDeletion(key: bytes("k"), command: "md", valueBytes: 4) }
        #expect(deleted == "type=deleted key=k cmd=md clsid=1 size=4")
        let evicted = line {
            $0.appendWatchedEviction(key: bytes("k"), wasFetched: true, timeToLive: -1, idleSeconds: 12, valueBytes: 4)
        }
        #expect(evicted == "type=eviction key=k fetch=yes ttl=-1 la=12 clsid=1 size=4")
    }

    @Test func connections() {
        let tcp = WatchedPeer(host: "::1", port: 4711, descriptor: 8)
        let opened = line { $0.appendWatchedConnection(tcp, closed: nil) }
        #expect(opened == "type=conn_new rip=::1 rport=4711 transport=tcp cfd=8")
        let unix = WatchedPeer(host: "unix", port: nil, descriptor: 8)
        let reasons: [(CloseReason, String)] = [
            (.normal, "normal"), (.error, "error"), (.idleTimeout, "idle_timeout"), (.shutdown, "shutdown"),
        ]
        for (reason, word) in reasons {
            #expect(
                line { $0.appendWatchedConnection(unix, closed: reason) }
                    == "type=conn_close rip=unix rport=0 transport=local reason=\(word) cfd=8")
        }
    }

    /// No byte that a client sends may end a line early.
    @Test func nothingForgesALine() {
        let all = (0...255).map { UInt8($0) }
        let texts = [
            line { $0.append(uriEncoded: bytes(all)) }, line { $0.appendWatchedRequest(bytes(all), descriptor: 1) },
        ]
        for text in texts { #expect(text.utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7F }, "\(text)") }
        #expect(line { $0.append(uriEncoded: bytes("azAZ09-._~/%\u{e9}")) } == "azAZ09-._~%2F%25%C3%A9")
        #expect(line { $0.appendWatchedRequest(bytes("get a\u{1}"), descriptor: 12) } == "<12 get a%01")
    }

    @Test func dumps() {
        var entry = DumpedEntry(
            expiry: nil, lastUse: 1_700_000_000, unique: 42, wasFetched: false, valueBytes: 5, totalBytes: 104,
            flags: 7, hasBinaryKey: false)
        #expect(
            line { $0.appendMetadump(key: bytes("a%"), entry) }
                == "key=a%25 exp=-1 la=1700000000 cas=42 fetch=no cls=1 size=104 flags=7 \n")
        #expect(line { $0.appendMetaGetDump(key: bytes("a%"), entry) } == "mg a%\r\n")
        #expect(line { $0.appendCachedump(key: bytes("a%"), entry) } == "ITEM a% [5 b; 0 s]\r\n")
        entry.expiry = 1_800_000_000
        entry.wasFetched = true
        entry.hasBinaryKey = true
        #expect(
            line { $0.appendMetadump(key: bytes([0, 255]), entry) }
                == "key=%00%FF exp=1800000000 la=1700000000 cas=42 fetch=yes cls=1 size=104 flags=7 \n")
        #expect(line { $0.appendMetaGetDump(key: bytes([0, 255]), entry) } == "mg AP8= b\r\n")
        #expect(line { $0.appendCachedump(key: bytes([0, 255]), entry) } == "")
    }

    /// The text that `body` appends.
    private func line(_ body: (inout ByteBuffer) -> Void) -> String {
        var buffer = ByteBuffer()
        body(&buffer)
        return String(decoding: buffer.readable, as: UTF8.self)
    }

    private func bytes(_ text: String) -> UnsafeRawBufferPointer { bytes(Array(text.utf8)) }

    /// A copy that lives as long as the test program.
    private func bytes(_ array: [UInt8]) -> UnsafeRawBufferPointer {
        let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: array.count, alignment: 1)
        copy.copyBytes(from: array)
        return UnsafeRawBufferPointer(copy)
    }
}
