// Checks for our own mistakes. The world's and the clients' mistakes are errors, never invariants.

/// Traps when `condition` is false, in release builds too: going on would corrupt or serve wrong data.
@inlinable
@inline(__always)
public func invariant(
    _ condition: @autoclosure () -> Bool, _ message: @autoclosure () -> String = "", file: StaticString = #fileID,
    line: UInt = #line
) {
    precondition(condition(), message(), file: file, line: line)
}

/// Like `invariant`, for checks too costly for production: debug builds only.
@inlinable
@inline(__always)
public func expensiveInvariant(
    _ condition: @autoclosure () -> Bool, _ message: @autoclosure () -> String = "", file: StaticString = #fileID,
    line: UInt = #line
) {
    assert(condition(), message(), file: file, line: line)
}
