// The anchor and FORMAT: any bytes, and any bytes with right sums, which random damage would hardly have.
//
// The first byte says which: bit 0 repairs the sums, bit 1 chooses FORMAT.

import Hashing

@testable import CacheEngine

private let anchorMagic: UInt64 = 0x726f_6863_6e61_6463

/// Reads the input as an anchor or as a FORMAT file.
func fuzz(_ bytes: UnsafeRawBufferPointer) {
    guard let first = bytes.first else { return }
    let rest = Array(bytes.dropFirst())
    if first & 2 == 0 { readAnchor(rest, repaired: first & 1 == 1) } else { readFormat(rest, repaired: first & 1 == 1) }
}

private func readAnchor(_ input: [UInt8], repaired: Bool) {
    var file = input
    if repaired {
        file = Array((input + [UInt8](repeating: 0, count: StoreAnchor.fileBytes)).prefix(StoreAnchor.fileBytes))
        for start in [0, StoreAnchor.slotBytes] {
            file.put(anchorMagic, at: start)
            file.put(1, at: start + 8)
            let sum = file[start..<start + StoreAnchor.slotBytes - 8].withUnsafeBytes { xxh3($0, seed: anchorMagic) }
            file.put(sum, at: start + StoreAnchor.slotBytes - 8)
        }
    }
    guard let anchor = StoreAnchor.newest(in: file) else { return }
    precondition(anchor.epoch <= StoreAnchor.epochMax && anchor.bootID.utf8.count <= 63 * 3)
    _ = anchor.slot
    precondition(StoreAnchor(slot: anchor.bytes[...]) != nil)
}

private func readFormat(_ input: [UInt8], repaired: Bool) {
    var text = String(decoding: input, as: UTF8.self)
    if repaired {
        text += "\n"
        let sum = text.withUTF8 { xxh3(UnsafeRawBufferPointer($0), seed: 0) }
        text += "sum \(hexadecimal(sum))\n"
    }
    switch StoreFormat.read(text) {
    case .valid(let format): precondition(StoreFormat.read(format.text) == .valid(format))
    case .newer(let major, _): precondition(major > StoreFormat.current.major)
    case .damaged: break
    }
}
