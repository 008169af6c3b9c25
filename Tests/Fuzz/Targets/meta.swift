// The flags of meta commands: the input is what stands behind command and key, so that no byte is spent on those.
//
// The first byte picks the command and whether the key is base64; each result is read as a session reads it.

import Protocol

private let commands = [
    "mg k ", "ms k 5 ", "md k ", "ma k ", "me k ", "mn ", "mg Zm9v b ", "ms Zm9v 5 b ", "md Zm9v b ",
]

/// Parses one meta command with the input as its flags.
func fuzz(_ bytes: UnsafeRawBufferPointer) {
    guard let first = bytes.first else { return }
    var line = Array(commands[Int(first) % commands.count].utf8)
    line += bytes.dropFirst().map { $0 == 10 ? 32 : $0 }
    line += [13, 10]
    line.withUnsafeBytes { line in
        var parser = RequestParser(limits: ProtocolLimits())
        guard case .request(.meta(let meta), let lineBytes) = parser.parse(line) else { return }
        precondition(lineBytes == line.count)
        read(meta, line)
    }
}

/// Reads everything that a meta request offers.
private func read(_ meta: MetaRequest, _ line: UnsafeRawBufferPointer) {
    precondition(meta.valueBytes >= 0 && meta.opaque.count <= 31)
    if meta.operation != .noOperation {
        meta.withKey(in: line) { key in
            precondition(!key.isEmpty && key.count <= 250)
        }
    }
    _ = line[meta.opaque].count
    var letters = 0
    for letter in meta.returns {
        precondition(MetaFlags(letter: letter).isSubset(of: meta.flags))
        letters += 1
    }
    precondition(letters <= 8)
    _ = (meta.expiration, meta.vivifyExpiration, meta.recacheSeconds, meta.compareUnique, meta.newUnique)
}
