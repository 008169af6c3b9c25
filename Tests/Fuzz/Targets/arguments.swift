// The command line: words that are divided by zero bytes, as in /proc/self/cmdline.

@testable import CacheDaemon

nonisolated(unsafe) private var generated: Set<[String]> = []

/// Reads the input as arguments; files that it names are not opened, since --config is left out.
func fuzz(_ bytes: UnsafeRawBufferPointer) {
    let words = bytes.split(separator: 0).map { String(decoding: $0, as: UTF8.self) }
    guard !words.contains(where: { $0.hasPrefix("--c") }) else { return }
    // A manual page costs a thousand other inputs and is always the same: each text is made once.
    if words.contains(where: { $0.hasPrefix("--g") }) {
        let asked = GeneratedText.names.filter { name in words.contains { $0.hasSuffix(name) } }
        guard asked.isEmpty || generated.insert(asked).inserted else { return }
    }
    switch Launch.read(words, environment: ["HOME": "/h"], coreCount: 2) {
    case .serve(let settings): precondition(settings.exposedAddresses.isEmpty)
    case .show, .maintain: break
    case .refuse(let lines): precondition(!lines.isEmpty)
    }
}
