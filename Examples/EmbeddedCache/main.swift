// Two caches in one process: pages that must survive a restart, and sessions that live in memory only.
//
//     swift run EmbeddedCache DIRECTORY
//
// Prints what it does, line by line. Run it twice with one directory: the second run finds the pages of the first.

import CacheEngine
import Glibc

/// Writes one line to standard output.
func say(_ line: String) {
    var line = line + "\n"
    line.withUTF8 { bytes in _ = unsafe write(STDOUT_FILENO, bytes.baseAddress, bytes.count) }
}

/// The text of a value.
func text(_ value: [UInt8]?) -> String { value.map { String(decoding: $0, as: UTF8.self) } ?? "nothing" }

if let bench = Bench(Array(CommandLine.arguments.dropFirst())) {
    do {
        try bench.run()
        exit(0)
    } catch {
        say("\(error)")
        exit(1)
    }
}
guard CommandLine.arguments.count == 2 else {
    say("usage: EmbeddedCache DIRECTORY")
    exit(64)
}
let directory = CommandLine.arguments[1]

do {
    // 16 MiB of memory over 64 MiB of disk, in DIRECTORY/pages. Opening takes milliseconds, however much is there.
    var options = CacheOptions(name: "pages", memoryBytes: 16 << 20, directory: directory, diskBytes: 64 << 20)
    options.disk?.durability = .process  // What `set` has acknowledged survives the death of the process.
    let pages = try Cache.open(options)
    say("pages: \(pages.startReport ?? "memory only")")
    say("home from an earlier run: \(text(pages.value(forKey: "/home")))")

    // Memory only, at most 1000 sessions, forgotten after an hour without use.
    var sessionOptions = CacheOptions(name: "sessions", memoryBytes: 1 << 20)
    sessionOptions.memory.entriesMax = 1000
    sessionOptions.memory.ageMax = 3_600_000
    let sessions = try Cache.open(sessionOptions)

    // Observers are called on the cache's background thread, with the reason why an entry is gone.
    let observation = pages.observe { events, _ in
        for event in events { say("event: \(event.reason) \(text(event.key))") }
    }

    // A value lives until it is removed, its time is over, or room is needed.
    try pages.set(Array("<h1>Home</h1>".utf8), forKey: "/home")
    try pages.set(Array("<h1>News</h1>".utf8), forKey: "/news", timeToLive: .seconds(60))
    try sessions.set(Array("alice".utf8), forKey: "session-1", timeToLive: .seconds(1800))
    say("home: \(text(pages.value(forKey: "/home")))")

    // Without a copy: the value stays as it is while the closure looks at it.
    let bytes = pages.withValue(forKey: "/news") { value in value.count }
    say("news: \(bytes ?? 0) bytes, \(pages.info(forKey: "/news")?.timeToLive ?? .zero) to live")

    // Counters, and writes that only happen if nobody else was faster.
    try pages.set(Array("41".utf8), forKey: "visits")
    say("visits: \(try pages.increment("visits") ?? 0)")
    if let entry = pages.entry(forKey: "/home") {
        let outcome = try pages.compareAndSet(Array("<h1>Welcome</h1>".utf8), forKey: "/home", cas: entry.cas)
        if case .stored = outcome { say("home was changed by nobody else") }
    }

    // Large values live in files; they are read in pieces if they must not be in memory as a whole.
    try pages.set([UInt8](repeating: 120, count: 5_000_000), forKey: "/video")
    var total = 0
    _ = pages.readValue(forKey: "/video") { chunk in total += chunk.count }
    say("video: \(total) bytes, found \(pages.tier(ofKey: "/video")?.rawValue ?? "nowhere")")

    // By hand: what a tier keeps, what there is, and everything gone.
    for number in 0..<500 { try pages.set(Array("page \(number)".utf8), forKey: "/page/\(number)") }
    let trimmed = pages.trim(.memory, to: .entries(100))
    let tier = pages.tier(ofKey: "/page/0")?.rawValue ?? "nowhere"
    say("trimmed \(trimmed) entries from memory; /page/0 is found \(tier)")
    var listed = 0
    pages.forEachEntry { _, stop in
        listed += 1
        stop = listed == 10
    }
    say("listed \(listed) of \(pages.entryCount(in: .disk)) entries on disk")
    sessions.removeAll()
    say("session: \(text(sessions.value(forKey: "session-1")))")

    // Closing brings everything to disk, delivers the last events and lets the directory go.
    sessions.close()
    pages.close()
    observation.cancel()
    say("closed")
} catch {
    say("\(error)")
    exit(70)
}
