/* <malloc.h>, which Swift's Glibc module leaves out. See malloc_trim(3). */
#ifndef CACHE_DAEMON_CMALLOC_SHIM_H
#define CACHE_DAEMON_CMALLOC_SHIM_H

#include <malloc.h>

#endif
