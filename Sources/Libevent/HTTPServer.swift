// A small HTTP server on a loop, over libevent's evhttp: GET and HEAD, one answer per request, made at once.
//
// What is served is the owner's business. Meant for a port of the administrator's on a thread of its own: nothing here
// limits how many connect, but a silent connection is closed, and requests are bounded in size. Belongs to its loop's
// thread.

internal import CLibevent
internal import Glibc
internal import Primitives

/// What a client asks for.
public struct HTTPRequest: Sendable {
    /// Before the question mark, as sent.
    public let path: String
    /// After the question mark, as sent; empty without one.
    public let query: String
    /// The host that the client believes to speak to, with its port as sent; nil if it does not say.
    public let host: String?

    /// Splits a request's target.
    public init(target: String, host: String? = nil) {
        self.host = host
        let parts = target.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        path = String(parts.first ?? "")
        query = parts.count > 1 ? String(parts[1]) : ""
    }

    /// The whole number that a parameter of the query has; nil if there is none.
    public func integer(_ name: String) -> Int64? {
        for pair in query.split(separator: "&") where pair.hasPrefix("\(name)=") {
            return Int64(pair.dropFirst(name.utf8.count + 1))
        }
        return nil
    }
}

/// What the server answers.
public struct HTTPResponse: Sendable {
    /// The status code, such as 200.
    public var status: Int
    /// The media type of the body.
    public var type: String
    /// The body, in UTF-8.
    public var body: String
    /// Names and values of more headers.
    public var headers: [(String, String)]

    /// An answer; `headers` are sent beside those of type and length.
    public init(status: Int = 200, type: String, body: String, headers: [(String, String)] = []) {
        self.status = status
        self.type = type
        self.body = body
        self.headers = headers
    }

    /// The status in words, see RFC 9110.
    fileprivate var reason: String {
        switch status {
        case 200: "OK"
        case 404: "Not Found"
        case 421: "Misdirected Request"
        case 503: "Service Unavailable"
        default: "Status"
        }
    }
}

/// Answers HTTP requests on the sockets that it was given.
@safe
public final class HTTPServer {
    /// How long a connection may be silent.
    public static let silenceSecondsMax: Int32 = 15

    // SAFETY: made in init, freed in deinit before the loop that it holds; libevent calls back only in between, on the
    // loop's thread, with a pointer to this object, which lives then.
    private var http: OpaquePointer?
    private let loop: EventLoop
    private let answer: (HTTPRequest) -> HTTPResponse

    /// Starts to answer.
    ///
    /// Takes over `sockets`, which are bound, listening and non-blocking, also when it throws.
    ///
    /// - Throws: `EventLoopError` when memory is refused.
    public init(
        loop: EventLoop, sockets: [Int32], answer: @escaping (HTTPRequest) -> HTTPResponse
    ) throws(EventLoopError) {
        loop.preconditionOnThread()
        self.loop = loop
        self.answer = answer
        let argument = unsafe Unmanaged.passUnretained(self).toOpaque()
        let http = unsafe clibevent_http_new(
            loop.base, Self.silenceSecondsMax, { request, argument in unsafe answerRequest(request, argument) },
            argument)
        unsafe self.http = http
        var rest = sockets[...]
        while let http = unsafe http, let fd = rest.first {
            guard unsafe clibevent_http_accept(http, fd) == 0 else { break }
            rest = rest.dropFirst()
        }
        if unsafe http != nil, rest.isEmpty { return }
        for fd in rest { close(fd) }
        throw EventLoopError(operation: "evhttp", code: ENOMEM)
    }

    deinit {
        loop.preconditionOnThread()
        if let http = unsafe http { unsafe clibevent_http_free(http) }
    }

    fileprivate func serve(_ request: OpaquePointer) {
        // SAFETY: target and host are copied at once; libevent gives NULL for none.
        let target = unsafe clibevent_request_target(request).map { pointer in unsafe String(cString: pointer) } ?? ""
        let host = unsafe clibevent_request_host(request).map { pointer in unsafe String(cString: pointer) }
        let response = answer(HTTPRequest(target: target, host: host))
        var body = response.body
        let headers = [("Content-Type", response.type)] + response.headers
        var copies: [UnsafeMutablePointer<CChar>?] = unsafe []
        for (name, value) in headers {
            unsafe copies.append(strdup(name))
            unsafe copies.append(strdup(value))
        }
        // SAFETY: the copies and the body outlive the call, which copies them; a refused copy ends the list early.
        defer { unsafe copies.forEach { unsafe free($0) } }
        var pointers = unsafe copies.map { unsafe UnsafePointer($0) }
        unsafe pointers.append(nil)
        body.withUTF8 { bytes in
            unsafe clibevent_request_reply(
                request, Int32(response.status), response.reason, pointers, bytes.baseAddress, UInt(bytes.count))
        }
    }
}

/// libevent's callback: `argument` is the server.
private func answerRequest(_ request: OpaquePointer?, _ argument: UnsafeMutableRawPointer?) {
    guard let request = unsafe request, let argument = unsafe argument else { return }
    // SAFETY: the server frees libevent's part in its deinit, so it lives now.
    unsafe Unmanaged<HTTPServer>.fromOpaque(argument).takeUnretainedValue().serve(request)
}
