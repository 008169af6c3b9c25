// From a parsed request to its handler: one switch over everything that a client can ask for.

import CacheEngine
import Primitives
import Protocol

extension Session {
    /// Executes a request whose line is the first `lineBytes` of `input`.
    @inline(__always)
    mutating func execute(
        _ request: Request, lineBytes: Int, _ input: UnsafeRawBufferPointer, _ turn: inout Turn
    ) -> Step {
        // SAFETY: the input stays in place during the call; the parser checked every range of it.
        switch request {
        case .retrieve(let retrieval):
            return unsafe retrieve(retrieval, lineBytes: lineBytes, input, &turn, isResumed: false)
        case .store(let header):
            return unsafe store(header, lineBytes: lineBytes, input, &turn)
        default:
            return unsafe executeOther(request, lineBytes: lineBytes, input, &turn)
        }
    }

    /// The requests that no client sends by the hundred thousand.
    private mutating func executeOther(
        _ request: Request, lineBytes: Int, _ input: UnsafeRawBufferPointer, _ turn: inout Turn
    ) -> Step {
        switch request {
        case .retrieve, .store:
            invariant(false, "executed before")
        case .delete(let key, let isQuiet):
            return unsafe delete(input[key], isQuiet: isQuiet, &turn).consuming(lineBytes)
        case .touch(let key, let expiration, let isQuiet):
            return unsafe touch(input[key], expiration, isQuiet: isQuiet, &turn).consuming(lineBytes)
        case .arithmetic(let key, let delta, let isIncrement, let isQuiet):
            let change = NumberChange(delta: delta, isIncrement: isIncrement)
            return unsafe arithmetic(input[key], change, isQuiet: isQuiet, &turn).consuming(lineBytes)
        case .flushAll(let delay, let isQuiet):
            return flushAll(delay, isQuiet: isQuiet, &turn).consuming(lineBytes)
        case .version:
            reply(&turn) { $0.append("VERSION \(ProductVersion.wire)\r\n") }
        case .verbosity(let level, let isQuiet):
            setVerbosity(level, isQuiet: isQuiet, &turn)
        case .stats(let argument):
            unsafe statistics(input[argument], &turn)
        case .help:
            reply(&turn) { $0.appendHelp() }
        case .cacheMemoryLimit(let mebibytes, let isQuiet):
            setMemoryLimit(mebibytes, isQuiet: isQuiet, &turn)
        case .shutdown:
            return shutdown(&turn).consuming(lineBytes)
        case .quit:
            return Step(consumed: lineBytes, stall: .closing)
        case .meta(let request):
            return unsafe executeMeta(request, lineBytes: lineBytes, input, &turn)
        default:
            reply(.error(.unknownCommand), &turn)
        }
        return .done(lineBytes)
    }

    private mutating func executeMeta(
        _ request: MetaRequest, lineBytes: Int, _ input: UnsafeRawBufferPointer, _ turn: inout Turn
    ) -> Step {
        switch request.operation {
        case .noOperation:
            reply(.metaNoOperation, &turn)
            return .done(lineBytes)
        case .get, .inspect: return unsafe metaGet(request, input, &turn).consuming(lineBytes)
        case .set: return unsafe metaSet(request, lineBytes: lineBytes, input, &turn)
        case .delete: return unsafe metaDelete(request, input, &turn).consuming(lineBytes)
        case .arithmetic: return unsafe metaArithmetic(request, input, &turn).consuming(lineBytes)
        }
    }
}

extension Step {
    /// The same with the request's line consumed, unless the request must be executed again.
    @inline(__always)
    func consuming(_ lineBytes: Int) -> Step {
        stall == nil || stall == .closing ? Step(consumed: lineBytes, stall: stall) : self
    }
}
