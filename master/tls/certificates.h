// The folder DATA_DIR/tls: the cluster's own certificate authority (ca.pem, ca.key) and the
// certificate of the master that it signs (server.pem with the authority behind it, server.key).
// One process writes it at a time; a crash between two files leaves a pair that does not belong
// together, which the next call makes again.
#ifndef MUSTER_MASTER_TLS_CERTIFICATES_H
#define MUSTER_MASTER_TLS_CERTIFICATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "master/tls/x509.h"

enum {
    AUTHORITY_DAYS = 3650,
    SERVER_DAYS = 397,       // the most that browsers accept is 398
    SERVER_RENEW_DAYS = 120, // renewed when it has fewer days left
};

struct certificates_report { // the state after certificates_init()
    bool made_authority, made_server;
    char fingerprint[SHA256_HEX];        // of the authority
    struct x509_names names;             // of the master's certificate
    int64_t authority_ends, server_ends; // seconds since 1970
};

// Makes what is missing in DATA_DIR/tls. `names`: further host names and addresses of the master.
// Files get the owner of DATA_DIR, so that root may make them for the daemon's user. `now`: seconds
// since 1970. ERR_INVALID: a name is none. ERR_STATE: the authority's key is not there.
int certificates_init(const char *data_dir, const char *const *names, size_t name_count,
                      int64_t now, struct certificates_report *out, struct error *e);

// Whether DATA_DIR/tls has an authority or a certificate of the master: a file that was lost must
// not turn https into http.
bool certificates_exist(const char *data_dir);

// Renews the certificate of the master if it ends soon, is damaged, or lacks an address that this
// machine has now. *renewed: it did. ERR_STATE: as certificates_init().
int certificates_renew(const char *data_dir, int64_t now, bool *renewed, struct error *e);

char *certificates_path(const char *data_dir, const char *file); // DATA_DIR/tls/FILE; heap

#endif
