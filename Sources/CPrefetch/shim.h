/* The processor's prefetch instruction, for which Swift has no name. See __builtin_prefetch in GCC's manual. */
#ifndef CACHE_DAEMON_CPREFETCH_SHIM_H
#define CACHE_DAEMON_CPREFETCH_SHIM_H

/* Begins to fetch the cache line at an address, which may be any: nothing is read and nothing can fail. */
static inline void cprefetch(const void *address) { __builtin_prefetch(address); }

#endif
