// What a reload changes: options marked as reloadable follow the new settings, the others wait for the next start.

/// The outcome of reading the settings again.
struct Reload: Equatable, Sendable {
    /// What the daemon runs with from now on.
    let settings: Settings
    /// Names of the options that changed.
    let applied: [String]
    /// Names of the options that changed and need a restart.
    let waiting: [String]

    /// Compares `current`, the settings in force, with `new`, as read again.
    init(current: Settings, new: Settings) {
        var settings = current
        var applied: [String] = []
        var waiting: [String] = []
        for spec in OptionSpec.table where spec.form.show(current) != spec.form.show(new) {
            if spec.isReloadable {
                spec.form.copy(new, &settings)
                applied.append(spec.name)
            } else {
                waiting.append(spec.name)
            }
        }
        self.settings = settings
        self.applied = applied
        self.waiting = waiting
    }
}
