// From the command line to a running server and its exit status.

import CacheEngine
import Glibc
import Libevent
import Primitives

enum Program {
    /// Does what the arguments ask for, and exits.
    static func run() -> Never {
        let arguments = Array(CommandLine.arguments.dropFirst())
        switch read(arguments) {
        case .show(let text):
            exit(StandardStream.output.write(text) ? 0 : 1)
        case .refuse(let lines):
            report(lines)
            exit(Launch.refusalStatus)
        case .maintain(let task, let settings):
            ProcessSetup.prepare()
            exit(task.run(settings))
        case .serve(let settings):
            exit(serve(settings, arguments))
        }
    }

    private static func read(_ arguments: [String]) -> Launch {
        var environment: [String: String] = [:]
        for name in ["CACHE_DIRECTORY", "XDG_CACHE_HOME", "HOME"] {
            environment[name] = StandardStream.environment(name)
        }
        return Launch.read(
            arguments, environment: environment, coreCount: max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN))))
    }

    private static func report(_ lines: [String]) {
        for line in lines { StandardStream.error.write("cache-daemon: \(line)\n") }
    }

    private static func serve(_ settings: Settings, _ arguments: [String]) -> Int32 {
        ProcessSetup.prepare()
        ProcessMemory.prepare(limit: settings.memory.bytesMax, threads: settings.threads)
        ProcessSetup.limitCoreFiles(areWanted: settings.writesCoreFiles)
        let log = Log(
            level: settings.logLevel, hasPriorities: StandardStream.environment("JOURNAL_STREAM") != nil)
        do {
            let inherited = try InheritedSockets(environment: StandardStream.environment)
            if let user = settings.user { try ProcessSetup.become(user) }
            let server = try Server(
                settings, log: log, control: ServerControl(), handlesSignals: true,
                notifier: Notifier(environment: StandardStream.environment), inherited: inherited
            ) { readAgain(arguments, log) }
            return server.run()
        } catch let error as StartError {
            log.write(.error, "not started", ["reason": error.description])
            return error.status
        } catch {
            log.write(.error, "not started", ["reason": "\(error)"])
            return StartError.systemStatus
        }
    }

    /// The settings as the same command line gives them now; nil, with the reasons logged, when they are wrong.
    private static func readAgain(_ arguments: [String], _ log: Log) -> Settings? {
        switch read(arguments) {
        case .serve(let settings): return settings
        case .show, .maintain: return nil
        case .refuse(let lines):
            for line in lines { log.write(.error, "configuration", ["problem": line]) }
            return nil
        }
    }
}
