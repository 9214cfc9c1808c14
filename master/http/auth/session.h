// The session of the web page: its token is in a cookie, which browsers send automatically. So a
// call that changes something must prove that it comes from a page of this master. Any thread.
#ifndef MUSTER_MASTER_HTTP_AUTH_SESSION_H
#define MUSTER_MASTER_HTTP_AUTH_SESSION_H

#include <stdbool.h>

#include "base/error.h"
#include "master/common/request.h"
#include "master/http/auth/auth.h"

// Reads the token of a Cookie header. False: there is none, it is not a token, or several differ.
bool session_token(const char *cookies, char out[TOKEN_TEXT]);

// Returns whether a call with this method may change something: all except GET and HEAD.
bool session_needs_origin(const char *method);

// ERR_FORBIDDEN: the call comes from another site, or does not say from where. `tls`: by https.
int session_check_origin(struct request *rq, bool tls, struct error *e);

// The value of Set-Cookie, in the request's arena; token "": delete the cookie.
const char *session_cookie(struct request *rq, const char *token, bool tls);

#endif
