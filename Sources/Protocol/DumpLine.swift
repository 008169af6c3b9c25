// The lines that list keys: `lru_crawler metadump` and `mgdump`, and the older `stats cachedump`.
//
// Formats as in memcached's crawler.c and items.c, down to the space and the bare LF at the end of a metadump line.

public import Primitives

/// An entry in a list of keys.
public struct DumpedEntry: Sendable, Equatable {
    /// Unix time of the expiry; nil: never.
    public var expiry: Int64?
    /// Unix time of the last use.
    public var lastUse: Int64
    /// The CAS unique.
    public var unique: UInt64
    /// Whether it was read since it was stored.
    public var wasFetched: Bool
    /// Bytes of the value.
    public var valueBytes: Int
    /// Bytes of everything.
    public var totalBytes: Int
    /// The client's flags.
    public var flags: UInt32
    /// Whether the key came as base64.
    public var hasBinaryKey: Bool

    /// Makes an entry from its parts.
    public init(
        expiry: Int64?, lastUse: Int64, unique: UInt64, wasFetched: Bool, valueBytes: Int, totalBytes: Int,
        flags: UInt32, hasBinaryKey: Bool
    ) {
        self.expiry = expiry
        self.lastUse = lastUse
        self.unique = unique
        self.wasFetched = wasFetched
        self.valueBytes = valueBytes
        self.totalBytes = totalBytes
        self.flags = flags
        self.hasBinaryKey = hasBinaryKey
    }
}

extension ByteBuffer {
    /// Appends `key=<key> exp=<time> la=<time> cas=<unique> fetch=<yes or no> cls=1 size=<bytes> flags=<flags> `.
    public mutating func appendMetadump(key: UnsafeRawBufferPointer, _ entry: DumpedEntry) {
        // SAFETY: the caller keeps the key during the call, which copies it; also below.
        append("key=")
        unsafe append(uriEncoded: key)
        append(" exp=")
        if let expiry = entry.expiry { append(decimal: UInt64(max(0, expiry))) } else { append("-1") }
        append(" la=")
        append(decimal: UInt64(max(0, entry.lastUse)))
        append(" cas=")
        append(decimal: entry.unique)
        append(entry.wasFetched ? " fetch=yes cls=1 size=" : " fetch=no cls=1 size=")
        append(decimal: UInt64(max(0, entry.totalBytes)))
        append(" flags=")
        append(decimal: UInt64(entry.flags))
        append(" \n")
    }

    /// Appends `mg <key>`, or `mg <base64> b` for a key that came as base64.
    public mutating func appendMetaGetDump(key: UnsafeRawBufferPointer, _ entry: DumpedEntry) {
        append("mg ")
        if entry.hasBinaryKey {
            unsafe append(base64: key)
            append(" b")
        } else {
            unsafe append(key)
        }
        append("\r\n")
    }

    /// Appends `ITEM <key> [<bytes> b; <expiry> s]`; nothing for keys that came as base64, as in memcached.
    public mutating func appendCachedump(key: UnsafeRawBufferPointer, _ entry: DumpedEntry) {
        if entry.hasBinaryKey { return }
        append("ITEM ")
        unsafe append(key)
        append(" [")
        append(decimal: UInt64(max(0, entry.valueBytes)))
        append(" b; ")
        append(decimal: UInt64(max(0, entry.expiry ?? 0)))
        append(" s]\r\n")
    }
}
