// Damages copies of a store, opens each, reads every key, and says what it got: right, missed, or wrong.
//
//     StoreDamage TEMPLATE LISTING WORK flip|shape CASES SEED
//
// TEMPLATE is the directory of a cache that is not running. LISTING says what each of its keys holds (see `Listing`).
// Each case makes WORK anew, damages one thing in it that the case's number and SEED choose, and opens a cache there,
// in this process: far faster than starting a daemon. `flip` inverts one bit of one file; `shape` cuts, removes, swaps,
// adds or zeroes files. Prints progress to standard error, and one line at the end; a wrong value ends it with status
// 1 and the line that repeats the case.

import CacheEngine
import Foundation

/// Writes one line.
func say(_ text: String, to stream: FileHandle = .standardOutput) { stream.write(Data((text + "\n").utf8)) }

let arguments = CommandLine.arguments
guard arguments.count == 7, ["flip", "shape"].contains(arguments[4]), let cases = Int(arguments[5]),
    let seed = UInt64(arguments[6])
else {
    say("usage: StoreDamage TEMPLATE LISTING WORK flip|shape CASES SEED", to: .standardError)
    exit(64)
}

do {
    let listing = try Listing(path: arguments[2])
    let trials = try Trials(template: arguments[1], listing: listing, work: arguments[3], kind: arguments[4])
    let whole = try trials.undamaged()
    guard whole.right == listing.entries.count, whole.wrong.isEmpty else {
        say("the store as it was given: \(whole)")
        exit(1)
    }
    var sum = Tally()
    var sinceReport = ContinuousClock.now
    for number in 0..<cases {
        let found = try trials.run(number, seed: seed)
        sum.add(found)
        if !found.wrong.isEmpty { say("WRONG case \(number) of seed \(seed): \(found)") }
        if ContinuousClock.now - sinceReport > .seconds(1) {
            say("\(number + 1) \(cases)", to: .standardError)
            sinceReport = .now
        }
    }
    say("cases=\(cases) \(sum.summary)")
    exit(sum.wrong.isEmpty ? 0 : 1)
} catch {
    say("StoreDamage: \(error)")
    exit(70)
}
