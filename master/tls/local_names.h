// The names and addresses by which others may reach this machine. Any thread.
#ifndef MUSTER_MASTER_TLS_LOCAL_NAMES_H
#define MUSTER_MASTER_TLS_LOCAL_NAMES_H

#include "master/tls/x509.h"

// Adds localhost and the addresses of this machine, except those of a single link, as far as there
// is room.
void local_names_add_addresses(struct x509_names *names);

// Adds the name of this machine, and its full name if the resolver knows one; may ask DNS.
void local_names_add_host(struct x509_names *names);

#endif
