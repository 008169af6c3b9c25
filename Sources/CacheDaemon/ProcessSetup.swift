// What the process has to be before it opens anything: private files, safe descriptors, quiet signals, enough
// descriptors, the right user.
//
// Called from main.swift's path only; a server that runs inside a test's process does without.

import Glibc
import Primitives

/// Why the process cannot be set up.
struct SetupError: Error, CustomStringConvertible {
    let description: String
}

enum ProcessSetup {
    /// Descriptors kept back from client connections where there are plenty: for files of values in work, mostly.
    static let reservedDescriptors = 128

    /// Makes files private, descriptors 0 to 2 valid, and write errors errors instead of signals.
    static func prepare() {
        umask(0o077)
        // Were one of them closed, the next file opened would get its number, and stray prints would damage it.
        for fd in Int32(0)...2 where fcntl(fd, F_GETFD) == -1 && errno == EBADF {
            _ = unsafe open("/dev/null", O_RDWR)
        }
        // A parent that blocks signals hands its mask down, and SIGTERM would never come.
        var none = sigset_t()
        // SAFETY: the set lives until the calls return.
        unsafe sigemptyset(&none)
        _ = unsafe pthread_sigmask(SIG_SETMASK, &none, nil)
        signal(SIGPIPE, SIG_IGN)
        signal(SIGXFSZ, SIG_IGN)
    }

    /// Raises the limit on descriptors as far as `connections` need; returns how many connections fit.
    ///
    /// `others` is what the daemon itself opens: event loops, index, journal. Each connection may also have a file open
    /// for the value that it sends; where the hard limit allows, there is room for those too.
    static func raiseDescriptorLimit(connections: Int, others: Int) -> Int {
        var limit = rlimit()
        let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        // SAFETY: the struct lives until the calls return, here and below.
        guard unsafe getrlimit(resource, &limit) == 0 else { return connections }
        let needed = rlim_t(connections + max(reservedDescriptors, others + 16))
        let wanted = needed + rlim_t(connections)
        if limit.rlim_cur < wanted {
            var raised = limit
            raised.rlim_cur = min(wanted, limit.rlim_max)
            if needed > limit.rlim_max {
                // Root may raise the hard limit too.
                var both = rlimit(rlim_cur: wanted, rlim_max: wanted)
                if unsafe setrlimit(resource, &both) == 0 { return connections }
            }
            if unsafe setrlimit(resource, &raised) == 0 { limit = raised }
        }
        return fitting(connections, descriptors: Int(clamping: limit.rlim_cur), others: others)
    }

    /// How many of `wanted` connections so many descriptors allow; 1 if they are too few for anything.
    static func fitting(_ wanted: Int, descriptors: Int, others: Int) -> Int {
        // Where descriptors are scarce, half of them are for clients, as long as the daemon can work.
        let kept = max(others + 16, min(reservedDescriptors, descriptors / 2))
        return max(1, min(wanted, descriptors - kept))
    }

    /// Lets the kernel write core files, or not: they hold values and passwords of clients.
    static func limitCoreFiles(areWanted: Bool) {
        var limit = rlimit()
        let resource = __rlimit_resource_t(RLIMIT_CORE.rawValue)
        guard unsafe getrlimit(resource, &limit) == 0 else { return }
        limit.rlim_cur = areWanted ? limit.rlim_max : 0
        _ = unsafe setrlimit(resource, &limit)
    }

    /// Becomes `user`, for good.
    ///
    /// - Throws: `SetupError` when there is no such user, or the process may not become it.
    static func become(_ user: String) throws(SetupError) {
        guard geteuid() == 0 else { return }
        guard let entry = unsafe getpwnam(user) else { throw SetupError(description: "no user '\(user)'") }
        let (uid, gid) = unsafe (entry.pointee.pw_uid, entry.pointee.pw_gid)
        guard unsafe initgroups(user, gid) == 0, setgid(gid) == 0, setuid(uid) == 0 else {
            throw SetupError(description: "cannot become '\(user)': \(systemErrorText(errno))")
        }
    }
}
