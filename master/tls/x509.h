// Keys and certificates of the master's own authority, by GnuTLS: ECDSA on P-256 with SHA-256,
// which every TLS library and browser accepts. Any thread. PEM texts are heap strings of the
// caller.
#ifndef MUSTER_MASTER_TLS_X509_H
#define MUSTER_MASTER_TLS_X509_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/hash.h"

enum { X509_NAMES_MAX = 64, X509_NAME = 254 };

// Host names and addresses for which a certificate is valid.
struct x509_names {
    char items[X509_NAMES_MAX][X509_NAME];
    size_t count;
};

// Adds a DNS name or an IP address, unless it is there already. False: there is no room, or it is
// neither.
bool x509_names_add(struct x509_names *names, const char *name);
bool x509_names_has(const struct x509_names *names, const char *name);

struct x509_identity {
    char *cert, *key; // PEM
};

struct x509_facts {
    struct x509_names names;
    int64_t begins, ends; // seconds since 1970
    char fingerprint[SHA256_HEX];
};

// Makes an authority that signs for `days` from `now` (seconds since 1970).
int x509_make_authority(const char *common_name, int64_t now, int days, struct x509_identity *out,
                        struct error *e);

// Makes a key and a certificate of a server for these names, signed by the authority. It never
// outlives the authority.
int x509_make_server(const struct x509_identity *authority, const struct x509_names *names,
                     int64_t now, int days, struct x509_identity *out, struct error *e);

// Reads the first certificate of a PEM text. ERR_INVALID.
int x509_read(const char *pem, struct x509_facts *out, struct error *e);

// The fingerprint of the last certificate of a PEM text: that of the authority in a chain.
// *self_signed: it is an authority of its own, and not an intermediate one.
int x509_read_top(const char *pem, char fingerprint[SHA256_HEX], bool *self_signed,
                  struct error *e);

// Whether the key belongs to the first certificate.
bool x509_keys_match(const struct x509_identity *i);

// The same, and the authority has signed it.
bool x509_belong(const struct x509_identity *server, const char *authority_cert);

void x509_identity_free(struct x509_identity *i); // clears the key

#endif
