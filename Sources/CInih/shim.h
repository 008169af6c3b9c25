/* Debian's libinih: the INI parser. */
#ifndef CACHE_DAEMON_CINIH_SHIM_H
#define CACHE_DAEMON_CINIH_SHIM_H

#include <ini.h>

/* The library's settings are global variables, which Swift 6 refuses to touch. Debian's default of 200 bytes a line is
   too short for a path. The line buffer has `bytes` bytes, terminator included, and lives on the stack of the parse. */
static inline void inih_set_line_bytes_max(int bytes) { ini_max_line = bytes; }

#endif
