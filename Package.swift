// swift-tools-version: 6.2
import PackageDescription

/// Every target of ours: language mode 6, strict memory safety, warnings are errors.
let strict: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .strictMemorySafety(),
    .treatAllWarnings(as: .error),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
]

/// Tests read the system clock, spawn processes and use Foundation; the memory-safety audit stays in Sources.
let relaxed: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .treatAllWarnings(as: .error),
    .enableUpcomingFeature("ExistentialAny"),
]

/// One module of ours.
///
/// `dependencies` is the layer rule; Tests/HouseTests/LayerRules.swift holds the imports to it.
func layer(_ name: String, _ dependencies: [Target.Dependency] = []) -> Target {
    .target(name: name, dependencies: dependencies, swiftSettings: strict)
}

func program(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .executableTarget(name: name, dependencies: dependencies, swiftSettings: strict)
}

func tests(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .testTarget(name: name, dependencies: dependencies + ["TestSupport"], swiftSettings: relaxed)
}

let package = Package(
    name: "cache-daemon",
    products: [
        .executable(name: "cache-daemon", targets: ["CacheDaemon"]),
        .executable(name: "cache-stats", targets: ["CacheStats"]),
        .executable(name: "cache-bench", targets: ["CacheBench"]),
        .executable(name: "engine-bench", targets: ["EngineBench"]),
        .library(name: "CacheEngine", targets: ["CacheEngine"]),
    ],
    targets: [
        // C libraries from Debian, one module each.
        .target(name: "CLibevent", linkerSettings: [.linkedLibrary("event_core"), .linkedLibrary("event_extra")]),
        .target(name: "COpenSSL", linkerSettings: [.linkedLibrary("ssl"), .linkedLibrary("crypto")]),
        .target(name: "CSQLite", linkerSettings: [.linkedLibrary("sqlite3")]),
        .systemLibrary(name: "CXXHash", pkgConfig: "libxxhash", providers: [.apt(["libxxhash-dev"])]),
        .systemLibrary(name: "CInih", pkgConfig: "inih", providers: [.apt(["libinih-dev"])]),
        .systemLibrary(name: "CCrypt", providers: [.apt(["libcrypt-dev"])]),
        // Parts of glibc, and of the compiler, that Swift has no names for; no pkg-config, no package of their own.
        .systemLibrary(name: "CGetopt"),
        .systemLibrary(name: "CEpoll"),
        .systemLibrary(name: "CMalloc"),
        .systemLibrary(name: "CPrefetch"),

        // Ground floor: no policy, no knowledge of caches.
        layer("Primitives"),
        layer("Hashing", ["CXXHash"]),
        layer("SQLite", ["CSQLite"]),
        layer("Libevent", ["CLibevent", "Primitives"]),
        layer("TLS", ["COpenSSL"]),
        layer("ConfigFile", ["CInih"]),
        layer("Arguments", ["CGetopt", "Primitives"]),
        layer("Crypt", ["CCrypt"]),

        // The product.
        layer("Protocol", ["Primitives"]),
        layer("CacheEngine", ["SQLite", "Hashing", "CMalloc", "CPrefetch", "Primitives"]),
        layer("CacheClient", ["TLS", "Arguments", "Primitives"]),
        program(
            "CacheDaemon",
            [
                "CacheEngine", "CacheClient", "Protocol", "Libevent", "TLS", "ConfigFile", "Arguments", "Crypt",
                "Primitives",
            ]),
        program("CacheStats", ["CacheClient", "Arguments", "Primitives"]),
        program("CacheBench", ["CacheClient", "Arguments", "CEpoll", "Primitives"]),
        program("EngineBench", ["CacheEngine", "Primitives"]),
        .executableTarget(
            name: "EmbeddedCache", dependencies: ["CacheEngine", "Primitives"], path: "Examples/EmbeddedCache",
            swiftSettings: strict),

        // Tests.
        .executableTarget(
            name: "StoreDamage", dependencies: ["CacheEngine", "TestSupport"], path: "Tests/Torture/StoreDamage",
            swiftSettings: relaxed),
        // The whole daemon on one thread; its sources a second time, through a link, so that it needs no other form.
        .target(name: "SimulatedSystem", path: "Tests/Simulation/System"),
        .executableTarget(
            name: "Simulation",
            dependencies: [
                "CacheEngine", "CacheClient", "Protocol", "Libevent", "TLS", "ConfigFile", "Arguments", "Crypt",
                "Primitives", "TestSupport", "SimulatedSystem",
            ],
            path: "Tests/Simulation", exclude: ["System", "Daemon/main.swift"], swiftSettings: relaxed),
        .target(
            name: "TestSupport", dependencies: ["Primitives"], path: "Tests/TestSupport", swiftSettings: relaxed),
        tests("PrimitivesTests", ["Primitives", "Hashing", "Arguments", "ConfigFile"]),
        tests("ProtocolTests", ["Protocol", "Primitives"]),
        tests("SQLiteTests", ["SQLite"]),
        tests("LibeventTests", ["Libevent", "Primitives"]),
        tests("CacheEngineTests", ["CacheEngine", "EmbeddedCache", "SQLite", "Hashing", "Primitives"]),
        tests(
            "CacheDaemonTests",
            ["CacheDaemon", "CacheEngine", "Protocol", "Libevent", "CacheClient", "Crypt", "Primitives"]),
        tests("CacheClientTests", ["CacheClient", "CacheStats", "CacheBench", "Arguments", "Primitives"]),
        tests("HouseTests", []),
    ]
)

// ThreadSanitizer makes Swift 6.3 reject its own code for CacheBench: such builds leave it and its tests out.
if Context.environment["CACHE_DAEMON_SANITIZER"] == "thread" {
    package.targets.removeAll { ["CacheBench", "CacheClientTests"].contains($0.name) }
    package.products.removeAll { $0.name == "cache-bench" }
}
