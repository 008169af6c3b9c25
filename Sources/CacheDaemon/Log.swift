// The log: standard error, one event one line, `event key=value ...`.
//
// Under systemd, which reads standard error when $JOURNAL_STREAM is set, lines begin with `<N>`, the priority of
// syslog(3); elsewhere with the program's name and the level. Bytes that came from clients are escaped, so that a key
// can forge no line. Each kind of event is limited in rate; what was left out is counted in the next line of its kind.

import Glibc
import Primitives
import Synchronization

extension LogLevel {
    /// Position in the order of levels; more is chattier.
    fileprivate var rank: Int {
        switch self {
        case .error: 0
        case .warning: 1
        case .notice: 2
        case .info: 3
        case .debug: 4
        }
    }

    /// The priority of syslog(3).
    fileprivate var priority: Int { rank + 3 }
}

/// Writes log lines.
///
/// Any thread.
final class Log: Sendable {
    /// How many lines of one kind are written in a window.
    static let linesPerWindowMax = 20
    static let windowMilliseconds: Int64 = 10_000

    /// How often one kind of event came lately.
    private struct Window {
        var began: Instant
        var written = 0
        var suppressed = 0
    }

    /// Guards the rate limits, one window for each kind of event.
    ///
    /// The kinds are literals of the program: few.
    private let windows = Guarded([String: Window](), rank: .leaf)
    private let configured: Atomic<Int>
    private let current: Atomic<Int>
    private let hasPriorities: Bool
    private let sink: @Sendable (String) -> Void
    private let clock: any TimeSource

    /// A log at `level`; `sink` gets each line with its line feed.
    init(
        level: LogLevel, hasPriorities: Bool = false, clock: any TimeSource = SystemClock(),
        sink: @escaping @Sendable (String) -> Void = { StandardStream.error.write($0) }
    ) {
        configured = Atomic(level.rank)
        current = Atomic(level.rank)
        self.hasPriorities = hasPriorities
        self.clock = clock
        self.sink = sink
    }

    /// Whether lines of `level` are written.
    @inline(__always)
    func isOn(_ level: LogLevel) -> Bool { level.rank <= current.load(ordering: .relaxed) }

    /// Changes the level, as the settings say.
    func setLevel(_ level: LogLevel) {
        configured.store(level.rank, ordering: .relaxed)
        current.store(level.rank, ordering: .relaxed)
    }

    /// Changes the level as a client's `verbosity` asks: 0 is back to the settings, never below them.
    func setVerbosity(_ verbosity: Int) {
        let base = configured.load(ordering: .relaxed)
        let wanted = verbosity <= 0 ? base : verbosity == 1 ? LogLevel.info.rank : LogLevel.debug.rank
        current.store(max(base, wanted), ordering: .relaxed)
    }

    /// memcached's number for the level: 0, 1 or 2.
    var verbosity: Int { max(0, current.load(ordering: .relaxed) - LogLevel.notice.rank) }

    /// Writes one event.
    ///
    /// Values with spaces or quotes are quoted.
    func write(_ level: LogLevel, _ event: String, _ fields: KeyValuePairs<String, String> = [:]) {
        guard isOn(level) else { return }
        guard let suppressed = admit(level, event) else { return }
        var line = hasPriorities ? "<\(level.priority)>" : "cache-daemon: \(level.rawValue): "
        line += event
        for (name, value) in fields { line += " \(name)=\(Self.quoted(value))" }
        if suppressed > 0 { line += " suppressed=\(suppressed)" }
        sink(line + "\n")
    }

    /// Whether the event may be written, and how many of its kind were left out before; nil if this one is left out.
    private func admit(_ level: LogLevel, _ event: String) -> Int? {
        // At debug the operator has asked for everything.
        if level == .debug { return 0 }
        let now = clock.now()
        return windows.withLock { windows in
            var window = windows[event] ?? Window(began: now)
            defer { windows[event] = window }
            if now >= window.began.advanced(byMilliseconds: Self.windowMilliseconds) {
                let suppressed = window.suppressed
                window = Window(began: now, written: 1)
                return suppressed
            }
            guard window.written < Self.linesPerWindowMax else {
                window.suppressed += 1
                return nil
            }
            window.written += 1
            return 0
        }
    }

    private static func quoted(_ value: String) -> String {
        let isPrintable = value.utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7F && $0 != 0x22 }
        if isPrintable { return value.isEmpty || value.utf8.contains(0x20) ? "\"\(value)\"" : value }
        var value = value
        // SAFETY: the bytes are read before the string goes.
        return "\"" + value.withUTF8 { unsafe escaped(UnsafeRawBufferPointer($0), bytesMax: 512) } + "\""
    }

    /// Client bytes for a log line: printable ASCII as it is, the rest as \xNN, cut after `bytesMax` bytes.
    static func escaped(_ bytes: UnsafeRawBufferPointer, bytesMax: Int = 64) -> String {
        var text = ""
        for byte in unsafe Array(bytes.prefix(bytesMax)) {
            if byte >= 0x20, byte < 0x7F, byte != 0x22, byte != 0x5C {
                text.unicodeScalars.append(Unicode.Scalar(byte))
            } else {
                let digits = String(byte, radix: 16)
                text += byte < 0x10 ? "\\x0\(digits)" : "\\x\(digits)"
            }
        }
        return bytes.count > bytesMax ? text + "..." : text
    }
}
