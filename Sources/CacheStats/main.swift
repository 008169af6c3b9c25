// cache-stats: shows what a memcached-compatible server is doing, to people or, as JSON, to programs.

import Glibc

exit(runStats(Array(CommandLine.arguments.dropFirst())))
