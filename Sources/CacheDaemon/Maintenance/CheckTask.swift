// `--check DIR`: runs the engine's check and prints what it found.

import CacheEngine
import Primitives

/// One check of one directory.
struct CheckTask {
    let directory: String
    let repairs: Bool

    func run(_ settings: Settings) -> Int32 {
        let line = ProgressLine()
        let report: StoreCheckReport
        do {
            report = try StoreCheck.run(
                directory: directory,
                afterPowerLoss: settings.disk.afterPowerLoss, repair: repairs
            ) { progress in
                line.show("\(progress.stage.rawValue): \(progress.done) of \(progress.total)")
            }
        } catch {
            line.end()
            return MaintenanceTask.refuse(error)
        }
        line.end()
        guard StandardStream.output.write(Self.text(report)) else { return MaintenanceTask.wrong }
        if report.isSound { return MaintenanceTask.fine }
        return report.isRepaired ? MaintenanceTask.repaired : MaintenanceTask.wrong
    }

    /// One `name value` per line, the verdict last.
    static func text(_ report: StoreCheckReport) -> String {
        let verdict = report.isSound ? "sound" : report.isRepaired ? "repaired" : "damaged"
        let index = report.indexDamage ?? (report.hasWrongIndexes ? "disagrees with its rows" : "sound")
        let lines = [
            "next_start \(report.nextStart)", "index \(index)", "entries \(report.entries)",
            "value_bytes \(report.valueBytes)", "files \(report.files)", "journal_changes \(report.journalChanges)",
            "damaged_rows \(report.damagedRows)", "missing_files \(report.missingFiles)",
            "damaged_files \(report.damagedFiles)", "orphan_files \(report.orphanFiles)",
            "foreign_names \(report.foreignNames)", "verdict \(verdict)",
        ]
        return lines.map { $0 + "\n" }.joined()
    }
}
