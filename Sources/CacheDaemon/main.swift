// cache-daemon: reads the options, builds the server, runs it.

import Glibc
import Primitives

Main.run()
