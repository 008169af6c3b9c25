// Lock order check of debug builds: the ranks that the current thread holds, in a thread-specific key.

#if DEBUG
    import Glibc

    /// Ranks held by the current thread, as a bit set in a pthread key.
    ///
    /// Debug builds only.
    @usableFromInline
    enum HeldRanks {
        private static let key: pthread_key_t = {
            var key = pthread_key_t()
            let result = unsafe pthread_key_create(&key, nil)
            precondition(result == 0, "pthread_key_create: \(result)")
            return key
        }()

        private static var held: UInt {
            // SAFETY: the slot holds an integer bit set, never a pointer that is followed.
            get { unsafe UInt(bitPattern: pthread_getspecific(key)) }
            set { _ = unsafe pthread_setspecific(key, UnsafeRawPointer(bitPattern: newValue)) }
        }

        @usableFromInline
        static func push(_ rank: LockRank) {
            let bit = UInt(1) << UInt(rank.rawValue)
            let atOrAbove = held & ~(bit &- 1)
            precondition(
                atOrAbove == 0, "lock order: taking \(rank) while holding rank bits \(String(atOrAbove, radix: 2))")
            held |= bit
        }

        @usableFromInline
        static func pop(_ rank: LockRank) {
            held &= ~(UInt(1) << UInt(rank.rawValue))
        }
    }
#endif
