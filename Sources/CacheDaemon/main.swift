// The program: reads its options and serves. Nothing else.

import Glibc
import Primitives

// SAFETY: the environment is read before any thread exists, and no code of ours changes it.
let environment = Dictionary(
    ["CACHE_DIRECTORY", "XDG_CACHE_HOME", "HOME"].compactMap { name in
        StandardStream.environment(name).map { (name, $0) }
    }, uniquingKeysWith: { first, _ in first })
let cores = max(sysconf(Int32(_SC_NPROCESSORS_ONLN)), 1)

switch Launch.read(Array(CommandLine.arguments.dropFirst()), environment: environment, coreCount: cores) {
case .show(let text):
    exit(StandardStream.output.write(text) ? 0 : 1)
case .refuse(let lines):
    for line in lines { StandardStream.error.write("cache-daemon: \(line)\n") }
    exit(Launch.refusalStatus)
case .serve(let settings):
    StandardStream.error.write("cache-daemon: would listen on \(settings.listen)\n")
    exit(1)
}
