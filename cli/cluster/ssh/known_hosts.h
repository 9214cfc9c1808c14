// The host keys that the user has accepted, in the files of OpenSSH: ~/.ssh/known_hosts and
// /etc/ssh/ssh_known_hosts.
#ifndef MUSTER_CLI_CLUSTER_SSH_KNOWN_HOSTS_H
#define MUSTER_CLI_CLUSTER_SSH_KNOWN_HOSTS_H

#include <libssh2.h>
#include <stdbool.h>

#include "base/error.h"

// Asks the server for a key of the kind that is known for this host, before the handshake.
void known_hosts_prefer(LIBSSH2_SESSION *s, const char *host, int port);

// Checks the server's key after the handshake. ERR_FORBIDDEN: it is unknown (unless accept_new,
// which adds it to the user's file), or another one is known.
int known_hosts_check(LIBSSH2_SESSION *s, const char *host, int port, bool accept_new,
                      struct error *e);

#endif
