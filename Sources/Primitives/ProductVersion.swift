// The one place that knows the version of the product. All programs print it.

/// The version of this release, as in `cache-daemon --version`.
public let productVersion = "0.1.0"
