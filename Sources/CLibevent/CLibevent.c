// The calls that the header promises, against libevent's real headers. No policy here: see Sources/Libevent.

#define _GNU_SOURCE 1

#include "CLibevent.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sysexits.h>
#include <unistd.h>

// libevent's callback also gets descriptor and kinds; ours only the argument.
struct action {
    void (*fire)(void *argument);
    void *argument;
};

static void run(evutil_socket_t descriptor, short kinds, void *argument) {
    (void)descriptor;
    (void)kinds;
    struct action *action = argument;
    action->fire(action->argument);
}

const char *clibevent_version(void) { return event_get_version(); }

// Some refusals, such as a socket pair for a new base, libevent answers by ending the process itself, with status 1. It
// is the system that refuses, so the status is that of our own refusals; nothing may run after it.
static void end_process(int status) {
    (void)status;
    _exit(EX_OSERR);
}

static void set_fatal_callback(void) { event_set_fatal_callback(end_process); }

clibevent_base *clibevent_base_new(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, set_fatal_callback);
    struct event_config *config = event_config_new();
    if (config == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    // One thread uses the base, so its locks would be pure cost.
    event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
    struct event_base *base = event_base_new_with_config(config);
    event_config_free(config);
    return base;
}

void clibevent_base_free(clibevent_base *base) { event_base_free(base); }

int clibevent_base_turn(clibevent_base *base, int waits) {
    return event_base_loop(base, EVLOOP_ONCE | EVLOOP_NO_EXIT_ON_EMPTY | (waits ? 0 : EVLOOP_NONBLOCK));
}

clibevent_event *clibevent_event_new(
    clibevent_base *base, int descriptor, int kinds, void (*fire)(void *argument), void *argument) {
    short flags = (kinds & CLIBEVENT_READABLE ? EV_READ : 0) | (kinds & CLIBEVENT_WRITABLE ? EV_WRITE : 0)
        | (kinds & CLIBEVENT_SIGNAL ? EV_SIGNAL : 0) | (kinds & CLIBEVENT_PERSISTENT ? EV_PERSIST : 0);
    struct action *action = malloc(sizeof *action);
    if (action == NULL) return NULL;
    action->fire = fire;
    action->argument = argument;
    struct event *event = event_new(base, descriptor, flags, run, action);
    if (event == NULL) free(action);
    return event;
}

void clibevent_event_free(clibevent_event *event) {
    void *action = event_get_callback_arg(event);
    event_free(event);
    free(action);
}

int clibevent_event_add(clibevent_event *event, long long milliseconds) {
    if (milliseconds < 0) return event_add(event, NULL);
    struct timeval interval = {.tv_sec = milliseconds / 1000, .tv_usec = milliseconds % 1000 * 1000};
    return event_add(event, &interval);
}

int clibevent_event_remove(clibevent_event *event) { return event_del(event); }

clibevent_http *clibevent_http_new(
    clibevent_base *base, int timeout_seconds, void (*serve)(clibevent_request *request, void *argument),
    void *argument) {
    struct evhttp *http = evhttp_new(base);
    if (http == NULL) return NULL;
    evhttp_set_timeout(http, timeout_seconds);
    evhttp_set_max_headers_size(http, 16 << 10);
    evhttp_set_max_body_size(http, 1 << 10);
    evhttp_set_allowed_methods(http, EVHTTP_REQ_GET | EVHTTP_REQ_HEAD);
    evhttp_set_gencb(http, serve, argument);
    return http;
}

void clibevent_http_free(clibevent_http *http) { evhttp_free(http); }

int clibevent_http_accept(clibevent_http *http, int fd) { return evhttp_accept_socket(http, fd); }

int clibevent_request_is_head(clibevent_request *request) {
    return evhttp_request_get_command(request) == EVHTTP_REQ_HEAD;
}

const char *clibevent_request_target(clibevent_request *request) { return evhttp_request_get_uri(request); }

const char *clibevent_request_host(clibevent_request *request) {
    return evhttp_find_header(evhttp_request_get_input_headers(request), "Host");
}

void clibevent_request_reply(
    clibevent_request *request, int status, const char *reason, const char *const *headers, const void *bytes,
    unsigned long count) {
    struct evkeyvalq *output = evhttp_request_get_output_headers(request);
    for (; headers[0] != NULL; headers += 2) evhttp_add_header(output, headers[0], headers[1]);
    char length[24];
    snprintf(length, sizeof length, "%lu", count);
    evhttp_add_header(output, "Content-Length", length);
    struct evbuffer *body = evbuffer_new();
    if (body != NULL && !clibevent_request_is_head(request)) evbuffer_add(body, bytes, count);
    evhttp_send_reply(request, status, reason, body);
    if (body != NULL) evbuffer_free(body);
}

int clibevent_eventfd(void) { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); }

int clibevent_accept(int listener) { return accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC); }
