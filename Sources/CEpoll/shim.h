/* <sys/epoll.h>, which Swift's Glibc module leaves out. See epoll(7). */
#ifndef CACHE_DAEMON_CEPOLL_SHIM_H
#define CACHE_DAEMON_CEPOLL_SHIM_H

#include <sys/epoll.h>

#endif
