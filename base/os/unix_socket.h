// Stream sockets in folders. A socket address has at most 107 bytes, but the path of the folder may
// be longer, so the address goes through an open descriptor of the folder. Any thread.
#ifndef MUSTER_BASE_OS_UNIX_SOCKET_H
#define MUSTER_BASE_OS_UNIX_SOCKET_H

#include "base/error.h"

// Both sockets are close-on-exec and non-blocking. The caller closes *fd, which is -1 after an
// error (ERR_UNAVAILABLE). unix_socket_listen() replaces an old socket of that name.
int unix_socket_listen(const char *dir, const char *name, int backlog, int *fd, struct error *e);
int unix_socket_connect(const char *dir, const char *name, int *fd, struct error *e);

#endif
