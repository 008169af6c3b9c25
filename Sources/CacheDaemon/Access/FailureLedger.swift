// How often clients of one address failed to authenticate lately, and how long their next refusal takes.
//
// A plain value without a clock: its owner says what time it is. Bounded: when too many addresses fail at once, the
// newest of them share one account of failures.

import Glibc
import Primitives

/// Counts failures by address.
struct FailureLedger {
    /// The first refusal takes so long, each further one twice as long as the one before.
    static let firstDelayMilliseconds: Int64 = 250
    static let delayMillisecondsMax: Int64 = 8000
    /// Failures are forgotten when none came for so long.
    static let memoryMilliseconds: Int64 = 120_000
    /// Addresses that are told apart.
    static let addressesMax = 4096

    private struct Failures {
        var count = 0
        var last: Instant
    }

    private var failures: [String: Failures] = [:]

    /// Addresses with failures that are not forgotten yet.
    var addressCount: Int { failures.count }

    /// Notes a failure; returns the milliseconds that its refusal is to be held back.
    mutating func fail(_ address: String, now: Instant) -> Int64 {
        if failures[address] == nil, failures.count >= Self.addressesMax {
            failures = failures.filter { !Self.isOver($0.value, now) }
        }
        let name = failures[address] == nil && failures.count >= Self.addressesMax ? "" : address
        var entry = failures[name] ?? Failures(last: now)
        if Self.isOver(entry, now) { entry.count = 0 }
        entry.count += 1
        entry.last = now
        failures[name] = entry
        let doublings = min(entry.count - 1, 20)
        return min(Self.firstDelayMilliseconds << Int64(doublings), Self.delayMillisecondsMax)
    }

    private static func isOver(_ failures: Failures, _ now: Instant) -> Bool {
        now > failures.last.advanced(byMilliseconds: memoryMilliseconds)
    }

    /// The part of a numeric address that one client can hardly change: all of an IPv4 one, the network of an IPv6 one.
    static func network(of host: String) -> String {
        var address = in6_addr()
        // SAFETY: inet_pton(3) reads the C string and fills the struct; both live until it returns.
        guard unsafe inet_pton(AF_INET6, String(host.prefix { $0 != "%" }), &address) == 1 else { return host }
        let bytes = unsafe withUnsafeBytes(of: &address) { unsafe Array($0) }
        // An IPv4 address in IPv6's clothes.
        if bytes.prefix(12).elementsEqual([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255]) { return host }
        return bytes.prefix(8).map { String($0, radix: 16) }.joined(separator: ":") + "::"
    }
}
