// The calls that the header promises, against OpenSSL's real headers. No policy but what every use needs: no old
// protocols, no renegotiation, no compression, no questions on the terminal, and no SIGPIPE. See ssl(7ssl).

#define _GNU_SOURCE 1

#include "COpenSSL.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

// A socket BIO of our own: OpenSSL's writes with write(2), which raises SIGPIPE.

static int descriptor(BIO *bio) { return (int)(intptr_t)BIO_get_data(bio); }

static int socket_write(BIO *bio, const char *bytes, int count) {
    BIO_clear_retry_flags(bio);
    ssize_t sent = send(descriptor(bio), bytes, (size_t)count, MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_write(bio);
    return (int)sent;
}

static int socket_read(BIO *bio, char *room, int count) {
    BIO_clear_retry_flags(bio);
    ssize_t got = recv(descriptor(bio), room, (size_t)count, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_read(bio);
    if (got == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
    return (int)got;
}

static long socket_control(BIO *bio, int command, long number, void *pointer) {
    (void)number;
    (void)pointer;
    if (command == BIO_CTRL_EOF) return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
    return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *method;

static void make_method(void) {
    method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket without SIGPIPE");
    if (method == NULL) return;
    BIO_meth_set_write(method, socket_write);
    BIO_meth_set_read(method, socket_read);
    BIO_meth_set_ctrl(method, socket_control);
}

// A key with a passphrase is refused rather than asked for on the terminal.
static int no_passphrase(char *text, int capacity, int is_writing, void *argument) {
    (void)text;
    (void)capacity;
    (void)is_writing;
    (void)argument;
    return 0;
}

copenssl_context *copenssl_context_new(int is_server, int minor) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_method);
    if (method == NULL) return NULL;
    SSL_CTX *context = SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method());
    if (context == NULL) return NULL;
    SSL_CTX_set_min_proto_version(context, minor >= 3 ? TLS1_3_VERSION : TLS1_2_VERSION);
    // A peer that just closes has sent what it had: requests and replies say by themselves whether they are whole.
    SSL_CTX_set_options(
        context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF
                     | SSL_OP_CIPHER_SERVER_PREFERENCE);
    // Buffers of idle sessions are given back; what is retried may have moved meanwhile.
    SSL_CTX_set_mode(
        context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_default_passwd_cb(context, no_passphrase);
    if (is_server) {
        // Sessions are resumed by tickets, which the client keeps.
        SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
        SSL_CTX_set_read_ahead(context, 1);
        static const unsigned char name[] = "cache-daemon";
        SSL_CTX_set_session_id_context(context, name, sizeof name - 1);
    }
    return context;
}

void copenssl_context_free(copenssl_context *context) { SSL_CTX_free(context); }

int copenssl_use_identity(copenssl_context *context, const char *chain_path, const char *key_path) {
    ERR_clear_error();
    return SSL_CTX_use_certificate_chain_file(context, chain_path) == 1
        && SSL_CTX_use_PrivateKey_file(context, key_path, SSL_FILETYPE_PEM) == 1
        && SSL_CTX_check_private_key(context) == 1;
}

int copenssl_ask_clients(copenssl_context *context, int mode, const char *authorities_path) {
    ERR_clear_error();
    if (mode == COPENSSL_ASK_NOT) return 1;
    if (SSL_CTX_load_verify_file(context, authorities_path) != 1) return 0;
    STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(authorities_path);
    if (names == NULL) return 0;
    SSL_CTX_set_client_CA_list(context, names);
    SSL_CTX_set_verify(
        context, SSL_VERIFY_PEER | (mode == COPENSSL_DEMAND ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0), NULL);
    return 1;
}

int copenssl_trust(copenssl_context *context, const char *authorities_path) {
    ERR_clear_error();
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    if (authorities_path == NULL) return SSL_CTX_set_default_verify_paths(context) == 1;
    return SSL_CTX_load_verify_file(context, authorities_path) == 1;
}

long long copenssl_seconds_left(const copenssl_context *context) {
    X509 *certificate = SSL_CTX_get0_certificate(context);
    int days = 0;
    int seconds = 0;
    if (certificate == NULL || ASN1_TIME_diff(&days, &seconds, NULL, X509_get0_notAfter(certificate)) != 1) return 0;
    return days * 86400LL + seconds;
}

copenssl_session *copenssl_session_new(copenssl_context *context, int fd, int is_server) {
    SSL *session = SSL_new(context);
    if (session == NULL) return NULL;
    BIO *bio = BIO_new(method);
    if (bio == NULL) {
        SSL_free(session);
        return NULL;
    }
    BIO_set_data(bio, (void *)(intptr_t)fd);
    BIO_set_init(bio, 1);
    SSL_set_bio(session, bio, bio);
    if (is_server) SSL_set_accept_state(session); else SSL_set_connect_state(session);
    return session;
}

int copenssl_expect_host(copenssl_session *session, const char *host) {
    struct in6_addr address;
    if (inet_pton(AF_INET, host, &address) == 1 || inet_pton(AF_INET6, host, &address) == 1) {
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(session), host) == 1;
    }
    return SSL_set_tlsext_host_name(session, host) == 1 && SSL_set1_host(session, host) == 1;
}

void copenssl_session_free(copenssl_session *session) { SSL_free(session); }

static long outcome(SSL *session, int result) {
    switch (SSL_get_error(session, result)) {
        case SSL_ERROR_WANT_READ: return COPENSSL_WANTS_READ;
        case SSL_ERROR_WANT_WRITE: return COPENSSL_WANTS_WRITE;
        case SSL_ERROR_ZERO_RETURN: return COPENSSL_ENDED;
        case SSL_ERROR_SYSCALL: return COPENSSL_BROKEN;
        default: return COPENSSL_FAILED;
    }
}

long copenssl_handshake(copenssl_session *session) {
    ERR_clear_error();
    int result = SSL_do_handshake(session);
    return result == 1 ? 1 : outcome(session, result);
}

long copenssl_read(copenssl_session *session, void *room, unsigned long count) {
    size_t moved = 0;
    ERR_clear_error();
    int result = SSL_read_ex(session, room, count, &moved);
    return result == 1 ? (long)moved : outcome(session, result);
}

long copenssl_write(copenssl_session *session, const void *bytes, unsigned long count) {
    size_t moved = 0;
    ERR_clear_error();
    int result = SSL_write_ex(session, bytes, count, &moved);
    return result == 1 ? (long)moved : outcome(session, result);
}

int copenssl_has_pending(const copenssl_session *session) { return SSL_has_pending(session); }

void copenssl_say_goodbye(copenssl_session *session) {
    ERR_clear_error();
    (void)SSL_shutdown(session);
    ERR_clear_error();
}

const char *copenssl_version(const copenssl_session *session) { return SSL_get_version(session); }

void copenssl_reason(char *text, unsigned long capacity) {
    unsigned long code = ERR_peek_last_error();
    const char *reason = ERR_reason_error_string(code);
    if (ERR_SYSTEM_ERROR(code)) {
        snprintf(text, capacity, "%s", strerror_r(ERR_GET_REASON(code), (char[128]){0}, 128));
    } else if (reason != NULL) {
        snprintf(text, capacity, "%s", reason);
    } else {
        snprintf(text, capacity, "error %lx", code);
    }
    ERR_clear_error();
}
