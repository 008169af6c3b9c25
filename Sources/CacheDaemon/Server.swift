// Wiring of a daemon: what is opened in which order, what is closed in which order, and who accepts connections.
//
// Lives on the main thread: its loop accepts, takes signals, and waits. Connections are dealt out to the workers in
// turn. A server can also run inside a test, on a thread of the test's, without signals.

import CacheEngine
import Glibc
import Libevent
import Primitives
import Protocol
import Synchronization

/// Why a server did not start.
struct StartError: Error, CustomStringConvertible {
    /// The exit status, see sysexits.h.
    let status: Int32
    let description: String

    /// EX_TEMPFAIL: another daemon holds the directory.
    static let directoryInUseStatus: Int32 = 75
    /// EX_CONFIG: the settings cannot work here.
    static let configurationStatus: Int32 = 78
    /// EX_OSERR: the system refuses descriptors or addresses.
    static let systemStatus: Int32 = 71
}

/// A running daemon.
final class Server {
    let service: Service
    private let loop: EventLoop
    private let counters: Counters
    private let readSettings: () -> Settings?
    private var signals: Signals?
    private var sockets: [ListeningSocket] = []
    private var listeners: [Listener] = []
    private var workers: [WorkerThread] = []
    private var nextWorker = 0
    private var controlWatch: Watch?
    private var ticker: Timer?
    private var seenStopRequests = 0

    /// Addresses that are listened on, with the ports that the kernel chose.
    var addresses: [String] { sockets.map(\.address) }
    /// The port of the first TCP listener.
    var port: Int? { sockets.lazy.compactMap(\.port).first }

    // MARK: Start

    /// Opens everything, in this order; nothing stays open when it throws.
    ///
    /// - Parameters:
    ///   - handlesSignals: Whether SIGTERM, SIGINT and SIGHUP belong to this server.
    ///   - readSettings: Reads the settings again, for a reload; nil when they are wrong, which it has reported.
    init(
        _ settings: Settings, log: Log, control: ServerControl, handlesSignals: Bool,
        clock: any TimeSource = SystemClock(), readSettings: @escaping () -> Settings?
    ) throws(StartError) {
        var settings = settings
        settings.connectionsMax = Self.fittingConnections(settings.connectionsMax, log)
        loop = try Self.makeLoop()
        let authenticator = try Self.readAccounts(settings, clock)
        let cache = try Self.openCache(settings, log, clock)
        service = Service(
            cache: cache, settings: settings, log: log, control: control, authenticator: authenticator)
        authenticator?.start()
        counters = service.makeCounters()
        self.readSettings = readSettings
        do {
            sockets = try Self.listen(settings)
            if handlesSignals { signals = try Signals(loop: loop, control: control) }
            controlWatch = try control.wakeup.watch(on: loop) { [unowned self] in obey() }
            ticker = Timer(loop: loop) { [unowned self] in tick() }
            for number in 0..<settings.threads {
                workers.append(try WorkerThread.start(number: number, service: service))
            }
            for socket in sockets { listeners.append(try accept(socket)) }
        } catch {
            abandonStart()
            throw StartError(status: StartError.systemStatus, description: "\(error)")
        }
        announce(settings)
        tick()
    }

    /// Serves until stopped; returns the exit status.
    func run() -> Int32 {
        loop.run { service.workersEnded.load(ordering: .acquiring) == workers.count ? .stop : .wait }
        stopListening()
        for worker in workers { worker.thread.join() }
        // From here on a signal has its default effect: closing can take a while, and a kill loses nothing.
        signals = nil
        service.authenticator?.stop()
        service.cache.close()
        service.log.write(.notice, "stopped")
        return 0
    }

    /// Lowers the connection limit to what the system's limit on descriptors allows.
    private static func fittingConnections(_ wanted: Int, _ log: Log) -> Int {
        let fitting = ProcessSetup.raiseDescriptorLimit(connections: wanted)
        if fitting < wanted {
            log.write(
                .warning, "max_connections lowered",
                ["wanted": "\(wanted)", "now": "\(fitting)", "reason": "limit on open files, see ulimit -n"])
        }
        return fitting
    }

    private static func makeLoop() throws(StartError) -> EventLoop {
        do throws(EventLoopError) {
            return try EventLoop()
        } catch {
            throw StartError(status: StartError.systemStatus, description: "\(error)")
        }
    }

    private static func readAccounts(
        _ settings: Settings, _ clock: any TimeSource
    ) throws(StartError) -> Authenticator? {
        guard let path = settings.access.accountFile else { return nil }
        do throws(AuthFileError) {
            return try Authenticator(path: path, clock: clock)
        } catch {
            throw StartError(status: StartError.configurationStatus, description: "\(error)")
        }
    }

    private static func openCache(
        _ settings: Settings, _ log: Log, _ clock: any TimeSource
    ) throws(StartError) -> Cache {
        do throws(CacheError) {
            return try Cache.open(CacheOptions(settings), clock: clock) { state, reason in
                log.write(state == .ok ? .notice : .warning, "disk tier", ["state": "\(state)", "reason": reason])
            }
        } catch {
            switch error {
            case .directoryInUse:
                throw StartError(status: StartError.directoryInUseStatus, description: "\(error)")
            case .unusableDirectory, .invalidOption:
                throw StartError(status: StartError.configurationStatus, description: "\(error)")
            }
        }
    }

    private static func listen(_ settings: Settings) throws(ListenError) -> [ListeningSocket] {
        var sockets: [ListeningSocket] = []
        do throws(ListenError) {
            for address in settings.listen { sockets += try ListeningSocket.open(address) }
            if let path = settings.unixPath {
                sockets.append(try ListeningSocket.open(path: path, mode: settings.unixMode))
            }
        } catch {
            for socket in sockets { close(socket.fd) }
            throw error
        }
        return sockets
    }

    private func accept(_ socket: ListeningSocket) throws(EventLoopError) -> Listener {
        let isTCP = socket.path == nil
        return try Listener(
            loop: loop, fd: socket.fd,
            onConnection: { [unowned self] fd in take(fd, isTCP: isTCP) },
            onShortage: { [unowned self] code in
                counters.add(.listenPauses)
                service.log.write(.warning, "accepting paused", ["errno": "\(code)"])
            })
    }

    /// Closes what a failed start has opened.
    private func abandonStart() {
        for socket in sockets.dropFirst(listeners.count) { close(socket.fd) }
        stopListening()
        for worker in workers { worker.mailbox.post(.stop) }
        for worker in workers { worker.thread.join() }
        service.authenticator?.stop()
        service.cache.close()
    }

    private func announce(_ settings: Settings) {
        let log = service.log
        if !settings.optionsWithoutEffect.isEmpty {
            let names = settings.optionsWithoutEffect.joined(separator: ", ")
            log.write(.notice, "without effect", ["options": names])
        }
        for socket in sockets { log.write(.notice, "listening", ["address": socket.address]) }
        log.write(
            .notice, "memory tier",
            ["limit": "\(ByteSize(bytes: settings.memory.bytesMax))", "threads": "\(settings.threads)"])
        guard settings.disk.isEnabled else { return log.write(.notice, "disk tier", ["state": "off"]) }
        log.write(
            .notice, "disk tier",
            [
                "dir": settings.disk.directory, "limit": "\(ByteSize(bytes: settings.disk.bytesMax))",
                "durability": settings.disk.durability.rawValue, "start": service.cache.startReport ?? "",
            ])
    }

    // MARK: The clock

    /// What is done once a second.
    private func tick() {
        service.history.addSample(service)
        do throws(EventLoopError) {
            try ticker?.set(afterMilliseconds: History.intervalMilliseconds)
        } catch {
            service.log.write(.warning, "no timer for statistics", ["reason": "\(error)"])
        }
    }

    // MARK: Accepting

    /// Deals a new connection out to a worker, or refuses it over the limit.
    private func take(_ fd: Int32, isTCP: Bool) {
        guard service.connectionCount < service.connectionsMax else { return refuse(fd) }
        if isTCP {
            ListeningSocket.set(fd, Int32(IPPROTO_TCP), TCP_NODELAY)
            ListeningSocket.set(fd, SOL_SOCKET, SO_KEEPALIVE)
        }
        counters.add(.connectionsOpened)
        workers[nextWorker].mailbox.post(.connection(fd: fd))
        nextWorker = (nextWorker + 1) % workers.count
    }

    private func refuse(_ fd: Int32) {
        counters.add(.connectionsRejected)
        var line = ByteBuffer()
        line.append(.error(.tooManyConnections))
        // A fresh socket has room for a line; if not, the close says enough.
        // SAFETY: the line outlives the call.
        let bytes = unsafe line.readable
        _ = unsafe send(fd, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL))
        close(fd)
        service.log.write(.warning, "connection refused", ["max_connections": "\(service.connectionsMax)"])
    }

    // MARK: Stop and reload

    /// Does what other threads, or signals, asked for.
    private func obey() {
        let requests = service.control.stopRequests
        if requests > 0, seenStopRequests == 0 {
            service.log.write(.notice, "stopping")
            stopListening()
            for worker in workers { worker.mailbox.post(.drain) }
        }
        if requests > 1, seenStopRequests <= 1 {
            for worker in workers { worker.mailbox.post(.stop) }
        }
        seenStopRequests = requests
        if service.control.takeReload() { reload() }
    }

    private func stopListening() {
        listeners = []
        for path in sockets.compactMap(\.path) { unsafe unlink(path) }
        sockets = []
    }

    /// Reads the settings again; what is wrong, or cannot change while running, leaves everything as it is.
    private func reload() {
        guard let new = readSettings() else {
            return service.log.write(.error, "reload failed", ["settings": "unchanged"])
        }
        do throws(AuthFileError) {
            try service.authenticator?.reload()
        } catch {
            return service.log.write(
                .error, "reload failed", ["settings": "unchanged", "reason": error.description])
        }
        if service.authenticator != nil { for worker in workers { worker.mailbox.post(.accountsChanged) } }
        let reload = Reload(current: service.settings, new: new)
        var settings = reload.settings
        settings.connectionsMax = Self.fittingConnections(settings.connectionsMax, service.log)
        service.apply(settings)
        service.log.write(
            .notice, "reloaded",
            [
                "changed": reload.applied.joined(separator: ","),
                "needs_restart": reload.waiting.joined(separator: ","),
            ])
    }
}
