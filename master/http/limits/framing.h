// Checks that the headers of a request leave no doubt about its end and its host. Otherwise a proxy
// before this master may take the end of one caller's request for the beginning of another's (RFC
// 9112, 11.2); libmicrohttpd takes the first of two headers and passes on unknown ones. Any thread
// that has the connection.
#ifndef MUSTER_MASTER_HTTP_LIMITS_FRAMING_H
#define MUSTER_MASTER_HTTP_LIMITS_FRAMING_H

#include <microhttpd.h>

#include "base/error.h"

// ERR_INVALID: nothing after these headers may be read.
int framing_check(struct MHD_Connection *connection, struct error *e);

#endif
