// How much longer than usual tests wait for what must come. Limits of the daemon itself are not theirs to stretch.
//
// Scripts/sanitize sets CACHE_DAEMON_PATIENCE: under a sanitizer, on a machine that has other work, a thing that takes
// a second may take minutes. A test that passes is no slower for it.

import Foundation

/// The factor for every limit of a wait: 1, or what CACHE_DAEMON_PATIENCE says.
public let patience = max(1, Int(ProcessInfo.processInfo.environment["CACHE_DAEMON_PATIENCE"] ?? "") ?? 1)
