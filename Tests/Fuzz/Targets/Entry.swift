// Where libFuzzer enters: each target is this file and one that defines `fuzz`.
//
// A finding is a trap, a report of AddressSanitizer, or a hang. A target may keep state between inputs only if an
// input's outcome does not depend on it.

/// Called by libFuzzer with one input after another.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzOneInput(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    fuzz(UnsafeRawBufferPointer(start: start, count: count))
    return 0
}
