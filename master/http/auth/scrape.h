// GET /metrics is open to administrators, and also to a monitoring system with the token of
// the file DATA_DIR/metrics.token, and, unless the master was told otherwise, callers on this
// machine. Any thread.
#ifndef MUSTER_MASTER_HTTP_AUTH_SCRAPE_H
#define MUSTER_MASTER_HTTP_AUTH_SCRAPE_H

#include <stdbool.h>

#include "base/error.h"
#include "base/hash.h"

enum scrape_from {
    SCRAPE_LOOPBACK, // with a token, or without one from this machine
    SCRAPE_TOKEN,    // with a token
    SCRAPE_ALL,      // everybody
};

struct scrape_access {
    enum scrape_from from;
    char token[SHA256_HEX]; // the SHA-256 of the token; "": there is none
};

// "loopback", "token" or "all". ERR_INVALID.
int scrape_from_parse(const char *word, enum scrape_from *out, struct error *e);

// Reads the token from the file, which is made if it does not exist.
int scrape_read_token(const char *path, struct scrape_access *out, struct error *e);

struct scrape_caller {
    const char *address;       // "192.0.2.1"; "": unknown
    const char *authorization; // the header; NULL: absent
    bool has_other_token;      // in another header or a cookie
    bool is_forwarded;         // a header says that a proxy passes the request on
};

// Whether the caller may read without further proof. A caller who shows another token is judged by
// that one. A proxy on this machine passes on requests from elsewhere, so a request that names one
// is not from here.
bool scrape_may(const struct scrape_access *a, const struct scrape_caller *who);

#endif
