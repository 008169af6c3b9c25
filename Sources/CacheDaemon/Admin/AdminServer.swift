// The admin thread: HTTP for dashboards, scrapers and probes, on a socket of its own.
//
//     /  the dashboard      /metrics  OpenMetrics      /stats.json  everything      /healthz  /readyz  probes
//
// Read-only: nothing can be changed here. The thread has its own loop and may wait for locks; workers never wait for
// it. It lives from the start of the server until the workers have ended, so that a probe can see the stop.

import CacheEngine
import Glibc
import Libevent
import Primitives

/// What answers requests of administrators.
struct AdminPages: Sendable {
    let service: Service
    private let hosts: HostCheck

    init(service: Service) {
        self.service = service
        hosts = HostCheck(service.settings.admin)
    }

    /// The answer to a request.
    func answer(_ request: HTTPRequest) -> HTTPResponse {
        guard hosts.allows(request.host) else {
            return HTTPResponse(
                status: 421, type: "text/plain; charset=utf-8", body: "ask for it as localhost, or by address\n")
        }
        return switch request.path {
        case "/": page(DashboardHTML.text, "text/html; charset=utf-8")
        case "/dashboard.css": page(DashboardStyle.text, "text/css; charset=utf-8")
        case "/dashboard.js": page(DashboardScript.text, "text/javascript; charset=utf-8")
        case "/metrics": fresh(MetricsText.make(MetricsSnapshot(service)), MetricsText.type)
        case "/stats.json":
            fresh(StatsDocument.make(service, since: request.integer("since")), "application/json")
        // The process answers: that is all there is to say.
        case "/healthz": fresh("ok\n", "text/plain; charset=utf-8")
        case "/readyz": readiness
        default:
            HTTPResponse(status: 404, type: "text/plain; charset=utf-8", body: "try / or /metrics\n")
        }
    }

    /// Whether clients are served: 503 from the moment that the daemon stops.
    private var readiness: HTTPResponse {
        let isStopping = service.control.stopRequests > 0
        let disk = service.cache.statistics().disk.map { "\($0.state)" } ?? "off"
        var response = fresh("\(isStopping ? "stopping" : "ready") disk=\(disk)\n", "text/plain; charset=utf-8")
        if isStopping { response.status = 503 }
        return response
    }

    private func fresh(_ body: String, _ type: String) -> HTTPResponse {
        HTTPResponse(type: type, body: body, headers: [("Cache-Control", "no-store"), Self.noSniffing])
    }

    private func page(_ body: String, _ type: String) -> HTTPResponse {
        let policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:"
        return HTTPResponse(
            type: type, body: body,
            headers: [
                ("Cache-Control", "no-cache"), ("Content-Security-Policy", policy),
                ("Referrer-Policy", "no-referrer"), ("X-Frame-Options", "DENY"), Self.noSniffing,
            ])
    }

    private static let noSniffing = ("X-Content-Type-Options", "nosniff")
}

/// The thread that serves the pages.
struct AdminThread: Sendable {
    private let stop: Wakeup
    private let thread: OSThread

    /// Starts the thread, which takes over `sockets`.
    ///
    /// - Throws: `EventLoopError` when the kernel refuses a descriptor; the sockets are closed then.
    static func start(_ sockets: [Int32], _ service: Service) throws(EventLoopError) -> AdminThread {
        let stop: Wakeup
        do throws(EventLoopError) {
            stop = try Wakeup()
        } catch {
            for fd in sockets { close(fd) }
            throw error
        }
        let thread = OSThread(name: "admin") {
            do throws(EventLoopError) {
                try run(sockets, service, until: stop)
            } catch {
                service.log.write(.error, "admin port failed", ["reason": "\(error)"])
            }
        }
        return AdminThread(stop: stop, thread: thread)
    }

    private static func run(_ sockets: [Int32], _ service: Service, until stop: Wakeup) throws(EventLoopError) {
        let loop: EventLoop
        do throws(EventLoopError) {
            loop = try EventLoop()
        } catch {
            for fd in sockets { close(fd) }
            throw error
        }
        let pages = AdminPages(service: service)
        let server = try HTTPServer(loop: loop, sockets: sockets) { pages.answer($0) }
        var isStopped = false
        let watch = try stop.watch(on: loop) { isStopped = true }
        loop.run { isStopped ? .stop : .wait }
        watch.stop()
        withExtendedLifetime(server) {}
    }

    /// Ends the thread and waits for its end.
    func end() {
        stop.signal()
        thread.join()
    }
}
