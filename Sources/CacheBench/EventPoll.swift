// Which of a thread's connections can move bytes: epoll(7), level-triggered. Belongs to one thread.

import CEpoll
import Glibc

/// Owns one epoll descriptor.
@safe
struct EventPoll: ~Copyable {
    /// What epoll says of one connection.
    struct Event {
        let index: Int
        let isReadable: Bool
        let isWritable: Bool
    }

    private let descriptor: Int32
    // SAFETY: room for `capacity` events, allocated in `init`, freed in deinit; the kernel fills no more than that.
    private let events: UnsafeMutablePointer<epoll_event>
    private static let capacity = 256

    init() {
        descriptor = epoll_create1(Int32(EPOLL_CLOEXEC))
        precondition(descriptor >= 0, "epoll_create1: errno \(errno)")
        unsafe events = .allocate(capacity: Self.capacity)
    }

    deinit {
        close(descriptor)
        unsafe events.deallocate()
    }

    /// Starts to watch a socket under an index of the caller's choice.
    ///
    /// Closing the socket ends it.
    func add(_ socket: Int32, index: Int) { control(EPOLL_CTL_ADD, socket, index, output: false) }

    /// Watches for room for output too, or no longer.
    func watch(_ socket: Int32, index: Int, output: Bool) { control(EPOLL_CTL_MOD, socket, index, output: output) }

    /// Waits up to `milliseconds` and returns the number of events.
    func wait(milliseconds: Int32) -> Int {
        let count = unsafe epoll_wait(descriptor, events, Int32(Self.capacity), milliseconds)
        precondition(count >= 0 || errno == EINTR, "epoll_wait: errno \(errno)")
        return max(Int(count), 0)
    }

    /// One event of the last wait.
    subscript(position: Int) -> Event {
        precondition(position >= 0 && position < Self.capacity)
        let event = unsafe events[position]
        let broken = EPOLLERR.rawValue | EPOLLHUP.rawValue
        return unsafe Event(
            index: Int(event.data.u32), isReadable: event.events & (EPOLLIN.rawValue | broken) != 0,
            isWritable: event.events & EPOLLOUT.rawValue != 0)
    }

    private func control(_ operation: Int32, _ socket: Int32, _ index: Int, output: Bool) {
        var event = unsafe epoll_event()
        unsafe event.events = EPOLLIN.rawValue | (output ? EPOLLOUT.rawValue : 0)
        unsafe event.data.u32 = UInt32(index)
        let result = unsafe epoll_ctl(descriptor, operation, socket, &event)
        precondition(result == 0, "epoll_ctl: errno \(errno)")
    }
}

/// Nanoseconds of CLOCK_MONOTONIC.
@inline(__always)
func monotonicNanoseconds() -> UInt64 {
    var time = timespec()
    unsafe clock_gettime(CLOCK_MONOTONIC, &time)
    return UInt64(time.tv_sec) &* 1_000_000_000 &+ UInt64(time.tv_nsec)
}
