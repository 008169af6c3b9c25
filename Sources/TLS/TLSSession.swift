// One encrypted connection: a handshake, then bytes in and out, over a non-blocking socket that stays the caller's.
//
// Nothing here waits or loops for long: each call does what the socket allows now and says what to wait for. A write
// that would block must be tried again with the same bytes, or more of them; they may have moved. Owned by one thread
// at a time. See SSL_read(3ssl), SSL_write(3ssl) and SSL_get_error(3ssl).

internal import COpenSSL

/// What one step of a session came to.
public enum TLSStep: Equatable, Sendable {
    /// The handshake is over, or so many bytes moved.
    case moved(Int)
    /// Try again when the socket is readable.
    case wantsRead
    /// Try again when the socket is writable.
    case wantsWrite
    /// The peer has closed its side.
    case ended
    /// The peer breaks the protocol, or is not trusted; the session is of no use any more.
    case failed(String)
    /// The connection is gone; the reason is in `errno`, if there is one.
    case broken
}

/// One side of an encrypted connection.
@safe
public final class TLSSession: @unchecked Sendable {
    // Sendable by the owner's promise: one thread at a time calls it, as with the socket beneath.
    // SAFETY: made in init, freed in deinit; the context is kept by OpenSSL's own count.
    private let raw: OpaquePointer

    /// A session over `fd`, which must stay open while the session lives.
    ///
    /// A client says in `host` which name or numeric address the server's certificate must be for; nil checks only that
    /// an authority vouches for it. Nil when memory is refused, or `host` cannot be a name.
    public init?(_ context: TLSContext, fd: Int32, host: String? = nil) {
        guard let raw = unsafe copenssl_session_new(context.raw, fd, context.isServer ? 1 : 0) else { return nil }
        unsafe self.raw = unsafe raw
        if let host, unsafe copenssl_expect_host(raw, host) != 1 { return nil }
    }

    deinit { unsafe copenssl_session_free(raw) }

    /// Goes on with the handshake; `.moved` when it is over.
    public func shakeHands() -> TLSStep { step(unsafe copenssl_handshake(raw)) }

    /// Reads into `room`, which is not empty.
    public func read(into room: UnsafeMutableRawBufferPointer) -> TLSStep {
        step(unsafe copenssl_read(raw, room.baseAddress, UInt(room.count)))
    }

    /// Writes the front of `bytes`, at most one record of 16 KiB, if there is any.
    public func write(_ bytes: UnsafeRawBufferPointer) -> TLSStep {
        if unsafe bytes.isEmpty { return .moved(0) }
        return step(unsafe copenssl_write(raw, bytes.baseAddress, UInt(bytes.count)))
    }

    /// Whether bytes have left the socket that `read` did not give out yet; they may be part of a record only.
    public var hasPending: Bool { unsafe copenssl_has_pending(raw) != 0 }

    /// Tells the peer that nothing more comes, if the socket takes it now.
    public func sayGoodbye() { unsafe copenssl_say_goodbye(raw) }

    /// The protocol in use, such as `TLSv1.3`.
    public var version: String {
        // SAFETY: a constant string of the library's.
        unsafe String(cString: copenssl_version(raw))
    }

    private func step(_ result: Int) -> TLSStep {
        if result > 0 { return .moved(result) }
        switch result {
        case Int(COPENSSL_ENDED): return .ended
        case Int(COPENSSL_WANTS_READ): return .wantsRead
        case Int(COPENSSL_WANTS_WRITE): return .wantsWrite
        case Int(COPENSSL_BROKEN): return .broken
        default: return .failed(TLSContext.reason())
        }
    }
}
