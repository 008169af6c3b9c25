// A target that must crash: proof that the machinery finds what is there.
//
// Four bytes have to be found one after another, which random input does not do and coverage does at once.

/// Traps on inputs that begin with `get `.
func fuzz(_ bytes: UnsafeRawBufferPointer) {
    guard bytes.count >= 4 else { return }
    if bytes[0] == UInt8(ascii: "g"), bytes[1] == UInt8(ascii: "e"), bytes[2] == UInt8(ascii: "t") {
        precondition(bytes[3] != UInt8(ascii: " "), "the canary sings")
    }
}
