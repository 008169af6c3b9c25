// What Package.swift declares, read as text: the names of its targets and the dependencies of the product's modules.

/// The targets of a tree's Package.swift.
struct PackageManifest {
    /// Names of all targets.
    private(set) var targetNames: Set<String> = []
    /// Dependencies of the targets declared with `layer` and `program`.
    private(set) var dependencies: [String: Set<String>] = [:]
    /// Names of the C modules.
    private(set) var systemLibraries: Set<String> = []

    init(_ tree: SourceTree) {
        guard let manifest = tree.file("Package.swift") else { return }
        let text = manifest.text
        for match in text.matches(of: /(?:layer|program)\(\s*"(\w+)"(?:,\s*\[([^\]]*)\])?/) {
            let name = String(match.1)
            targetNames.insert(name)
            dependencies[name] = Set((match.2 ?? "").matches(of: /"(\w+)"/).map { String($0.1) })
        }
        for match in text.matches(of: /\.systemLibrary\(\s*name: "(\w+)"/) {
            targetNames.insert(String(match.1))
            systemLibraries.insert(String(match.1))
        }
        for match in text.matches(of: /\.(?:target|executableTarget|testTarget)\(\s*name: "(\w+)"/) {
            targetNames.insert(String(match.1))
        }
        for match in text.matches(of: /\btests\("(\w+)"/) { targetNames.insert(String(match.1)) }
    }
}
