// The address of a Unix socket, as bind(2) and connect(2) take it; see unix(7).

import Glibc

/// The address of a Unix socket.
@safe
struct UnixAddress {
    private var raw = sockaddr_un()
    private let length: socklen_t

    /// The address of a path; nil if it does not fit.
    init?(_ path: String) { self.init(Array(path.utf8), length: socklen_t(MemoryLayout<sockaddr_un>.size)) }

    /// The address that a service manager gives: a path, or a name in the abstract namespace after `@`.
    init?(notifying address: String) {
        guard address.hasPrefix("@") else {
            self.init(address)
            return
        }
        let bytes = [0] + Array(address.utf8.dropFirst())
        // The length counts in the abstract namespace: trailing zeros would be part of the name.
        self.init(bytes, length: socklen_t(MemoryLayout<sa_family_t>.size + bytes.count))
    }

    private init?(_ bytes: [UInt8], length: socklen_t) {
        self.length = length
        raw.sun_family = sa_family_t(AF_UNIX)
        let capacity = MemoryLayout.size(ofValue: raw.sun_path)
        guard !bytes.isEmpty, bytes.count < capacity else { return nil }
        // SAFETY: one byte less than the array is copied; the rest stays zero.
        unsafe withUnsafeMutableBytes(of: &raw.sun_path) { unsafe $0.copyBytes(from: bytes) }
    }

    /// Calls bind(2) or connect(2) with the address.
    func call(_ fd: Int32, _ function: (Int32, UnsafePointer<sockaddr>, socklen_t) -> Int32) -> Int32 {
        // SAFETY: the pointer is used only during the call, with at most the size of what it points to.
        unsafe withUnsafePointer(to: raw) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { unsafe function(fd, $0, length) }
        }
    }
}
