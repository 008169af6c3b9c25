"""kill -9 under load with each policy of what goes to disk, and when: nothing torn, stale or resurrected.

With these policies entries may be lost by a kill, because they were not on disk yet; what is found must be the newest.
"""

from crash import Checker

KILLS, SHORT_KILLS = 200, 8
POLICIES = {
    "on_evict": ["--disk-write", "on_evict"],
    "second_hit": ["--disk-admission", "second_hit"],
    "on_evict and second_hit": ["--disk-write", "on_evict", "--disk-admission", "second_hit"],
    "a write budget": ["--disk-write-budget", "64MiB"],
}


def run(torture):
    kills = torture.pick(SHORT_KILLS, KILLS)
    for name, options in POLICIES.items():
        if torture.options.only and torture.options.only not in name:
            continue
        with torture.case(f"{kills} kills, {name}") as texts:
            with torture.daemon(memory="1MiB", options=["--disk-journal", "1MiB", *options]) as server:
                checker = Checker(server, torture.seed, may_vanish=True)
                while checker.counts["kills"] < kills and not checker.wrong:
                    checker.cycles(min(kills, checker.counts["kills"] + 10))
                    torture.progress(name, checker.counts["kills"], kills)
                checker.require_clean()
                texts.append(f"{checker.counts['acknowledged']} acknowledged, 0 wrong")
