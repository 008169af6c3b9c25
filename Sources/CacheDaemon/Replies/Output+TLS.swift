// Sending replies through TLS: bytes and referenced values become records of at most 16 KiB.
//
// OpenSSL encrypts into a buffer of its own, so nothing is saved by passing vectors: small parts are put together to
// one record first, or each would cost a header, a checksum and a system call. A write that the socket refuses is
// repeated later with the same bytes, because the front of an output does not change until it was sent.

import Glibc
import Primitives
import TLS

extension Output {
    /// Plain bytes in one record of TLS, at most; see RFC 8446, 5.1.
    static let recordBytes = 16 << 10

    /// Sends what the socket takes.
    mutating func send(through tls: TLSSession, _ vectors: borrowing SendVectors) -> SendOutcome {
        var sent = 0
        while !isEmpty {
            switch sendRecord(tls, vectors) {
            case .moved(let count):
                consume(count)
                sent += count
            case .wantsRead, .wantsWrite: return sent > 0 ? .sent(sent) : .full
            case .ended, .failed, .broken: return .failed
            }
        }
        return .sent(sent)
    }

    private func sendRecord(_ tls: TLSSession, _ vectors: borrowing SendVectors) -> TLSStep {
        if references.isEmpty { return unsafe tls.write(bytes.readable) }
        let count = unsafe fill(vectors.memory)
        // SAFETY: the vectors point into this output, which does not change during the call; copies stay within the
        // record's bounds.
        let first = unsafe vectors.memory[0]
        if unsafe first.iov_len >= Self.recordBytes {
            return unsafe tls.write(UnsafeRawBufferPointer(start: first.iov_base, count: first.iov_len))
        }
        var filled = 0
        for index in 0..<count {
            let vector = unsafe vectors.memory[index]
            let part = unsafe min(vector.iov_len, Self.recordBytes - filled)
            guard part > 0, let source = unsafe vector.iov_base else { break }
            unsafe vectors.record.baseAddress?.advanced(by: filled).copyMemory(from: source, byteCount: part)
            filled += part
        }
        return unsafe tls.write(UnsafeRawBufferPointer(rebasing: vectors.record[..<filled]))
    }
}
