// The command table against the parser: names, arity, noreply and families must agree.

import Testing

@testable import Protocol

@Suite struct CommandTableTests {
    @Test func everyNameFindsItsCommandAndNothingElseDoes() {
        for command in Command.allCases {
            let name = Array("\(command.spec.name)".utf8)
            #expect(find(name) == command)
            #expect(find(Array("\(command.spec.name)".uppercased().utf8)) == nil)
            #expect(find(name + [UInt8(ascii: "x")]) == nil)
            #expect(find(name + [0]) == nil)
            // A name cut short may be another command (gets, get), never the same.
            #expect(find(Array(name.dropLast())) != command)
            // The last byte matters: no name is found by its prefix.
            var changed = name
            changed[changed.count - 1] ^= 1
            #expect(find(changed) == nil || find(changed) != command)
        }
    }

    @Test func namesAreUnique() {
        let names = Command.allCases.map { "\($0.spec.name)" }
        #expect(Set(names).count == names.count)
    }

    @Test func fewerWordsThanTheTableSaysAreRefused() {
        for command in Command.allCases {
            let spec = command.spec
            // These answer ERROR, as memcached does.
            let isPlain = [.cacheMemoryLimit, .lruCrawler, .slabs].contains(command)
            let expected = isPlain ? unknown : bad
            for count in 1..<max(spec.wordsMin, 1) {
                let line = words(spec, count)
                #expect(description(line).hasPrefix(expected), "\(line)")
            }
        }
    }

    @Test func asManyWordsAsTheTableSaysAreAccepted() {
        for command in Command.allCases {
            let line = words(command.spec, command.spec.wordsMin)
            #expect(!description(line).hasPrefix("refused"), "\(line)")
        }
    }

    @Test func noreplySilencesExactlyTheCommandsOfTheTable() {
        for command in Command.allCases {
            let line = words(command.spec, command.spec.wordsMin) + " noreply"
            #expect(description(line).hasSuffix(" quiet") == command.spec.allowsNoreply, "\(line)")
            #expect("\(command.spec.arguments)".contains("[noreply]") == command.spec.allowsNoreply)
        }
    }

    @Test func storageCommandsAreThoseWithADataBlock() {
        for command in Command.allCases {
            let parsed = description(words(command.spec, command.spec.wordsMin))
            let hasBlock = parsed.contains("bytes=")
            #expect(hasBlock == (command.spec.family == .storage || command == .metaSet))
        }
    }

    /// The command with `count` words in all, each argument a 1: a key, a number and a flag token in one.
    private func words(_ spec: CommandSpec, _ count: Int) -> String {
        let special = ["cache_memlimit": ["64"], "lru_crawler": ["enable"], "slabs": ["automove", "0"]]
        let arguments = special["\(spec.name)"] ?? Array(repeating: "1", count: count)
        return (["\(spec.name)"] + arguments.prefix(count - 1)).joined(separator: " ")
    }

    private func description(_ line: String) -> String { parseOnce(Array((line + "\r\n").utf8)) }

    private func find(_ name: [UInt8]) -> Command? {
        // A byte behind the name, as in a line.
        (name + [UInt8(ascii: " ")]).withUnsafeBytes { Command.named(Input($0), from: 0, count: name.count) }
    }
}
