/* glibc's <getopt.h>, which Swift's Glibc module leaves out. See getopt_long(3). */
#ifndef CACHE_DAEMON_CGETOPT_SHIM_H
#define CACHE_DAEMON_CGETOPT_SHIM_H

#include <getopt.h>

/* getopt's place and results are global variables, which Swift 6 refuses to touch. */

/* Starts a scan from the first argument; 0 is glibc's full restart. Errors are ours to print. */
static inline void getopt_restart(void) {
    optind = 0;
    opterr = 0;
}

/* The index in argv of the next argument. */
static inline int getopt_index(void) { return optind; }

/* The option that getopt stumbled over: its letter or `val`, or 0. */
static inline int getopt_culprit(void) { return optopt; }

/* The value of the option that was just read, or null. Points into argv. */
static inline const char *getopt_value(void) { return optarg; }

#endif
