// glibc's fd_set layout must match Glibc's Swift module, which is built with _GNU_SOURCE.
#define _GNU_SOURCE 1
#include <event2/event.h>
#include <event2/listener.h>
#include <event2/thread.h>
#include <event2/util.h>
