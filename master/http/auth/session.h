// The session of the web page: its token in a cookie, which browsers send by themselves. So a call
// that changes something must show that it comes from a page of this master. Any thread.
#ifndef MUSTER_MASTER_HTTP_AUTH_SESSION_H
#define MUSTER_MASTER_HTTP_AUTH_SESSION_H

#include <stdbool.h>

#include "base/error.h"
#include "master/common/request.h"
#include "master/http/auth/auth.h"

// The token in a header Cookie. False: there is none, it is no token, or several differ.
bool session_token(const char *cookies, char out[TOKEN_TEXT]);

// Whether a call of this method may change something: all but GET and HEAD.
bool session_needs_origin(const char *method);

// ERR_FORBIDDEN: the call comes from elsewhere, or does not say from where. `tls`: by https.
int session_check_origin(struct request *rq, bool tls, struct error *e);

// The value of Set-Cookie; token "": forget it. In the request's arena.
const char *session_cookie(struct request *rq, const char *token, bool tls);

#endif
