// Opening caches by name: a program may have any number of them, independent of each other.

extension CacheOptions {
    /// A memory-only cache of up to `memoryBytes`.
    public init(name: String, memoryBytes: Int) {
        self.init()
        self.name = name
        memory.bytesMax = memoryBytes
    }

    /// A cache of up to `memoryBytes` in memory and `diskBytes` on disk, in the subdirectory `name` of `directory`.
    ///
    /// A name is used as a file name: it must not be empty, begin with a dot or contain a slash.
    public init(name: String, memoryBytes: Int, directory: String, diskBytes: Int) {
        self.init(name: name, memoryBytes: memoryBytes)
        var disk = DiskOptions(directory: "\(directory)/\(name)")
        disk.bytesMax = diskBytes
        self.disk = disk
    }

    /// Why a cache cannot be made with these options; nil if it can.
    public var problem: String? {
        if let shards = memory.shards, shards < 1 || shards > 1024 || shards & (shards - 1) != 0 {
            return "memory.shards: \(shards) is no power of two up to 1024"
        }
        if name.isEmpty || name.hasPrefix(".") || name.contains("/") { return "name: \(name) is no file name" }
        if entryBytesMax < 0 || entryBytesMax > Int(UInt32.max) { return "entryBytesMax: not 0 to 4 GiB - 1" }
        if memoryTrimInterval < 1 { return "memoryTrimInterval: less than 1 ms" }
        if let bytes = memory.bytesMax, bytes < 1 { return "memory.bytesMax: less than 1; nil is unlimited" }
        if let entries = memory.entriesMax, entries < 1 { return "memory.entriesMax: less than 1; nil is unlimited" }
        if let age = memory.ageMax, age < 1 { return "memory.ageMax: less than 1 ms; nil is unlimited" }
        return disk?.problem
    }
}

extension DiskOptions {
    /// The least a disk tier needs: its journal, the index and its log.
    public static var bytesMaxLeast: Int { 4 << 20 }

    fileprivate var problem: String? {
        if directory.isEmpty { return "disk.directory: empty" }
        if bytesMax < Self.bytesMaxLeast { return "disk.bytesMax: less than \(Self.bytesMaxLeast)" }
        if let entries = entriesMax, entries < 1 { return "disk.entriesMax: less than 1; nil is unlimited" }
        if let age = ageMax, age < 1 { return "disk.ageMax: less than 1 ms; nil is unlimited" }
        if let budget = writeBudget, budget < 1 { return "disk.writeBudget: less than 1; nil is unlimited" }
        if durability == .always, write != .through || admission != .all || writeBudget != nil {
            return "disk.durability: always needs every entry on disk: no other write, admission or writeBudget"
        }
        if readers < 1 || readers > 64 { return "disk.readers: not 1 to 64" }
        if trimInterval < 1 { return "disk.trimInterval: less than 1 ms" }
        if journalBytes < 0 || journalBytes > 1 << 40 { return "disk.journalBytes: not 0 to 1 TiB" }
        return nil
    }
}
