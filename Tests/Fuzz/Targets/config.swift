// Configuration files: any bytes are read or refused with a line number, and what is read is judged, never trapped on.

import ConfigFile

@testable import CacheDaemon

/// Reads the input as a configuration file and draws the settings from it.
func fuzz(_ bytes: UnsafeRawBufferPointer) {
    do {
        let entries = try ConfigEntries.parse(Array(bytes), path: "f")
        var draft = SettingsDraft(defaults: Launch.defaults(coreCount: 2))
        draft.apply(entries, path: "f")
        guard let settings = draft.finish(environment: ["HOME": "/h"]) else {
            precondition(!draft.problems.isEmpty)
            return
        }
        // What was accepted can be said again, and means the same.
        let text = ConfigText.make(settings, given: Set(draft.origins.keys), coreCount: 2)
        var again = SettingsDraft(defaults: Launch.defaults(coreCount: 2))
        again.apply(try ConfigEntries.parse(Array(text.utf8), path: "g"), path: "g")
        precondition(again.finish(environment: ["HOME": "/h"]) == settings, "\(text)\n\(again.problems)")
    } catch {
        precondition(!"\(error)".isEmpty)
    }
}
