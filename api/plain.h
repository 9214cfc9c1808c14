// HTTP/1.1 over a plain socket, for the client (client.h): one call at a time, on a connection that
// is kept. It is what commands pay beside their work, so it needs no library; what it does not know
// (TLS, proxies) is libcurl's. A connection belongs to one thread at a time.
#ifndef MUSTER_API_PLAIN_H
#define MUSTER_API_PLAIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum plain_end {
    PLAIN_DONE,
    PLAIN_STOPPED, // by take()
    PLAIN_CANCELLED,
    PLAIN_TIMEOUT,
    PLAIN_FAILED, // there is no connection, or what came is no HTTP
};

struct plain_call {
    const char *head; // request line and headers but Host and Content-Length, each with its CRLF
    const char *body; // NULL: none, and no length is sent
    size_t body_len;
    int64_t connect_us;        // the longest that connecting may take
    int64_t deadline;          // monotonic time of the whole; INT64_MAX: none
    const atomic_bool *cancel; // NULL: cannot be cancelled
    // Parts of the answer's body as they come; other than 0 ends the call.
    int (*take)(void *ctx, int status, const char *bytes, size_t len);
    void *ctx;
    int status;       // of the answer; 0: none came
    char detail[256]; // why it timed out or failed
};

struct plain; // opaque

// Of "http://HOST[:PORT][/PATH]"; NULL: another kind of address.
struct plain *plain_new(const char *url);
void plain_free(struct plain *p);
bool plain_is_loopback(const struct plain *p);
const char *plain_path(const struct plain *p); // that of the address, "" when it has none

enum plain_end plain_perform(struct plain *p, struct plain_call *call);

#endif
