// What an expiry number of the wire means.
//
// Pure: the caller owns the clocks and turns an `Expiration` into a deadline. A time to live of n seconds ends n
// seconds after the request, not at the next tick of a whole-second clock.

/// When an entry stops being served, as the client asked for it.
public enum Expiration: Equatable, Sendable {
    /// Not by time.
    case never
    /// At once: the entry counts as stored, and the next read misses.
    case immediately
    /// After so many seconds, 1...2592000.
    case after(seconds: Int64)
    /// At a point in civil time, which may have passed already.
    case at(unixSeconds: Int64)

    /// Up to thirty days a number is a duration, above it is a date.
    public static let relativeSecondsMax: Int64 = 60 * 60 * 24 * 30

    /// Reads memcached's `exptime`: 0 is never, negative is at once, up to 30 days relative, else a Unix time.
    @inline(__always)
    public init(exptime: Int64) {
        if exptime == 0 {
            self = .never
        } else if exptime < 0 {
            self = .immediately
        } else if exptime <= Self.relativeSecondsMax {
            self = .after(seconds: exptime)
        } else {
            self = .at(unixSeconds: exptime)
        }
    }
}
