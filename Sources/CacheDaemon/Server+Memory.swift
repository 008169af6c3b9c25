// Memory that the control group takes away: the memory tier gives way before the kernel ends the process.
//
// Looked at once a second by the main thread; the engine's background thread evicts.

import CacheEngine
import Primitives

extension Server {
    /// What the memory tier may hold at the start; says so where that is less than what was asked for.
    static func allowance(_ settings: Settings, _ log: Log) -> MemoryAllowance {
        let group = settings.memory.fitsControlGroup ? ControlGroup.current : nil
        let allowance = MemoryAllowance(wanted: settings.memory.bytesMax, group: group)
        if let group, allowance.bytes < settings.memory.bytesMax {
            report("memory.limit lowered", settings.memory.bytesMax, allowance.bytes, group, log)
        } else if let group = ControlGroup.current,
            MemoryAllowance.fitting(settings.memory.bytesMax, group) < settings.memory.bytesMax
        {
            log.write(
                .warning, "memory.limit may be too high",
                [
                    "limit": "\(ByteSize(bytes: settings.memory.bytesMax))",
                    "control_group": "\(ByteSize(bytes: group.limitBytes))",
                ])
        }
        return allowance
    }

    /// Follows the control group's limit, and how near its processes are to it.
    func followControlGroup() {
        let settings = service.settings
        let before = allowance
        let group = settings.memory.fitsControlGroup ? ControlGroup.current : nil
        allowance.update(
            wanted: settings.memory.bytesMax, group: group, heldBytes: service.cache.byteCount(in: .memory))
        guard allowance != before else { return }
        service.allowMemory(bytes: allowance.bytes)
        if allowance.isShort { service.noteMemoryShortage() }
        guard let group, allowance.isShort != before.isShort else { return }
        let event = allowance.isShort ? "memory is short" : "memory is not short any more"
        Self.report(event, settings.memory.bytesMax, allowance.bytes, group, service.log)
    }

    private static func report(_ event: String, _ wanted: Int, _ bytes: Int, _ group: ControlGroup, _ log: Log) {
        log.write(
            .warning, event,
            [
                "wanted": "\(ByteSize(bytes: wanted))", "now": "\(ByteSize(bytes: bytes))",
                "control_group": "\(ByteSize(bytes: group.limitBytes))",
            ])
    }
}
