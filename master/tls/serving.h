// The certificate with which the server meets its callers. A thread looks every few seconds whether
// the files have changed and serves new connections with the new certificate, so a renewal needs no
// restart. A renewal that fails is logged once a day, and the present certificate stays. There is
// one `struct serving` in a process, because libmicrohttpd asks for the certificate without a
// context. The main thread starts and stops it.
#ifndef MUSTER_MASTER_TLS_SERVING_H
#define MUSTER_MASTER_TLS_SERVING_H

#include <stdbool.h>

#include <gnutls/abstract.h>

#include "base/error.h"
#include "base/hash.h"

struct serving; // opaque

struct serving_options {
    const char *cert_file, *key_file; // PEM; live as long
    const char *data_dir; // the files are those of its folder tls, renewed when due; NULL: others
};

// ERR_INVALID: the files are no certificate and its key. ERR_STATE: they are missing, and cannot be
// made, because the authority's key is not there.
int serving_start(const struct serving_options *options, struct serving **out, struct error *e);
void serving_stop(struct serving *s); // and frees; NULL is allowed

// The SHA-256 of the authority in the chain, by which callers recognize the master; "": the chain
// ends in an authority that the callers' systems must know. Any thread.
void serving_fingerprint(struct serving *s, char out[SHA256_HEX]);

// For libmicrohttpd (MHD_OPTION_HTTPS_CERT_CALLBACK).
int serving_retrieve(gnutls_session_t session, const gnutls_datum_t *authorities,
                     int authority_count, const gnutls_pk_algorithm_t *algorithms,
                     int algorithm_count, gnutls_pcert_st **certs, unsigned *cert_count,
                     gnutls_privkey_t *key);

#endif
