// The ends of a process, and its beginnings: kills, power cuts, orderly stops, and the end of the run.

import SimulatedSystem

extension Run {
    func die(in call: Int32, _ count: Int64) -> Int64 {
        die()
        return count
    }

    /// From here on, nothing of what this process does is seen.
    func die() {
        guard !isDead, daemon != nil || depth > 0 || isStarting else { return }
        isDead = true
        callsToDeath = .max
        trace(isPowerCut ? "power cut" : "kill")
        if isPowerCut {
            counts.powerCuts += 1
            sim_keep_for_power_cut(random.next(), [0, 128, 255, 256, 256, 256][random.below(6)])
        } else {
            counts.kills += 1
            sim_keep_for_kill()
        }
    }

    func restart() throws {
        for client in clients { forget(client) }
        clients = []
        daemon?.abandon()
        daemon = nil
        try demandClosed()
        guard sim_restart() == 1 else { throw Wrong(description: "nothing was kept") }
        isDead = false
        isBarred = false
        for key in keys { key.note("\(time) @\(trueClock) \(isPowerCut ? "power cut" : "kill")") }
        let disk = plan.options.disk
        if isPowerCut {
            boots += 1
            sim_boot("boot-\(boots)", plan.seed &+ UInt64(boots))
            clock.reboot(boot: 5000)
            for key in keys { key.forgetUnanswered() }
            if disk?.durability == .process, disk?.afterPowerLoss == .keep { for key in keys { key.revive(tick()) } }
        }
        let isKept = disk?.durability == .always || disk?.durability == .process && !isPowerCut
        if !isKept { loseAll() }
        if mayVanish { doubtFlushes() }
        isPowerCut = false
        try start()
    }

    /// Who has ended holds nothing open.
    private func demandClosed() throws {
        var names: [String] = []
        while let name = sim_open_name(Int64(names.count)) { names.append(String(cString: name)) }
        guard names.isEmpty else { throw Wrong(description: "left open: \(names.joined(separator: " "))") }
    }

    /// The next process finds nothing, and that is right.
    private func loseAll() {
        doubtFlushes()
        let end = tick()
        for key in keys {
            let absence = key.add(Write("discarded", nil, began: end))
            absence.end(end, trueClock)
            // Memory alone does not know its former ids.
            if plan.options.disk == nil { key.forgetIDs() }
        }
    }

    /// An orderly stop.
    func stop() {
        guard random.isOne(in: 2), depth == 0 else { return }
        trace("stop")
        counts.stops += 1
        isPowerCut = false
        for client in clients { forget(client) }
        clients = []
        daemon?.stop()
        if isDead { return }
        daemon?.release()
        daemon = nil
        if plan.options.disk == nil { loseAll() }
        do {
            try demandClosed()
            for key in keys { key.note("\(time) @\(trueClock) stop") }
            pass(Int64(random.below(2000)))
            try start()
        } catch {
            problem = problem ?? error
        }
    }

    func start() throws {
        damageAtRest()
        for attempt in 0..<20 {
            if attempt > 10 { isCalm = true }
            defer { isCalm = false }
            isStarting = true
            let begin = trueClock
            storeTime.attempts += 1
            defer { isStarting = false }
            do {
                daemon = try SimulatedDaemon(plan.options, clock)
            } catch {
                trace("start: \(error)")
                counts.failedStarts += 1
                if plan.faults == .none, !isDead { throw Wrong(description: "start: \(error)") }
                if isDead { return try restart() }
                failures = (0, 0)
                if attempt > 2 { sim_set_room(Self.roomBytes, Self.roomFiles) }
                continue
            }
            trace("started: \(daemon?.report ?? "")")
            if !isDead { try checkClock(begin) }
            // A store that was given up takes the flush along that it was to perform.
            if mayVanish { doubtFlushes() }
            for key in keys { key.note("\(time) @\(trueClock) started: \(daemon?.report ?? "")") }
            if isDead { return try restart() }
            if let daemon { clients = (0..<plan.clients).map { daemon.connect(nextClient + $0) } }
            nextClient += plan.clients
            return
        }
        throw Wrong(description: "does not start")
    }

    // MARK: The end

    /// No more faults: everybody gets his answers, and everything adds up.
    func finish() throws {
        failures = (0, 0)
        callsToDeath = .max
        sim_set_room(Self.roomBytes, Self.roomFiles)
        isCalm = true
        defer { isCalm = false }
        for round in 0..<4000 {
            for client in clients {
                client.run(random, isSlow: false)
                finishTurn(client)
            }
            if let problem { throw problem }
            guard let daemon else { break }
            daemon.runWriter()
            for reader in 0..<max(1, daemon.readerCount) { daemon.runReader(reader) }
            daemon.runBackground(isDue: round % 50 == 0)
            pass(round > 200 ? 100 : 1)
            passFlush()
            if daemon.isDoubtful { mayVanish = true }
            if clients.allSatisfy({ $0.asked.isEmpty }), round > 20 { break }
        }
        for client in clients where !client.asked.isEmpty {
            throw Wrong(description: "no answer to \(client.asked[0].kind): \(client.state)")
        }
        try readAll()
        try Simulation.quietly { try daemon?.check(isThorough: true, isDamaged: plan.faults == .damage) }
        for client in clients { forget(client) }
        clients = []
        daemon?.stop()
        daemon?.release()
        daemon = nil
        try demandClosed()
    }

    /// Reads every key once more.
    private func readAll() throws {
        guard let daemon else { return }
        let reader = daemon.connect(nextClient)
        clients.append(reader)
        askAll(reader)
        for _ in 0..<2000 where !reader.asked.isEmpty {
            reader.run(random, isSlow: false)
            finishTurn(reader)
            if let problem { throw problem }
            for number in 0..<max(1, daemon.readerCount) { daemon.runReader(number) }
            daemon.runWriter()
        }
        guard reader.asked.isEmpty else { throw Wrong(description: "no answer at the end: \(reader.state)") }
    }
}
