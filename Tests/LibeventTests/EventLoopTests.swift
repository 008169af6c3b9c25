// The loop and what it watches, over pipes and socket pairs.

import Foundation
import Libevent
import Testing

/// Two connected, non-blocking descriptors.
private func makePair() -> (Int32, Int32) {
    var pair: [Int32] = [-1, -1]
    precondition(
        socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0, &pair) == 0)
    return (pair[0], pair[1])
}

@Suite("event loop")
struct EventLoopTests {
    @Test("a readable watch fires while bytes wait and is silent after stop")
    func readable() throws {
        let (near, far) = makePair()
        defer { close(near); close(far) }
        let loop = try EventLoop()
        var fired = 0
        let watch = Watch(loop: loop, fd: near, .readable) { fired += 1 }
        try watch.start()
        try watch.start()
        #expect(write(far, "x", 1) == 1)
        loop.run { fired < 3 ? .wait : .stop }
        #expect(fired == 3, "level-triggered: it fires each turn")
        watch.stop()
        var turns = 0
        loop.run {
            turns += 1; return turns < 3 ? .poll : .stop
        }
        #expect(fired == 3)
        #expect(!watch.isActive)
    }

    @Test("a writable watch fires at once on an empty socket")
    func writable() throws {
        let (near, far) = makePair()
        defer { close(near); close(far) }
        let loop = try EventLoop()
        var fired = 0
        let watch = Watch(loop: loop, fd: near, .writable) { fired += 1 }
        try watch.start()
        loop.run { .stop }
        #expect(fired == 1)
        withExtendedLifetime(watch) {}
    }

    @Test("a watch may die inside its own action, and never fires after")
    func deathInAction() throws {
        let (near, far) = makePair()
        defer { close(near); close(far) }
        let loop = try EventLoop()
        var watch: Watch?
        var fired = 0
        watch = Watch(loop: loop, fd: near, .readable) {
            fired += 1
            watch = nil
        }
        try watch?.start()
        #expect(write(far, "x", 1) == 1)
        loop.run { .stop }
        var turns = 0
        loop.run {
            turns += 1; return turns < 3 ? .poll : .stop
        }
        #expect(fired == 1)
    }

    @Test("one watch may kill another that is ready in the same turn")
    func deathOfNeighbour() throws {
        let (a, b) = makePair()
        let (c, d) = makePair()
        defer { for fd in [a, b, c, d] { close(fd) } }
        let loop = try EventLoop()
        var watches: [Watch] = []
        var fired = 0
        for fd in [a, c] {
            watches.append(
                Watch(loop: loop, fd: fd, .readable) {
                    fired += 1; watches = []
                })
        }
        for watch in watches { try watch.start() }
        #expect(write(b, "x", 1) == 1)
        #expect(write(d, "x", 1) == 1)
        loop.run { .stop }
        var turns = 0
        loop.run {
            turns += 1; return turns < 3 ? .poll : .stop
        }
        #expect(fired == 1)
    }

    @Test("timers fire once, in order of their times; a cancelled one never does")
    func timers() throws {
        let loop = try EventLoop()
        var order: [Int] = []
        let late = Timer(loop: loop) { order.append(2) }
        let early = Timer(loop: loop) { order.append(1) }
        let cancelled = Timer(loop: loop) { order.append(0) }
        try late.set(afterMilliseconds: 30)
        try early.set(afterMilliseconds: 5)
        try cancelled.set(afterMilliseconds: 1)
        cancelled.cancel()
        loop.run { order.count < 2 ? .wait : .stop }
        #expect(order == [1, 2])
        withExtendedLifetime((late, early, cancelled)) {}
    }

    @Test("poll does not sleep")
    func poll() throws {
        let loop = try EventLoop()
        var turns = 0
        let first = Timer(loop: loop) {}
        try first.set(afterMilliseconds: 0)
        // After the timer there is nothing to wait for: a sleeping turn would never end.
        loop.run {
            turns += 1
            return turns < 5 ? .poll : .stop
        }
        #expect(turns == 5)
    }

    @Test("wakes from another thread are never lost, and bursts are one")
    func wakeup() throws {
        let loop = try EventLoop()
        let wakeup = try Wakeup()
        let count = LockedCount()
        var wakes = 0
        var seen = 0
        let watch = try wakeup.watch(on: loop) {
            wakes += 1
            seen = count.value
        }
        let total = 20_000
        let thread = Thread {
            for _ in 0..<total {
                count.increment()
                wakeup.signal()
            }
        }
        thread.start()
        // Ends only if the wake after the last increment arrives.
        loop.run { seen < total ? .wait : .stop }
        #expect(wakes >= 1 && wakes <= total)
        for _ in 0..<1000 { wakeup.signal() }
        let before = wakes
        var turns = 0
        loop.run {
            turns += 1; return turns < 3 ? .poll : .stop
        }
        #expect(wakes == before + 1)
        withExtendedLifetime(watch) {}
    }

    @Test("a foreign thread is refused")
    func foreignThread() async {
        await #expect(processExitsWith: .failure) {
            let loop = try EventLoop()
            nonisolated(unsafe) let smuggled = loop
            let thread = Thread {
                smuggled.preconditionOnThread(); exit(0)
            }
            thread.start()
            while true { pause() }
        }
    }

    @Test("a signal runs its action on the loop")
    func signals() async {
        await #expect(processExitsWith: .exitCode(7)) {
            let loop = try EventLoop()
            var got = 0
            let watch = try SignalWatch(loop: loop, signal: SIGUSR2) { got += 1 }
            kill(getpid(), SIGUSR2)
            loop.run { got == 0 ? .wait : .stop }
            withExtendedLifetime(watch) {}
            exit(7)
        }
    }
}

/// A counter for two threads.
private final class LockedCount: @unchecked Sendable {
    // `lock` guards `count`.
    private let lock = NSLock()
    private var count = 0
    var value: Int { lock.withLock { count } }
    func increment() { lock.withLock { count += 1 } }
}
