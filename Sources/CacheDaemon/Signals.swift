// What signals mean: SIGTERM, SIGINT and, as in memcached, SIGUSR1 stop (a second one at once), SIGHUP reads the
// settings again.

import Glibc
import Libevent

/// Watches the process's signals on the main thread's loop.
///
/// One per process.
struct Signals {
    private let watches: [SignalWatch]

    /// Starts watching.
    ///
    /// - Throws: `EventLoopError` when a signal cannot be caught.
    init(loop: EventLoop, control: ServerControl) throws(EventLoopError) {
        var watches: [SignalWatch] = []
        for number in [SIGTERM, SIGINT, SIGUSR1] {
            watches.append(try SignalWatch(loop: loop, signal: number) { control.requestStop() })
        }
        watches.append(try SignalWatch(loop: loop, signal: SIGHUP) { control.requestReload() })
        self.watches = watches
    }
}
