// The simulation's program: runs seeds, and says of one that fails how to see it again.

import Glibc
import TestSupport

/// What the command line asks for.
struct Wishes {
    var seed: UInt64 = 1
    var seeds = 1
    var steps = 600
    var stride: UInt64 = 1
    var prints = false
    var hashes = false
    var faults: FaultKind?
    var stopsAtFirst = false

    init(_ arguments: [String]) {
        var rest = arguments.dropFirst()
        while let name = rest.popFirst() {
            switch name {
            case "--print": prints = true
            case "--hash": hashes = true
            case "--first": stopsAtFirst = true
            case "--faults": faults = rest.popFirst().flatMap { FaultKind(rawValue: $0) }
            case "--seed": seed = rest.popFirst().flatMap { UInt64($0) } ?? seed
            case "--seeds": seeds = rest.popFirst().flatMap { Int($0) } ?? seeds
            case "--steps": steps = rest.popFirst().flatMap { Int($0) } ?? steps
            case "--stride": stride = rest.popFirst().flatMap { UInt64($0) } ?? stride
            default:
                output(
                    "usage: Simulation [--seed N] [--seeds K] [--steps M] [--stride S] [--faults KIND] [--print|--hash|--first]\n"
                )
                exit(64)
            }
        }
    }
}

/// Dictionaries in the same order in each process: Swift reads this before the program begins.
func makeHashingRepeatable() {
    guard getenv("SWIFT_DETERMINISTIC_HASHING") == nil else { return }
    setenv("SWIFT_DETERMINISTIC_HASHING", "1", 1)
    var arguments = CommandLine.arguments.map { strdup($0) } + [nil]
    execv("/proc/self/exe", &arguments)
    output("execv: errno \(errno)\n")
    exit(71)
}

/// Runs one seed; what is wrong with it, or nil.
func play(_ seed: UInt64, _ wishes: Wishes) -> (run: Run, problem: String?) {
    let plan = Plan(seed: seed, directory: Run.directory, faults: wishes.faults)
    let run = Run(plan, prints: wishes.prints)
    var problem: String?
    Simulation.with(run) {
        do { try run.run(wishes.steps) } catch { problem = "\(error)" }
    }
    return (run, problem)
}

/// Says what failed, and how to see it again.
func report(_ seed: UInt64, _ steps: Int, _ run: Run, _ problem: String) {
    output("FAILED seed \(seed), step \(run.step) of \(steps): \(problem)\n")
    output("  plan: \(run.plan.summary)\n")
    let key = run.keys.first { problem.hasPrefix("\($0.name):") }
    for event in key?.history.suffix(40) ?? [] { output("  \(event)\n") }
    output("  again: make sim SEED=\(seed) STEPS=\(steps) ARGS=--print\n")
}

makeHashingRepeatable()
let wishes = Wishes(CommandLine.arguments)
var failed = 0
var total = Counts()
var played = 0
for number in 0..<UInt64(wishes.seeds) {
    let seed = wishes.seed + number * wishes.stride
    let (run, problem) = play(seed, wishes)
    total.add(run.counts)
    played += 1
    if wishes.hashes { output("seed \(seed) hash \(String(run.hash, radix: 16))\n") }
    guard let problem else { continue }
    failed += 1
    report(seed, wishes.steps, run, problem)
    if wishes.stopsAtFirst || failed >= 5 { break }
}
output("\(played) seeds, \(failed) failed: \(total.summary)\n")
exit(failed == 0 ? 0 : 1)
