// `top`: the state of a server on the whole screen, drawn anew every second, until q or Ctrl-C.
//
// The terminal's other screen is used, so that what was there comes back at the end. The size is asked for before each
// drawing: a window that changes its size is filled again within a second. Keys come one by one (no line discipline),
// and Ctrl-C is one of them, so that the terminal is always left as it was found. See termios(3) and ioctl_tty(2).

import CacheClient
import Glibc
import Primitives

/// The live page.
struct Top {
    /// What is kept for the curves.
    private static let samplesMax = 240

    let source: Source
    let settings: StatsSettings
    private let output = StandardStream.output

    init(source: Source, settings: StatsSettings) {
        self.source = source
        self.settings = settings
    }

    /// Draws until the person leaves.
    func run() -> Int32 {
        let terminal = Terminal()
        defer { terminal.restore() }
        output.write("\u{1B}[?1049h\u{1B}[?25l")
        defer { output.write("\u{1B}[?25h\u{1B}[?1049l") }
        var page = TopPage(address: settings.address, usesColor: output.takesColor)
        var shown = 0
        while true {
            do throws(ClientError) {
                page.take(
                    try source.sample(), windows: try source.optional("windows"),
                    latency: try source.optional("latency"), hot: try source.optional("hot"))
            } catch {
                if shown == 0 {
                    StandardStream.error.write("cache-stats: \(error)\n")
                    return EX_UNAVAILABLE
                }
                source.disconnect()
                page.fail("\(error)")
            }
            let size = Terminal.size
            let lines = page.lines(width: size.columns, height: size.rows)
            // Each line erases what was behind it: no flicker.
            output.write("\u{1B}[H" + lines.joined(separator: "\u{1B}[K\r\n") + "\u{1B}[K\u{1B}[J")
            shown += 1
            if shown == settings.samples || terminal.waitForLeave(settings.intervalMilliseconds ?? 1000) {
                return EXIT_SUCCESS
            }
        }
    }
}

/// A terminal whose keys come one by one.
struct Terminal {
    private let before: termios?

    /// Changes the terminal on standard input, if there is one.
    init() {
        var state = termios()
        // SAFETY: the struct lives until the calls return.
        guard unsafe tcgetattr(STDIN_FILENO, &state) == 0 else {
            before = nil
            return
        }
        before = state
        state.c_lflag &= ~tcflag_t(ICANON | ECHO | ISIG)
        unsafe tcsetattr(STDIN_FILENO, TCSANOW, &state)
    }

    /// Leaves the terminal as it was.
    func restore() {
        guard var before else { return }
        unsafe tcsetattr(STDIN_FILENO, TCSANOW, &before)
    }

    /// Waits; true when a person wants to leave.
    func waitForLeave(_ milliseconds: Int) -> Bool {
        guard before != nil else {
            _ = poll(nil, 0, Int32(clamping: milliseconds))
            return false
        }
        var watched = pollfd(fd: STDIN_FILENO, events: Int16(POLLIN), revents: 0)
        // SAFETY: both live until the calls return.
        guard unsafe poll(&watched, 1, Int32(clamping: milliseconds)) > 0 else { return false }
        var keys = [UInt8](repeating: 0, count: 64)
        let count = unsafe read(STDIN_FILENO, &keys, keys.count)
        // q, Q, Ctrl-C, Ctrl-D, or nobody there any more.
        return count <= 0 || keys[..<count].contains { [113, 81, 3, 4].contains($0) }
    }

    /// Columns and rows of the terminal on standard output; 80 by 24 where nobody knows.
    static var size: (columns: Int, rows: Int) {
        var size = winsize()
        guard unsafe ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0 else {
            return (80, 24)
        }
        return (Int(size.ws_col), Int(size.ws_row))
    }
}
