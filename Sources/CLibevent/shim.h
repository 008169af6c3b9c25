// No _GNU_SOURCE here: fd_set must look as it does to the modules Glibc and CDispatch, or they cannot be mixed.
#include <event2/event.h>
#include <event2/event_struct.h>
// Swift's Glibc module does not have eventfd(2).
#include <sys/eventfd.h>
#include <sys/socket.h>
// Guarded by _GNU_SOURCE in <sys/socket.h>.
extern int accept4(int fd, struct sockaddr *address, socklen_t *length, int flags);
