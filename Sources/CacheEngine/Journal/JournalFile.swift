// The journal's file: making it, mapping it, and finding its tail and head again at start.
//
// Header page (4096 bytes): magic, version, capacity, seed, boot id hash, barred flag, sequence of the newest record;
// then two mark slots. A mark says which position and sequence are in the index; the two slots are written in turn,
// each with a checksum, so one of them is always whole. Used by one thread, before the journal is shared.

import Glibc
import Hashing
import Primitives
import Synchronization

/// An opened journal file with what recovery found in it.
@safe
struct JournalFile {
    static let headerBytes = 4096
    private static let magic: UInt64 = 0x4c4e_524a_4448_4343  // "CCHDJRNL"
    private static let version: UInt64 = 1

    private enum Offset {
        static let magic = 0
        static let version = 8
        static let capacity = 16
        static let seed = 24
        static let boot = 32
        static let barred = 40
        static let newest = 48
        static let sum = 56
        static let marks = [64, 128]
    }

    private struct Mark {
        var position: UInt64
        var sequence: UInt64
        var sum: UInt64

        init(position: UInt64, sequence: UInt64, seed: UInt64) {
            self.position = position
            self.sequence = sequence
            sum = Self.sum(position, sequence, seed)
        }

        func isWhole(seed: UInt64) -> Bool { sum == Self.sum(position, sequence, seed) }

        /// Whether the numbers can be ours: a right sum alone does not keep them from overflowing what follows.
        var isPlausible: Bool { position % 8 == 0 && position < 1 << 62 && sequence < 1 << 62 }

        private static func sum(_ position: UInt64, _ sequence: UInt64, _ seed: UInt64) -> UInt64 {
            let pair = (position, sequence)
            return unsafe withUnsafeBytes(of: pair) { unsafe xxh3($0, seed: seed) }
        }
    }

    /// A system call on the journal failed, or the file system has no room for it.
    struct Failure: Error {
        let operation: String
        let errno: Int32

        var isForRoom: Bool { errno == ENOSPC || errno == EDQUOT }
    }

    let capacity: Int
    let seed: UInt64
    // SAFETY: mapping of headerBytes + capacity bytes; ownership passes to `Journal`, which unmaps it.
    let mapping: UnsafeMutableRawPointer
    private(set) var tail: UInt64 = 0
    private(set) var head: UInt64 = 0
    private(set) var sequence: UInt64 = 0
    /// Writes were acknowledged that the file does not have.
    private(set) var isBarred = false

    /// What a file in the journal's place can be.
    enum Found {
        case whole(JournalFile)
        /// What it acknowledged is the start policy's business, unless it was barred.
        case ofAnotherBoot(isBarred: Bool)
        /// No journal, or one whose records cannot be found, or do not follow the index: what it acknowledged is not
        /// known.
        case lost

        /// Writes were acknowledged that neither the file nor the index has.
        var isBarred: Bool {
            switch self {
            case .whole(let file): file.isBarred
            case .ofAnotherBoot(let isBarred): isBarred
            case .lost: false
            }
        }
    }

    /// Finds the journal in `descriptor` (owned; closed here) for a store whose index has everything up to
    /// `indexSequence`, without changing it.
    ///
    /// A whole one has the records of this boot after that sequence, and is unmapped by `unmap` unless a `Journal`
    /// takes it over.
    static func find(
        descriptor: Int32, seed: UInt64, boot: UInt64, indexSequence: UInt64
    ) throws(Failure) -> Found {
        defer { close(descriptor) }
        var status = stat()
        if unsafe fstat(descriptor, &status) != 0 { throw Failure(operation: "stat", errno: errno) }
        guard status.st_size > headerBytes, status.st_size % 8 == 0 else { return .lost }
        let mapping = unsafe try map(descriptor, Int(status.st_size))
        func field(_ offset: Int) -> UInt64 { unsafe mapping.load(fromByteOffset: offset, as: UInt64.self) }
        let capacity = Int(status.st_size) - headerBytes
        let isWhole = unsafe field(Offset.sum) == fixedSum(mapping)
        let isOurs =
            isWhole && field(Offset.magic) == magic && field(Offset.version) == version && field(Offset.seed) == seed
            && field(Offset.capacity) == UInt64(capacity)
        let isOfThisBoot = field(Offset.boot) == boot
        var file = unsafe JournalFile(capacity: capacity, seed: seed, mapping: mapping)
        let isBarred = field(Offset.barred) != 0
        guard isOurs, isOfThisBoot, file.recover(indexSequence: indexSequence) else {
            unsafe munmap(mapping, Int(status.st_size))
            return isOurs && !isOfThisBoot ? .ofAnotherBoot(isBarred: isBarred) : .lost
        }
        file.isBarred = isBarred
        return .whole(file)
    }

    /// Makes an empty journal in `descriptor` (owned; closed here), whose first record comes after `sequence`.
    ///
    /// With `syncs` it is on the device on return: what is to survive a power cut needs its header. Its name is the
    /// caller's.
    static func make(
        descriptor: Int32, capacity: Int, seed: UInt64, boot: UInt64, sequence: UInt64, syncs: Bool
    ) throws(Failure) -> JournalFile {
        defer { close(descriptor) }
        let file = try fresh(descriptor, capacity: capacity, seed: seed, boot: boot, sequence: sequence)
        if syncs, fsync(descriptor) != 0 {
            let code = errno
            file.unmap()
            throw Failure(operation: "sync", errno: code)
        }
        return file
    }

    /// Lets go of what no `Journal` has taken over.
    func unmap() { unsafe munmap(mapping, Self.headerBytes + capacity) }

    /// What a look at a journal found.
    struct Inspection: Sendable, Equatable {
        var isBarred = false
        /// It should be replayed and cannot be read.
        var isLost = false
        /// Changes that the index does not have.
        var records = 0
        /// Value files that those refer to.
        var files: Set<UInt64> = []
    }

    /// Looks at the journal in `descriptor` (owned; closed here) without changing it.
    static func inspect(
        descriptor: Int32, seed: UInt64, boot: UInt64, indexSequence: UInt64
    ) throws(Failure) -> Inspection {
        var found = Inspection()
        switch try find(descriptor: descriptor, seed: seed, boot: boot, indexSequence: indexSequence) {
        case .lost: found.isLost = true
        case .ofAnotherBoot(let isBarred): found.isBarred = isBarred
        case .whole(let file):
            found.isBarred = file.isBarred
            let journal = Journal(file) {}
            var position = file.tail
            while position < file.head {
                position = journal.normalized(position)
                if position >= file.head { break }
                let header = journal.record(at: position).header
                found.records += 1
                if header.kind == JournalHeader.Kind.fileEntry.rawValue { found.files.insert(header.generation) }
                position += UInt64(header.recordBytes)
            }
        }
        return found
    }

    private init(capacity: Int, seed: UInt64, mapping: UnsafeMutableRawPointer) {
        self.capacity = capacity
        self.seed = seed
        unsafe self.mapping = mapping
    }

    private static func fresh(
        _ descriptor: Int32, capacity: Int, seed: UInt64, boot: UInt64, sequence: UInt64
    ) throws(Failure) -> JournalFile {
        if ftruncate(descriptor, 0) != 0 { throw Failure(operation: "truncate", errno: errno) }
        let allocated = posix_fallocate(descriptor, 0, headerBytes + capacity)
        if allocated != 0 { throw Failure(operation: "allocate", errno: allocated) }
        var file = unsafe JournalFile(
            capacity: capacity, seed: seed, mapping: try map(descriptor, headerBytes + capacity))
        let mapping = unsafe file.mapping
        unsafe mapping.storeBytes(of: UInt64(capacity), toByteOffset: Offset.capacity, as: UInt64.self)
        unsafe mapping.storeBytes(of: seed, toByteOffset: Offset.seed, as: UInt64.self)
        unsafe mapping.storeBytes(of: boot, toByteOffset: Offset.boot, as: UInt64.self)
        unsafe mapping.storeBytes(of: version, toByteOffset: Offset.version, as: UInt64.self)
        unsafe mapping.storeBytes(of: fixedSum(mapping), toByteOffset: Offset.sum, as: UInt64.self)
        unsafe mark(mapping, position: 0, sequence: sequence, seed: seed)
        // The magic comes last: a kill before it leaves a file that is not a journal.
        unsafe mapping.storeBytes(of: magic, toByteOffset: Offset.magic, as: UInt64.self)
        file.sequence = sequence
        return file
    }

    /// The sum of what never changes in the header: one flipped bit must not make a journal that of another boot.
    private static func fixedSum(_ mapping: UnsafeMutableRawPointer) -> UInt64 {
        let fixed = unsafe UnsafeRawBufferPointer(
            start: mapping + Offset.version, count: Offset.barred - Offset.version)
        return unsafe xxh3(fixed, seed: 0)
    }

    private static func map(_ descriptor: Int32, _ bytes: Int) throws(Failure) -> UnsafeMutableRawPointer {
        guard let mapping = unsafe mmap(nil, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0),
            unsafe mapping != MAP_FAILED
        else { throw Failure(operation: "map", errno: errno) }
        return unsafe mapping
    }

    /// Walks the records from the newest whole mark on.
    ///
    /// False if no mark is whole, if records are missing between the index and the journal, or if the walk ends before
    /// the newest record that was completed: then the end is damage, and not the record that a kill left half written.
    private mutating func recover(indexSequence: UInt64) -> Bool {
        let marks = Offset.marks.map { unsafe mapping.load(fromByteOffset: $0, as: Mark.self) }
        guard let mark = marks.filter({ $0.isWhole(seed: seed) }).max(by: { $0.sequence < $1.sequence }) else {
            return false
        }
        // A commit may have been killed between the index and the mark: such records are skipped, not repeated.
        guard mark.sequence <= indexSequence, mark.isPlausible else { return false }
        tail = mark.position
        head = mark.position
        sequence = mark.sequence
        while let next = wholeRecord(at: head, after: sequence) {
            head = next
            sequence += 1
            if sequence <= indexSequence { tail = head }
        }
        let newest = unsafe mapping.load(fromByteOffset: Offset.newest, as: UInt64.self)
        return sequence >= max(indexSequence, newest)
    }

    /// Checks the record at `position`; returns the position behind it, nil at the journal's end.
    private func wholeRecord(at position: UInt64, after sequence: UInt64) -> UInt64? {
        var position = position
        let ring = unsafe mapping + Self.headerBytes
        var place = Int(position % UInt64(capacity))
        if capacity - place >= 4, unsafe (ring + place).loadUnaligned(as: UInt32.self) == UInt32.max {
            position += UInt64(capacity - place)
            place = 0
        }
        let record = unsafe JournalRecord(base: UnsafeRawPointer(ring + place))
        guard record.isWhole(room: capacity - place, seed: seed), record.header.sequence == sequence + 1
        else { return nil }
        return position + UInt64(record.header.recordBytes)
    }

    /// Writes the slot that holds the older mark: a kill half way through leaves the newer one whole.
    static func mark(_ mapping: UnsafeMutableRawPointer, position: UInt64, sequence: UInt64, seed: UInt64) {
        let present = Offset.marks.map { unsafe mapping.load(fromByteOffset: $0, as: Mark.self) }
        let ages = present.map { $0.isWhole(seed: seed) ? $0.sequence &+ 1 : 0 }
        let slot = ages[0] <= ages[1] ? 0 : 1
        let mark = Mark(position: position, sequence: sequence, seed: seed)
        unsafe mapping.storeBytes(of: mark, toByteOffset: Offset.marks[slot], as: Mark.self)
    }

    /// Notes that the record of `sequence` is complete.
    ///
    /// One plain store after those of the record; a kill between them leaves a whole record that is not noted.
    @inline(__always)
    static func noteNewest(_ mapping: UnsafeMutableRawPointer, sequence: UInt64) {
        // Keeps the compiler from moving the store before those of the record.
        atomicMemoryFence(ordering: .releasing)
        unsafe mapping.storeBytes(of: sequence, toByteOffset: Offset.newest, as: UInt64.self)
    }

    /// Sets or clears the barred flag.
    ///
    /// With `syncs` it is on the device on return, see msync(2); false if the device refused.
    static func setBarred(_ mapping: UnsafeMutableRawPointer, _ isBarred: Bool, syncs: Bool) -> Bool {
        // All bits, any of which bars: one that flips does not take the flag back.
        unsafe mapping.storeBytes(of: isBarred ? .max : 0, toByteOffset: Offset.barred, as: UInt64.self)
        return unsafe !syncs || msync(mapping, headerBytes, MS_SYNC) == 0
    }
}
