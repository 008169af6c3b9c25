"""What is measured: the rows of requests, and the profiles of real caches.

The profiles follow published distributions: `web` is the median cluster of Twitter's 2020 study, `session` small
values that are written as often as read, `thumb` the table of a CDN, `chunk` segments of logs and video, `llm` answers
of models that are written once.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Workload:
    """One row: options of cache-bench, and of the server where they differ from the run's."""

    name: str
    title: str
    keys: int
    load: str
    connections: int = 0
    threads: int = 1
    memory_mib: int = 0
    warms: bool = True
    evicts: bool = False
    # Of the run's seconds.
    share: float = 1


ROWS = [
    Workload("mixed-p1", "get/set 10:1, 100 B, pipeline 1", 100_000, "--ratio 1:10 --value-size 100 --pipeline 1"),
    Workload("mixed-p16", "get/set 10:1, 100 B, pipeline 16", 100_000, "--ratio 1:10 --value-size 100 --pipeline 16"),
    Workload("mixed-p100", "get/set 10:1, 100 B, pipeline 100", 100_000,
             "--ratio 1:10 --value-size 100 --pipeline 100"),
    Workload("get-1k", "get 1 KiB, pipeline 16", 100_000, "--ratio 0:1 --value-size 1KiB --pipeline 16"),
    Workload("get-100k", "get 100 KB, pipeline 4", 1000, "--ratio 0:1 --value-size 100000 --pipeline 4"),
    Workload("miss", "get that misses, pipeline 16", 100_000, "--ratio 0:1 --value-size 100 --pipeline 16",
             warms=False),
    Workload("rss", "2 M entries of 100 B: memory per entry", 2_000_000,
             "--ratio 0:1 --value-size 100 --pipeline 100"),
]

SHAPES = [
    Workload("overwrite", "set 100 B over set, pipeline 16", 100_000, "--ratio 1:0 --value-size 100 --pipeline 16"),
    Workload("evict", "set 100 B, ten times more than fits, pipeline 16", 4_000_000,
             "--ratio 1:0 --value-size 100 --pipeline 16", memory_mib=64, evicts=True, warms=False),
    Workload("one", "get/set 10:1, 100 B, pipeline 1, 1 connection", 100_000,
             "--ratio 1:10 --value-size 100 --pipeline 1", connections=1),
    Workload("thousand", "get/set 10:1, 100 B, pipeline 1, 1,000 connections", 100_000,
             "--ratio 1:10 --value-size 100 --pipeline 1", connections=1000),
    Workload("hot", "get/set 10:1 of 1 key, 100 B, pipeline 16, 2 threads", 1,
             "--ratio 1:10 --value-size 100 --pipeline 16", threads=2),
    Workload("two", "get/set 10:1, 100 B, pipeline 16, 2 threads", 100_000,
             "--ratio 1:10 --value-size 100 --pipeline 16", threads=2),
]

PROFILES = [
    Workload("web", "224 B median, get/set 9:1, Zipf 0.9, pipeline 1", 500_000,
             "--ratio 1:9 --value-size web --distribution zipf:0.9 --key-size 36", evicts=True),
    Workload("session", "2 KB, get/set 6:4, Zipf 0.9, pipeline 1", 200_000,
             "--ratio 4:6 --value-size session --distribution zipf:0.9 --key-size 36", evicts=True),
    Workload("thumb", "13 KB median, get/set 9:1, Zipf 0.9, pipeline 1", 20_000,
             "--ratio 1:9 --value-size thumb --distribution zipf:0.9 --key-size 36", evicts=True),
    Workload("chunk", "256 KB to 2 MB, get/set 9:1, uniform, pipeline 1", 500,
             "--ratio 1:9 --value-size chunk --key-size 66", connections=10, evicts=True),
    Workload("llm", "20 KB, get/set 9:1, Zipf 0.7, pipeline 1", 20_000,
             "--ratio 1:9 --value-size llm --distribution zipf:0.7 --key-size 66", evicts=True),
]

ALL = ROWS + [replace(workload, share=1 / 2) for workload in SHAPES + PROFILES]
GROUPS = {"rows": ROWS, "shapes": SHAPES, "profiles": PROFILES}


def seconds_of(workload, options, subjects):
    """How long a workload takes, roughly: start and stop, filling, and two loads."""
    keys = (workload.keys // 10 if options.short else workload.keys) if workload.warms else 0
    load = options.seconds * workload.share
    return subjects * options.rounds * (1 + keys / 400_000 + min(load, 1) + load)
