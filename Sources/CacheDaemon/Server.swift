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
import TLS

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
    private var lastConnection: UInt32 = 0
    private var adminSockets: [ListeningSocket] = []
    private var admin: AdminThread?
    /// Whether the admin thread has not taken its sockets over yet.
    private var ownsAdminSockets = true
    private var controlWatch: Watch?
    private var ticker: Timer?
    private let notifier: Notifier
    private var lastStatus = ""
    private var watchdog: Timer?
    /// Answers of workers that are due before the manager hears that the daemon lives.
    private var pongsDue = 0
    private var seenStopRequests = 0
    var hasReportedWarmUp = false
    /// How much memory the control group leaves.
    var allowance: MemoryAllowance

    /// Addresses that are listened on, with the ports that the kernel chose.
    var addresses: [String] { sockets.map(\.address) }
    /// Addresses that administrators are served on.
    var adminAddresses: [String] { adminSockets.map(\.address) }
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
        clock: any TimeSource = SystemClock(), notifier: Notifier = .none,
        inherited: InheritedSockets = InheritedSockets(), readSettings: @escaping () -> Settings?
    ) throws(StartError) {
        var settings = settings
        settings.connectionsMax = Self.fittingConnections(settings, log)
        loop = try Self.makeLoop()
        let authenticator = try Self.readAccounts(settings, clock)
        let encryption = try Self.encryption(settings)
        let watchers = WatchHub()
        allowance = Self.allowance(settings, log)
        let cache = try Self.openCache(settings, allowance, log, clock, watchers)
        service = Service(
            cache: cache, settings: settings, log: log, control: control, watchers: watchers,
            authenticator: authenticator)
        authenticator?.start()
        service.allowMemory(bytes: allowance.bytes)
        service.encrypt(with: encryption)
        counters = service.makeCounters()
        self.readSettings = readSettings
        self.notifier = notifier
        do {
            sockets = inherited.clients.isEmpty ? try Self.listen(settings) : inherited.clients
            adminSockets = inherited.admin.isEmpty ? try Self.listenForAdministrators(settings) : inherited.admin
            if handlesSignals { signals = try Signals(loop: loop, control: control) }
            controlWatch = try control.wakeup.watch(on: loop) { [unowned self] in obey() }
            ticker = Timer(loop: loop) { [unowned self] in tick() }
            for number in 0..<settings.threads {
                workers.append(try WorkerThread.start(number: number, service: service))
            }
            for socket in sockets { listeners.append(try accept(socket)) }
            if !adminSockets.isEmpty {
                let descriptors = adminSockets.map(\.fd)
                ownsAdminSockets = false
                admin = try AdminThread.start(descriptors, service)
            }
        } catch {
            abandonStart()
            throw StartError(status: StartError.systemStatus, description: "\(error)")
        }
        announce(settings)
        tick()
        startWatchdog()
        notifier.ready(status)
    }

    /// Serves until stopped; returns the exit status.
    func run() -> Int32 {
        loop.run { service.workersEnded.load(ordering: .acquiring) == workers.count ? .stop : .wait }
        stopListening()
        for worker in workers { worker.thread.join() }
        // From here on a signal has its default effect: closing can take a while, and a kill loses nothing.
        signals = nil
        endAdmin()
        service.authenticator?.stop()
        service.cache.close()
        service.log.write(.notice, "stopped")
        return service.isCrippled ? StartError.systemStatus : 0
    }

    /// Lowers the connection limit to what the system's limit on descriptors allows.
    private static func fittingConnections(_ settings: Settings, _ log: Log) -> Int {
        let wanted = settings.connectionsMax
        let others = settings.threads * 4 + (settings.disk.isEnabled ? 16 + settings.disk.readers * 4 : 0)
        let fitting = ProcessSetup.raiseDescriptorLimit(connections: wanted, others: others)
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

    /// What encrypts connections, as the settings say.
    private static func encryption(_ settings: Settings) throws(StartError) -> TLSContext? {
        do throws(TLSError) {
            return try TLSContext.make(settings.tls)
        } catch {
            throw StartError(status: StartError.configurationStatus, description: "\(error)")
        }
    }

    private static func openCache(
        _ settings: Settings, _ allowance: MemoryAllowance, _ log: Log, _ clock: any TimeSource, _ watchers: WatchHub
    ) throws(StartError) -> Cache {
        do throws(CacheError) {
            let options = CacheOptions(settings, memoryAllowance: allowance.bytes)
            return try Cache.open(options, clock: clock) { state, reason in
                log.write(state == .ok ? .notice : .warning, "disk tier", ["state": "\(state)", "reason": reason])
                watchers.publishDiskState("\(state)", reason: reason, clock)
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

    private static func listenForAdministrators(_ settings: Settings) throws(ListenError) -> [ListeningSocket] {
        switch settings.admin {
        case nil: []
        case .tcp(let address): try ListeningSocket.open(address)
        case .unix(let path): [try ListeningSocket.open(path: path, mode: settings.unixMode)]
        }
    }

    private func endAdmin() {
        admin?.end()
        admin = nil
        for socket in adminSockets {
            if ownsAdminSockets { close(socket.fd) }
            socket.removeFile()
        }
        adminSockets = []
    }

    private func accept(_ socket: ListeningSocket) throws(EventLoopError) -> Listener {
        let isTCP = socket.port != nil
        let isPlain = socket.isPlain
        return try Listener(
            loop: loop, fd: socket.fd,
            onConnection: { [unowned self] fd in take(fd, isTCP: isTCP, isPlain: isPlain) },
            onShortage: { [unowned self] code in
                counters.add(.listenPauses)
                service.log.write(.warning, "accepting paused", ["errno": "\(code)"])
            })
    }

    /// Closes what a failed start has opened.
    private func abandonStart() {
        for socket in sockets.dropFirst(listeners.count) { close(socket.fd) }
        stopListening()
        endAdmin()
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
        for socket in adminSockets { log.write(.notice, "admin port", ["address": socket.address]) }
        log.write(
            .notice, "memory tier",
            ["limit": "\(ByteSize(bytes: allowance.bytes))", "threads": "\(settings.threads)"])
        guard settings.disk.isEnabled else { return log.write(.notice, "disk tier", ["state": "off"]) }
        let start = service.cache.startReport ?? ""
        log.write(
            start.hasPrefix("store quarantined") ? .warning : .notice, "disk tier",
            [
                "dir": settings.disk.directory, "limit": "\(ByteSize(bytes: settings.disk.bytesMax))",
                "durability": settings.disk.durability.rawValue, "start": start,
            ])
    }

    // MARK: The clock

    /// What is done once a second.
    private func tick() {
        service.history.addSample(service)
        reportWarmUp()
        followControlGroup()
        if notifier.isOn, seenStopRequests == 0, status != lastStatus {
            lastStatus = status
            notifier.status(lastStatus)
        }
        do throws(EventLoopError) {
            try ticker?.set(afterMilliseconds: History.intervalMilliseconds)
        } catch {
            service.log.write(.warning, "no timer for statistics", ["reason": "\(error)"])
        }
    }

    /// Tells the service manager that the daemon lives, as long as every worker answers.
    private func startWatchdog() {
        guard let period = notifier.watchdogMilliseconds else { return }
        watchdog = Timer(loop: loop) { [unowned self] in beat(period) }
        beat(period)
    }

    private func beat(_ period: Int64) {
        if service.pongs.load(ordering: .relaxed) >= pongsDue, seenStopRequests == 0 {
            notifier.alive()
            pongsDue += workers.count
            for worker in workers { worker.mailbox.post(.ping) }
        }
        do throws(EventLoopError) {
            try watchdog?.set(afterMilliseconds: max(1, period / 3))
        } catch {
            service.log.write(.warning, "no timer for the watchdog", ["reason": "\(error)"])
        }
    }

    // MARK: Accepting

    /// Deals a new connection out to a worker, or refuses it over the limit.
    private func take(_ fd: Int32, isTCP: Bool, isPlain: Bool) {
        guard service.connectionCount < service.connectionsMax else { return refuse(fd) }
        if isTCP {
            ListeningSocket.set(fd, Int32(IPPROTO_TCP), TCP_NODELAY)
            ListeningSocket.set(fd, SOL_SOCKET, SO_KEEPALIVE)
        }
        counters.add(.connectionsOpened)
        lastConnection &+= 1
        let tls = isPlain ? nil : service.encryptionInForce.context
        workers[nextWorker].mailbox.post(.connection(fd: fd, id: lastConnection, tls: tls))
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
            notifier.stopping()
            stopListening()
            for worker in workers { worker.mailbox.post(.drain) }
        }
        if requests > 1, seenStopRequests <= 1 {
            for worker in workers { worker.mailbox.post(.stop) }
        }
        seenStopRequests = requests
        if service.control.takeReload() {
            notifier.reloading(microseconds: SystemClock.monotonicMicroseconds())
            reload()
            notifier.ready(status)
        }
    }

    private func stopListening() {
        listeners = []
        for socket in sockets { socket.removeFile() }
        sockets = []
    }

    /// Reads the settings again; what is wrong, or cannot change while running, leaves everything as it is.
    private func reload() {
        guard let new = readSettings() else {
            return service.log.write(.error, "reload failed", ["settings": "unchanged"])
        }
        let encryption: TLSContext?
        do throws(TLSError) {
            encryption = try TLSContext.make(new.tls)
        } catch {
            return service.log.write(
                .error, "reload failed", ["settings": "unchanged", "reason": error.description])
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
        // Addresses wait for a restart: those in force must not lose what protects them.
        guard settings.exposedAddresses.isEmpty else {
            return service.log.write(
                .error, "reload failed", ["settings": "unchanged", "exposed": "\(settings.exposedAddresses[0])"])
        }
        service.encrypt(with: encryption)
        settings.connectionsMax = Self.fittingConnections(settings, service.log)
        service.apply(settings)
        service.waitingForRestart = reload.waiting
        service.log.write(
            .notice, "reloaded",
            [
                "changed": reload.applied.joined(separator: ","),
                "needs_restart": reload.waiting.joined(separator: ","),
            ])
    }
}
