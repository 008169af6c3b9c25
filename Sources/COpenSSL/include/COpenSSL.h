// What the TLS module needs of OpenSSL, without OpenSSL's own headers.
//
// Those are full of macros and inline functions that Swift cannot call, and bring half of libc's headers along. This
// header includes nothing; COpenSSL.c includes the real ones, so that the C compiler checks every call.

#ifndef COPENSSL_H
#define COPENSSL_H

typedef struct ssl_ctx_st copenssl_context;
typedef struct ssl_st copenssl_session;

// What a step of a session comes to, where it is not a number of bytes.
enum {
    COPENSSL_ENDED = 0,         // the peer has closed its side
    COPENSSL_WANTS_READ = -1,   // try again when the socket is readable
    COPENSSL_WANTS_WRITE = -2,  // try again when the socket is writable
    COPENSSL_FAILED = -3,       // the peer breaks the protocol, or is not trusted
    COPENSSL_BROKEN = -4,       // the connection is gone
};

// Whether clients are asked for a certificate.
enum { COPENSSL_ASK_NOT = 0, COPENSSL_ASK = 1, COPENSSL_DEMAND = 2 };

// A context for servers or clients that speaks TLS 1.`minor` or newer. NULL when memory is refused.
copenssl_context *copenssl_context_new(int is_server, int minor);
void copenssl_context_free(copenssl_context *context);

// The functions below return 1, or 0 with the reason to be had from copenssl_reason.

// Uses the certificate chain and the private key of two PEM files, which may be one.
int copenssl_use_identity(copenssl_context *context, const char *chain_path, const char *key_path);
// A server: asks clients for certificates of the authorities in the PEM file.
int copenssl_ask_clients(copenssl_context *context, int mode, const char *authorities_path);
// A client: trusts servers with certificates of the authorities in the PEM file, of the system's if that is NULL.
int copenssl_trust(copenssl_context *context, const char *authorities_path);

// Seconds from now until the context's certificate expires, negative afterwards, 0 if there is none.
long long copenssl_seconds_left(const copenssl_context *context);

// A session over a connected, non-blocking socket, which stays the caller's. NULL when memory is refused.
copenssl_session *copenssl_session_new(copenssl_context *context, int fd, int is_server);
// A client: the name or numeric address that the server's certificate must be for. 1, or 0.
int copenssl_expect_host(copenssl_session *session, const char *host);
void copenssl_session_free(copenssl_session *session);

// One step each; the result is a number of bytes (1 for the handshake), or one of the negative values above, or 0.
long copenssl_handshake(copenssl_session *session);
long copenssl_read(copenssl_session *session, void *room, unsigned long count);
long copenssl_write(copenssl_session *session, const void *bytes, unsigned long count);
// Whether bytes were taken from the socket that were not given to the caller yet.
int copenssl_has_pending(const copenssl_session *session);
// Tells the peer that nothing more comes, if the socket takes it.
void copenssl_say_goodbye(copenssl_session *session);
// The protocol in use, such as "TLSv1.3": a constant string.
const char *copenssl_version(const copenssl_session *session);

// Writes the reason of this thread's last failure into `text`, terminated.
void copenssl_reason(char *text, unsigned long capacity);

#endif
