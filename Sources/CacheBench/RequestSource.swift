// Which request comes next: the one place where the mix, the key distribution and the warming order are decided.
// Belongs to one thread.

/// The requests of one thread.
struct RequestSource: Sendable {
    /// One request; sets get their version when they are written.
    struct Next {
        let key: UInt32
        let isSet: Bool
    }

    private enum Mode {
        case uniform
        case zipf(Zipf)
        /// Sets of this thread's keys, one after another.
        case warm
    }

    private let mode: Mode
    private let setShare: UInt64
    private let shares: UInt64
    private let keys: UInt32
    private let threads: UInt32
    private let thread: UInt32
    private var warmKey: UInt32
    private var random: RandomSource
    /// Requests that no connection has reserved yet.
    private(set) var remaining: Int

    /// The mixed load of thread `thread`, `remaining` requests of it.
    init(load settings: BenchSettings, thread: Int, remaining: Int) {
        let mode: Mode =
            switch settings.distribution {
            case .uniform: .uniform
            case .zipf(let exponent): .zipf(Zipf(count: settings.keys, exponent: exponent))
            }
        self.init(mode, settings, thread, remaining)
    }

    /// One set of each key that thread `thread` writes.
    init(warm settings: BenchSettings, thread: Int) {
        self.init(.warm, settings, thread, (settings.keys - thread + settings.threads - 1) / settings.threads)
    }

    private init(_ mode: Mode, _ settings: BenchSettings, _ thread: Int, _ remaining: Int) {
        self.mode = mode
        setShare = UInt64(settings.setShare)
        shares = UInt64(settings.setShare + settings.getShare)
        keys = UInt32(settings.keys)
        threads = UInt32(settings.threads)
        self.thread = UInt32(thread)
        warmKey = UInt32(thread)
        random = RandomSource(seed: settings.seed, stream: UInt64(thread))
        self.remaining = remaining
    }

    /// Sets up to `most` requests aside for one connection, which may have to wait before it can write them all.
    @inline(__always)
    mutating func reserve(_ most: Int) -> Int {
        let count = min(most, remaining)
        remaining &-= count
        return count
    }

    /// The next request; `reserve` has set it aside.
    @inline(__always)
    mutating func next() -> Next {
        switch mode {
        case .uniform:
            let key = UInt32(truncatingIfNeeded: random.below(UInt64(keys)))
            return choose(key)
        case .zipf(let zipf):
            let key = UInt32(truncatingIfNeeded: zipf.rank(&random) &- 1)
            return choose(key)
        case .warm:
            let key = warmKey
            warmKey &+= threads
            return Next(key: key, isSet: true)
        }
    }

    @inline(__always)
    private mutating func choose(_ key: UInt32) -> Next {
        guard random.below(shares) < setShare else { return Next(key: key, isSet: false) }
        if threads == 1 { return Next(key: key, isSet: true) }
        // Sets go to the nearest key that this thread writes; see KeyStates.
        var own = key &- key % threads &+ thread
        if own >= keys { own &-= threads }
        return Next(key: own, isSet: true)
    }
}
