// The command-line table: what getopt_long takes, what it refuses and with which message, and the help text.

import Arguments
import Testing

private enum Flag: Sendable {
    case memory, memoryMebibytes, listen, durability, verbose, durable, help
}

private let table = OptionTable<Flag>(
    program: "sample", usage: "[OPTION]... [ADDRESS]", summary: "Does one thing.",
    groups: [
        OptionGroup(
            "Limits",
            [
                Option(.memory, long: "memory", value: "SIZE", help: "Memory for entries."),
                Option(.memoryMebibytes, short: "m", value: "MIB", help: "The same in MiB."),
                Option(.durability, long: "durability", value: "MODE", help: "What survives."),
                Option(.durable, long: "durable", help: "A switch with a common prefix."),
            ]),
        OptionGroup(
            "Other",
            [
                Option(
                    .listen, long: "listen", short: "l", value: "ADDRESS", help: "Where to listen; may be repeated."),
                Option(.verbose, short: "v", help: "Say more."),
                Option(.help, long: "help", short: "h", help: "Print this."),
            ]),
    ],
    footer: "Exit codes: 0 or 64.")

private func flatten(_ arguments: [String]) throws -> [String] {
    let parsed = try table.parse(arguments)
    return parsed.occurrences.map { "\($0.option.tag)=\($0.value ?? "-")" } + parsed.operands.map { "operand:\($0)" }
}

@Suite("command lines")
struct ArgumentsTests {
    @Test(
        "accepted lines, in order",
        arguments: [
            ([], []),
            (["--memory", "1GiB"], ["memory=1GiB"]),
            (["--memory=1GiB", "--listen=a", "-l", "b", "-lc"], ["memory=1GiB", "listen=a", "listen=b", "listen=c"]),
            (
                ["-m64", "-vv", "-vm", "8"],
                ["memoryMebibytes=64", "verbose=-", "verbose=-", "verbose=-", "memoryMebibytes=8"]
            ),
            (["--mem", "1"], ["memory=1"]),
            (["--durable"], ["durable=-"]),
            (["host", "-v", "other"], ["verbose=-", "operand:host", "operand:other"]),
            (["-v", "--", "-v", "--nope"], ["verbose=-", "operand:-v", "operand:--nope"]),
            (["-"], ["operand:-"]),
            (["--memory="], ["memory="]),
            (["--memory", "--listen"], ["memory=--listen"]),
            (["", "--help"], ["help=-", "operand:"]),
            (["--memory=a=b"], ["memory=a=b"]),
            (["-l", "naïve"], ["listen=naïve"]),
        ] as [([String], [String])])
    func accepted(arguments: [String], expected: [String]) throws {
        #expect(try flatten(arguments) == expected)
    }

    @Test(
        "refused lines",
        arguments: [
            (["--nope"], .unknownOption("--nope", nearest: nil)),
            (["--memry=1"], .unknownOption("--memry", nearest: "--memory")),
            (["-x"], .unknownOption("-x", nearest: nil)),
            (["-vx"], .unknownOption("-x", nearest: nil)),
            (["-:"], .unknownOption("-:", nearest: nil)),
            (["-?"], .unknownOption("-?", nearest: nil)),
            (["--dura"], .ambiguousOption("--dura", candidates: ["--durability", "--durable"])),
            (["-v", "--memory"], .missingValue("--memory", valueName: "SIZE")),
            (["--mem"], .missingValue("--memory", valueName: "SIZE")),
            (["-m"], .missingValue("-m", valueName: "MIB")),
            (["-l"], .missingValue("-l", valueName: "ADDRESS")),
            (["--help=me"], .unexpectedValue("--help")),
            (["--durable=1"], .unexpectedValue("--durable")),
            (["operand", "--nope", "--memory"], .unknownOption("--nope", nearest: nil)),
            (["-é"], .unknownOption("-é", nearest: nil)),
        ] as [([String], ArgumentsError)])
    func refused(arguments: [String], error: ArgumentsError) {
        #expect(throws: error) { try table.parse(arguments) }
    }

    @Test("one parse leaves nothing behind for the next")
    func restarts() throws {
        #expect(throws: ArgumentsError.self) { try table.parse(["-vx", "tail"]) }
        #expect(try flatten(["-v"]) == ["verbose=-"])
    }

    @Test("help is aligned and within 80 columns")
    func help() {
        let expected = """
            Usage: sample [OPTION]... [ADDRESS]
            Does one thing.

            Limits:
                  --memory SIZE      Memory for entries.
              -m MIB                 The same in MiB.
                  --durability MODE  What survives.
                  --durable          A switch with a common prefix.

            Other:
              -l, --listen ADDRESS   Where to listen; may be repeated.
              -v                     Say more.
              -h, --help             Print this.

            Exit codes: 0 or 64.

            """
        #expect(table.helpText == expected)
    }

    @Test("long help wraps under its column, long labels stand alone")
    func wrapping() {
        let words = Array(repeating: "word", count: 30).joined(separator: " ")
        let wide = OptionTable<Int>(
            program: "p", usage: "", summary: "",
            groups: [
                OptionGroup(
                    "G",
                    [
                        Option(1, long: "a", help: words),
                        Option(2, long: "an-option-with-a-very-long-name", value: "VALUE", help: "short"),
                    ])
            ])
        let lines = wide.helpText.split(separator: "\n").map(String.init)
        #expect(lines.allSatisfy { $0.count < 80 })
        #expect(lines.contains("      --an-option-with-a-very-long-name VALUE"))
        #expect(lines.last == String(repeating: " ", count: 32) + "short")
        #expect(lines.joined().split(separator: " ").filter { $0.contains("word") }.count >= 28)
    }
}
