// How a client comes to trust a master whose authority its system does not know: it fetches the
// certificates that the server shows, over a connection on which it says nothing, and compares the
// authority's fingerprint with one that it got another way. The calls afterwards use a connection
// of their own that verifies this authority. Any thread.
#ifndef MUSTER_API_HTTP_TRUST_H
#define MUSTER_API_HTTP_TRUST_H

#include <stddef.h>

#include "base/error.h"
#include "base/hash.h"

enum { TRUST_CHAIN_MAX = 16 };

struct trust_chain { // what the server shows, its own certificate first
    struct {
        char *pem; // owned
        char fingerprint[SHA256_HEX];
    } items[TRUST_CHAIN_MAX];
    size_t count;
};

// Fetches the chain of the server at an https:// address; verifies nothing, sends no request.
// ERR_UNAVAILABLE, ERR_TIMEOUT: no connection. ERR_PEER: no TLS, or no certificate.
int trust_fetch(const char *url, struct trust_chain *out, struct error *e);
void trust_free(struct trust_chain *chain);

// The authority with that fingerprint in the chain of the server, as PEM (heap). ERR_PEER: the
// server shows another one; the message has both fingerprints.
int trust_fetch_authority(const char *url, const char *fingerprint, char **pem, struct error *e);

// The fingerprint of the last certificate of a PEM text. ERR_INVALID.
int trust_fingerprint(const char *pem, char out[SHA256_HEX], struct error *e);

#endif
