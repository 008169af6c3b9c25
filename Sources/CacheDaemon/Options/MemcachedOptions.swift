// memcached's `-o name,name=value,...`: what start scripts pass there, as far as it means something here.
//
// `idle_timeout` and most TLS options have counterparts. Names that tune memcached's own memory management are accepted
// without effect and named in the log, so that such scripts work; those that ask for something which would then be
// missing are refused.

import Primitives

/// What an extended option of memcached means here.
enum MemcachedOption {
    /// Names without effect: this server has no size classes, LRU segments or crawler thread to tune.
    private static let withoutEffect: Set<String> = [
        "modern", "no_modern", "maxconns_fast", "hashpower", "no_hashexpand", "hash_algorithm", "tail_repair_time",
        "slab_reassign", "no_slab_reassign", "slab_automove", "slab_automove_ratio", "slab_automove_window",
        "slab_automove_freeratio", "slab_chunk_max", "lru_crawler", "no_lru_crawler", "lru_crawler_sleep",
        "lru_crawler_tocrawl", "lru_maintainer", "no_lru_maintainer", "hot_lru_pct", "warm_lru_pct", "hot_max_factor",
        "warm_max_factor", "temporary_ttl", "worker_logbuf_size", "watcher_logbuf_size", "track_sizes",
        "read_buf_mem_limit", "resp_obj_mem_limit", "no_inline_ascii_resp", "inline_ascii_resp", "drop_privileges",
        "no_drop_privileges", "relaxed_privileges", "ssl_wbuf_size", "ssl_session_cache", "ssl_kernel_tls",
    ]

    /// memcached's names of TLS options that we have.
    private static let encryption = [
        "ssl_chain_cert": "tls.certificate", "ssl_key": "tls.key", "ssl_ca_cert": "tls.client_ca",
        "ssl_verify_mode": "tls.client_certificates", "ssl_min_version": "tls.min_version",
    ]

    /// Takes one of memcached's TLS options; two of them have numbers for values.
    private static func applyEncryption(
        _ option: String, _ name: String, _ value: String?, to draft: inout SettingsDraft
    ) {
        let words: [String: String]? =
            switch name {
            case "ssl_verify_mode": ["1": "optional", "2": "required", "3": "required"]
            case "ssl_min_version": ["2": "1.2", "3": "1.3"]
            default: nil
            }
        let place = OptionOrigin.flag("-o \(name)")
        // Mode 0 asks for nothing, which is so without authorities.
        if name == "ssl_verify_mode", value == "0" { return }
        guard let value, let spec = OptionSpec.named[option],
            let text = words.map({ $0[value] }) ?? value
        else {
            let known = words.map { $0.keys.sorted().joined(separator: ", ") } ?? "a path"
            return draft.note(OptionProblem(place, "needs one of: \(known)"))
        }
        draft.apply(spec, flag: text, asTyped: "-o \(name)")
    }

    /// Takes the value of one `-o`.
    static func apply(_ list: String, to draft: inout SettingsDraft) {
        for item in list.split(separator: ",", omittingEmptySubsequences: false) {
            let parts = item.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            apply(parts[0], parts.count > 1 ? parts[1] : nil, to: &draft)
        }
    }

    private static func apply(_ name: String, _ value: String?, to draft: inout SettingsDraft) {
        let place = OptionOrigin.flag("-o \(name)")
        if name == "idle_timeout" {
            guard let value, let spec = OptionSpec.named["idle_timeout"] else {
                return draft.note(OptionProblem(place, "needs seconds, as in -o idle_timeout=60"))
            }
            // memcached: plain seconds, and 0 for never.
            if value == "0" { return }
            return draft.apply(spec, flag: value + "s", asTyped: "-o idle_timeout")
        }
        if let option = encryption[name] { return applyEncryption(option, name, value, to: &draft) }
        if withoutEffect.contains(name) { return draft.settings.optionsWithoutEffect.append("-o \(name)") }
        let reason =
            switch name {
            case _ where name.hasPrefix("ext_"): "memcached's extstore; use --dir and --disk for the disk tier"
            case _ where name.hasPrefix("ssl_"): "has no counterpart; see the tls options"
            case _ where name.hasPrefix("proxy_"): "there is no proxy"
            default: "unknown; only idle_timeout=SECONDS has a meaning here"
            }
        draft.note(OptionProblem(place, reason))
    }
}
