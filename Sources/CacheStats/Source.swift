// Where samples come from: a connection that is made when it is needed, and made again after it broke.

import CacheClient
import Primitives

/// A server that is asked again and again.
final class Source {
    let settings: StatsSettings
    private let encryption: Encryption?
    private var connection: Connection?

    /// Reads certificates; connects later.
    ///
    /// - Throws: `EncryptionError` for files that cannot be used.
    init(_ settings: StatsSettings) throws(EncryptionError) {
        self.settings = settings
        encryption = if let wanted = settings.encryption { try Encryption(wanted) } else { nil }
    }

    /// The connection, which is made if there is none.
    func connected() throws(ClientError) -> Connection {
        if let connection { return connection }
        // Who watches waits for what others do, however long.
        let timeouts =
            settings.view == .watch ? Timeouts(progressMilliseconds: 7 * 86_400_000) : Timeouts()
        let open = try Connection(to: settings.address, encryption: encryption, timeouts: timeouts)
        if let login = settings.login { try open.authenticate(login) }
        connection = open
        return open
    }

    /// Forgets the connection.
    func disconnect() { connection = nil }

    /// What the view shows, as of now.
    func sample() throws(ClientError) -> Sample {
        let connection = try connected()
        let statistics =
            if settings.view == .explain {
                try connection.explain(settings.word ?? "")
            } else {
                try connection.stats(settings.view.group)
            }
        return Sample(time: SystemClock().now(), statistics: statistics)
    }

    /// A group that not every server has; nil where it is refused.
    func optional(_ group: String) throws(ClientError) -> Statistics? {
        let connection = try connected()
        do throws(ClientError) { return try connection.stats(group) } catch {
            guard error.leavesConnectionUsable else { throw error }
            return nil
        }
    }
}
