// The command line: words that are divided by zero bytes, as in /proc/self/cmdline.

@testable import CacheDaemon

/// Reads the input as arguments; files that it names are not opened, since --config is left out.
func fuzz(_ bytes: UnsafeRawBufferPointer) {
    let words = bytes.split(separator: 0).map { String(decoding: $0, as: UTF8.self) }
    guard !words.contains(where: { $0.hasPrefix("--c") }) else { return }
    switch Launch.read(words, environment: ["HOME": "/h"], coreCount: 2) {
    case .serve(let settings): precondition(settings.exposedAddresses.isEmpty)
    case .show, .maintain: break
    case .refuse(let lines): precondition(!lines.isEmpty)
    }
}
