// The HTTP wrapper: what a request says, and what an answer looks like on the wire.

import Foundation
import Testing

@testable import Libevent

struct HTTPRequestTests {
    @Test("a target is split at its first question mark, and parameters are whole numbers or absent")
    func target() {
        let request = HTTPRequest(target: "/stats.json?a=1&since=-42&b=?&since=7")
        #expect(request.path == "/stats.json" && request.query == "a=1&since=-42&b=?&since=7")
        #expect(request.integer("since") == -42)
        #expect(request.integer("b") == nil && request.integer("c") == nil)
        #expect(HTTPRequest(target: "/").query.isEmpty)
        #expect(HTTPRequest(target: "").path.isEmpty)
    }
}
