// A named pthread that runs one closure and can be joined.

import Glibc

/// One operating-system thread.
@safe
public final class OSThread: Sendable {
    // SAFETY: written once by `start`, read once by `join`; pthread_t is an opaque id.
    nonisolated(unsafe) private var id = pthread_t()
    private let name: String

    private final class Body: Sendable {
        let name: String
        let run: @Sendable () -> Void
        init(name: String, run: @escaping @Sendable () -> Void) {
            self.name = name
            self.run = run
        }
    }

    /// Starts a thread called `name` (the kernel keeps 15 bytes) that runs `body`.
    ///
    /// All signals are blocked in it: signals belong to the main thread.
    public init(name: String, _ body: @escaping @Sendable () -> Void) {
        self.name = name
        let box = unsafe Unmanaged.passRetained(Body(name: name, run: body))
        var all = sigset_t()
        var before = sigset_t()
        unsafe sigfillset(&all)
        unsafe pthread_sigmask(SIG_SETMASK, &all, &before)
        // SAFETY: the box is retained for the thread, which takes that reference over.
        let result = unsafe pthread_create(
            &id, nil,
            { argument in
                guard let argument = unsafe argument else { return nil }
                let body = unsafe Unmanaged<Body>.fromOpaque(argument).takeRetainedValue()
                nameThisThread(body.name)
                body.run()
                return nil
            }, box.toOpaque())
        unsafe pthread_sigmask(SIG_SETMASK, &before, nil)
        invariant(result == 0, "pthread_create \(name): errno \(result)")
    }

    /// Waits until the closure has returned.
    ///
    /// Call exactly once.
    public func join() {
        let result = unsafe pthread_join(id, nil)
        invariant(result == 0, "pthread_join \(name): errno \(result)")
    }
}

/// Names the calling thread as `ps -L` and `top -H` show it: see proc(5), /proc/self/task/[tid]/comm.
///
/// Glibc's module lacks pthread_setname_np(3) and variadic prctl(2). A failure costs only the name.
private func nameThisThread(_ name: String) {
    let file = unsafe open("/proc/thread-self/comm", O_WRONLY | O_CLOEXEC)
    guard file >= 0 else { return }
    let bytes = Array(name.utf8.prefix(15))
    _ = unsafe write(file, bytes, bytes.count)
    close(file)
}
