// What the server says about itself unasked: the line of status for the service manager, and the end of the warm-up.
//
// Made once a second on the main thread, from the engine's statistics. The dashboard shows the same words about what
// goes on in the background.

import CacheEngine
import Primitives

extension Server {
    /// What `systemctl status` shows.
    var status: String {
        let engine = service.cache.statistics()
        var text = "serving \(max(0, service.connectionCount)) clients; "
        text += "memory \(ByteSize(bytes: engine.memoryBytes).approximate), \(engine.memoryEntries) entries; "
        let waiting = service.waitingForRestart
        let restart = waiting.isEmpty ? [] : ["needs a restart: \(waiting.joined(separator: ", "))"]
        guard let disk = engine.disk else {
            return ([text + "no disk tier"] + restart).joined(separator: "; ")
        }
        text += "disk \(disk.state), \(ByteSize(bytes: disk.allocatedBytes).approximate), \(disk.entries) entries"
        return ([text] + Self.work(engine.warmUp, disk.chores) + restart).joined(separator: "; ")
    }

    /// What goes on in the background, in words.
    static func work(_ warmUp: WarmUpProgress?, _ chores: DiskChores) -> [String] {
        var parts: [String] = []
        if let warmUp, warmUp.stage == .loading, warmUp.listed > 0 {
            parts.append("warming up, \(warmUp.looked) of \(warmUp.listed) entries")
        }
        if chores.isSweeping { parts.append("sweeping, \(chores.sweepPercent) %") }
        if chores.isRemovingFlushed { parts.append("removing flushed, \(chores.flushedRowsRemoved) entries so far") }
        return parts
    }

    /// Says once what the warm-up has done.
    func reportWarmUp() {
        guard !hasReportedWarmUp, let warmUp = service.cache.statistics().warmUp, warmUp.stage != .loading else {
            return
        }
        hasReportedWarmUp = true
        guard warmUp.listed > 0 else { return }
        service.log.write(
            .notice, "warm-up",
            [
                "state": warmUp.stage.rawValue, "entries": "\(warmUp.loaded)", "listed": "\(warmUp.listed)",
                "bytes": "\(ByteSize(bytes: warmUp.loadedBytes).approximate)", "ms": "\(warmUp.milliseconds)",
            ])
    }
}
