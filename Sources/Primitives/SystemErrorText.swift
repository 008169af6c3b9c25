// The system's words for what went wrong.

import Glibc

/// The text of an `errno` value, such as `No such file or directory`; see strerror(3).
public func systemErrorText(_ number: Int32) -> String {
    // SAFETY: strerror(3) always returns a string, in glibc one of the calling thread's own; it is copied at once.
    unsafe String(cString: strerror(number))
}
