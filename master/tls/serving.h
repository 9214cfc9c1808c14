// The certificate with which the server meets its callers. A thread looks every few seconds whether
// the files have changed and serves new connections with the new certificate, so a renewal needs no
// restart. One at a time in a process, because libmicrohttpd asks for the certificate without a
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
    const char *data_dir;             // whose certificate is renewed when due; NULL: another's
};

// ERR_INVALID: the files are no certificate and its key.
int serving_start(const struct serving_options *options, struct serving **out, struct error *e);
void serving_stop(struct serving *s); // and frees; NULL is allowed

// How callers are to recognize the master: the SHA-256 of the authority in its chain, or "" if the
// chain ends in an authority that the callers' systems are to know. Any thread.
void serving_fingerprint(struct serving *s, char out[SHA256_HEX]);

// For libmicrohttpd (MHD_OPTION_HTTPS_CERT_CALLBACK).
int serving_retrieve(gnutls_session_t session, const gnutls_datum_t *authorities,
                     int authority_count, const gnutls_pk_algorithm_t *algorithms,
                     int algorithm_count, gnutls_pcert_st **certs, unsigned *cert_count,
                     gnutls_privkey_t *key);

#endif
