// What the Libevent module needs of libevent, without libevent's own headers.
//
// Those bring <sys/select.h> along, whose fd_set depends on feature macros: as seen from a module of ours it may differ
// from the one in Swift's Glibc module, and then the two cannot be imported together. This header includes nothing;
// CLibevent.c includes the real ones, so that the C compiler checks every call.

#ifndef CLIBEVENT_H
#define CLIBEVENT_H

typedef struct event_base clibevent_base;
typedef struct event clibevent_event;

// What an event waits for; combined with |. See event.h, EV_READ and the following.
enum {
    CLIBEVENT_READABLE = 1,
    CLIBEVENT_WRITABLE = 2,
    CLIBEVENT_SIGNAL = 4,
    CLIBEVENT_PERSISTENT = 8,
};

// The library's version, a constant string.
const char *clibevent_version(void);

// A base without locks, for one thread; NULL with errno set when the kernel refuses.
clibevent_base *clibevent_base_new(void);
void clibevent_base_free(clibevent_base *base);

// Runs the actions of the events that are ready; sleeps until there is one, if so wanted. -1 on failure.
int clibevent_base_turn(clibevent_base *base, int waits);

// An event that is not yet pending. NULL when memory is refused. `descriptor` is an fd, a signal, or -1 for a timer.
clibevent_event *clibevent_event_new(
    clibevent_base *base, int descriptor, int kinds, void (*fire)(void *argument), void *argument);
// Takes the event off its base first.
void clibevent_event_free(clibevent_event *event);

// Makes the event pending, with a timeout in milliseconds unless that is negative. -1 with errno set on failure.
int clibevent_event_add(clibevent_event *event, long long milliseconds);
int clibevent_event_remove(clibevent_event *event);

// HTTP, see event2/http.h: a server on a base, of the same thread. Requests other than GET and HEAD are refused, large
// ones too, and connections that are silent for `timeout_seconds` are closed. `serve` must reply before it returns.
typedef struct evhttp clibevent_http;
typedef struct evhttp_request clibevent_request;
clibevent_http *clibevent_http_new(
    clibevent_base *base, int timeout_seconds, void (*serve)(clibevent_request *request, void *argument),
    void *argument);
// Closes the listeners and all connections.
void clibevent_http_free(clibevent_http *http);
// Accepts on a bound, listening, non-blocking socket and takes it over; -1 when memory is refused.
int clibevent_http_accept(clibevent_http *http, int fd);
int clibevent_request_is_head(clibevent_request *request);
// The request's path and query as sent, valid until the reply.
const char *clibevent_request_target(clibevent_request *request);
// What the request's Host header says, valid until the reply; NULL without one.
const char *clibevent_request_host(clibevent_request *request);
// Replies once: `headers` is a list of names and values that ends with NULL.
void clibevent_request_reply(
    clibevent_request *request, int status, const char *reason, const char *const *headers, const void *bytes,
    unsigned long count);

// Two Linux calls that Swift's Glibc module leaves out: eventfd(2) and accept4(2), non-blocking and close-on-exec.
int clibevent_eventfd(void);
int clibevent_accept(int listener);

#endif
