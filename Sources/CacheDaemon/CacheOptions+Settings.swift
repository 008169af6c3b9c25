// From the daemon's settings to the engine's options.

import CacheEngine
import Primitives

extension CacheOptions {
    /// What the settings say about the cache, where the memory tier may not hold more than `memoryAllowance`.
    init(_ settings: Settings, memoryAllowance: Int = .max) {
        self.init()
        let memoryBytes = min(settings.memory.bytesMax, memoryAllowance)
        memory.bytesMax = memoryBytes
        memory.entriesMax = settings.memory.entriesMax
        memory.ageMax = settings.memory.idleMax?.milliseconds
        memory.valueBytesMax = min(settings.memory.valueBytesMax, settings.entryBytesMax, memoryBytes)
        entryBytesMax = settings.entryBytesMax
        ownsProcessMemory = true
        defaultTTL = settings.timeToLive.standard?.milliseconds
        maximumTTL = settings.timeToLive.max?.milliseconds
        disk = settings.disk.isEnabled ? DiskOptions(settings.disk) : nil
        guard settings.memory.warmsUp else { return }
        var warmUp = WarmUpOptions()
        warmUp.bytesPerSecondMax = settings.memory.warmUpRate
        disk?.warmUp = warmUp
    }
}

extension Cache {
    /// Changes what can change while the cache runs.
    func apply(_ options: CacheOptions) {
        changeMemoryLimitsInBackground { limits in
            let shards = limits.shards
            limits = options.memory
            limits.shards = shards
        }
        if let disk = options.disk {
            changeDiskLimits { limits in
                limits.bytesMax = disk.bytesMax
                limits.entriesMax = disk.entriesMax
                limits.ageMax = disk.ageMax
                limits.freeBytesMin = disk.freeBytesMin
                limits.trimInterval = disk.trimInterval
            }
        }
        changeTimeToLive(
            standard: options.defaultTTL.map { .milliseconds($0) },
            longest: options.maximumTTL.map { .milliseconds($0) })
    }
}

extension DiskOptions {
    /// What the settings say about the disk tier.
    init(_ settings: Settings.Disk) {
        self.init(directory: settings.directory)
        bytesMax = settings.bytesMax
        entriesMax = settings.entriesMax
        ageMax = settings.idleMax?.milliseconds
        freeBytesMin = settings.freeBytesMin
        inlineBytesMax = settings.inlineBytesMax
        write = settings.write
        admission = settings.admission
        writeBudget = settings.writeBudget
        durability =
            switch settings.durability {
            case .none: .none
            case .process: .process
            case .always: .always
            }
        afterPowerLoss =
            switch settings.afterPowerLoss {
            case .discard: .discard
            case .keep: .keep
            }
        journalBytes = settings.journalBytes
        readers = settings.readers
        trimInterval = settings.trimInterval.milliseconds
    }
}
