// verbosity, cache_memlimit, shutdown, stats: what operators ask for.

import CacheEngine
import Primitives
import Protocol

extension Session {
    /// `verbosity <level>`: 0 is what the settings say, 1 adds connections, 2 and above every command.
    mutating func setVerbosity(_ level: Int, isQuiet: Bool, _ turn: inout Turn) {
        turn.service.log.setVerbosity(level)
        if !isQuiet { reply(.ok, &turn) }
    }

    /// `cache_memlimit <MiB>`: until the next start or reload.
    mutating func setMemoryLimit(_ mebibytes: Int, isQuiet: Bool, _ turn: inout Turn) {
        turn.service.setMemoryLimit(bytes: mebibytes << 20)
        if !isQuiet { reply(.ok, &turn) }
    }

    /// `shutdown`: if the operator switched it on, stops the daemon as SIGTERM does.
    mutating func shutdown(_ turn: inout Turn) -> Step {
        guard turn.service.acceptsShutdownCommand else {
            reply(.error(.shutdownNotEnabled), &turn)
            return .done(0)
        }
        turn.service.control.requestStop()
        return .stalled(.closing)
    }

    /// Answers `stats [group]`.
    mutating func statistics(_ argument: UnsafeRawBufferPointer, _ turn: inout Turn) {
        // SAFETY: the bytes are copied.
        let group = unsafe String(decoding: argument, as: UTF8.self)
        let service = turn.service
        reply(&turn) { StatsReport().append(group: group, of: service, to: &$0) }
    }
}
