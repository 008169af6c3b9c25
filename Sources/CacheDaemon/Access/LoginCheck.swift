// Whether a name and a password belong together, in a time that tells nothing but the answer.
//
// Every attempt is compared with every account, and costs one hash if the file has any: the account's own, or that of
// another account for a name that does not exist or has a plain password. Hashes are made to be slow; so that clients
// can reconnect at speed, an account that was once opened is remembered by a cheap salted hash, in memory only. Belongs
// to the authenticator's thread.

import Crypt

/// Checks attempts against the accounts of one reading of the file.
struct LoginCheck {
    private let grants: [AccessGrant]
    /// What names without a hash of their own are checked against; nil if the file has no hashes.
    private let decoy: PasswordHash?
    /// Cheap hashes of passwords that were right before, by account.
    private var known: [Int: PasswordHash] = [:]
    /// What stands in for a cheap hash where there is none.
    private let cheapDecoy: PasswordHash?

    init(_ grants: [AccessGrant]) {
        self.grants = grants
        let hashes: [PasswordHash] = grants.compactMap {
            if case .hash(let hash) = $0.account.secret { hash } else { nil }
        }
        decoy = hashes.first
        cheapDecoy = hashes.isEmpty ? nil : Self.cheapHash(of: [UInt8](repeating: 48, count: 8))
    }

    /// What the name and password open, or nil.
    mutating func check(name: [UInt8], password: [UInt8]) -> AccessGrant? {
        guard let name = FixedBytes(name), let password = FixedBytes(password) else { return nil }
        var found = 0
        var isPlainRight: UInt8 = 0
        for (index, grant) in grants.enumerated() {
            let isName = name.equals(grant.account.name)
            // One more than the index, so that 0 is nobody; arithmetic instead of a branch.
            found |= (index + 1) * Int(isName)
            if case .password(let right) = grant.account.secret { isPlainRight |= isName & password.equals(right) }
        }
        let isHashRight = checkHash(of: found - 1, password)
        guard found > 0, isPlainRight == 1 || isHashRight else { return nil }
        return grants[found - 1]
    }

    private mutating func checkHash(of index: Int, _ password: FixedBytes) -> Bool {
        guard let decoy, let cheapDecoy else { return false }
        var hash: PasswordHash?
        if index >= 0, case .hash(let own) = grants[index].account.secret { hash = own }
        let bytes = password.bytes
        if (known[index] ?? cheapDecoy).matches(bytes), hash != nil, known[index] != nil { return true }
        let isRight = (hash ?? decoy).matches(bytes) && hash != nil
        if isRight { known[index] = Self.cheapHash(of: bytes) }
        return isRight
    }

    /// SHA-256 with the fewest rounds: half a millisecond.
    private static func cheapHash(of password: [UInt8]) -> PasswordHash? {
        PasswordHash(of: password, prefix: "$5$", cost: 1000)
    }
}
