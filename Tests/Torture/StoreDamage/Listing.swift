// What each key of a store holds, as the program that made the store says.
//
// A file of records without separators, numbers little-endian: length of the key (4 bytes), flags (4), TTL in seconds
// (4; 0: never expires), length of the value (4; all bits set: the key holds nothing), key, value.

import Foundation

/// The expected content of a store.
struct Listing {
    /// What a key holds.
    struct Entry {
        var value: [UInt8]
        var flags: UInt32
        /// In seconds; 0: for ever.
        var timeToLive: UInt32
    }

    private(set) var entries: [[UInt8]: Entry] = [:]
    /// Keys that were deleted, flushed, or never there.
    private(set) var absent: [[UInt8]] = []

    init(path: String) throws {
        let bytes = [UInt8](try Data(contentsOf: URL(fileURLWithPath: path)))
        var position = 0
        func number() -> UInt32 {
            defer { position += 4 }
            return (0..<4).reduce(0) { $0 | UInt32(bytes[position + $1]) << (8 * UInt32($1)) }
        }
        func take(_ count: UInt32) -> [UInt8] {
            defer { position += Int(count) }
            return Array(bytes[position..<position + Int(count)])
        }
        while position < bytes.count {
            let (keyBytes, flags, timeToLive, valueBytes) = (number(), number(), number(), number())
            let key = take(keyBytes)
            if valueBytes == .max {
                absent.append(key)
            } else {
                entries[key] = Entry(value: take(valueBytes), flags: flags, timeToLive: timeToLive)
            }
        }
    }
}
