// HTTP client: blocking JSON calls over libcurl. A client belongs to one thread at a time and keeps
// its connection open between calls; another thread ends its calls by the cancel flag.
//
// Paths are complete ("/api/v1/me"). The caller owns answers (json_decref); `answer` may be NULL.
// Errors contain the server's own sentence if there is one ({"error":{"error":..}} or
// {"message":..}), otherwise what failed, the address, and what to do.
#ifndef MUSTER_API_CLIENT_H
#define MUSTER_API_CLIENT_H

#include <curl/curl.h>
#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum client_auth {
    CLIENT_NO_AUTH,
    CLIENT_BEARER, // user or agent: Authorization: Bearer T
    CLIENT_TASK,   // task: Grpc-Metadata-x-allocation-token: Bearer T
};

// plain_exchange() of api/http/plain.h, which is no part of programs that do not name it.
struct plain_call;
typedef CURLcode client_exchange(struct plain_call *call);

struct client_options {
    const char *url; // "http://host:port", "https://..", or "host:port" (http)
    enum client_auth auth;
    const char *token;     // NULL: none yet (client_set_token)
    const char *ca_file;   // PEM trusted in addition to the system's; NULL: only the system's
    bool only_ca_file;     // the system's authorities are not trusted
    int connect_timeout_s; // 0: 5 seconds
    int timeout_s;         // of a whole client_call; 0: 60. Streams and downloads have no limit.
    int silence_s;         // of an event stream (events.h), after which it is lost; 0: 45
    const atomic_bool *cancel; // set by any thread: calls end within a second (ERR_TIMEOUT)
    client_exchange *plain;    // makes the first calls without libcurl, if it can; NULL: none
};

struct client; // opaque

int client_open(const struct client_options *options, struct client **out, struct error *e);
void client_close(struct client *c); // NULL is allowed
void client_set_token(struct client *c, enum client_auth auth, const char *token);

// Makes one call. `body` NULL: none. A 2xx with an empty body gives an empty object.
// ERR_UNAVAILABLE: no answer; ERR_TIMEOUT; ERR_PEER: the answer is not JSON.
int client_call(struct client *c, const char *method, const char *path, const json_t *body,
                json_t **answer, struct error *e);

// The same, repeated after connection failures, timeouts, 429, 502, 503 and 504, until the
// monotonic time `deadline` (microseconds). A certificate that is not trusted ends it, unless the
// server has answered an earlier call of this client: then the certificate may have expired, and
// the call is repeated, too. The pause doubles from 0.1 s to 5 s, or is what Retry-After asks for.
// Only for idempotent calls. The error is that of the last try.
int client_call_retry(struct client *c, const char *method, const char *path, const json_t *body,
                      int64_t deadline, json_t **answer, struct error *e);

// The last call failed because the server's certificate is not trusted, or not for this name.
bool client_is_untrusted(const struct client *c);

// HTTP status of the last call; 0: no answer. Retry-After of the last answer in seconds, at most a
// minute; 0: not given.
int client_status(const struct client *c);
int64_t client_retry_after(const struct client *c);

// Reads a stream of JSON lines (GET). The value of each {"result":..} line goes to on_line
// (borrowed); an {"error":..} line ends the stream with that error. on_line returns 0 to continue,
// 1 to end the stream, or a negative error with *e set. ERR_TOO_LARGE: a line longer than
// LIMIT_BODY_SMALL.
typedef int client_on_line(void *ctx, const json_t *result, struct error *e);
int client_stream(struct client *c, const char *path, client_on_line *on_line, void *ctx,
                  struct error *e);

// Writes a binary body (GET) to `fd` at its current offset; `accept` NULL: any type. After an error
// the file may contain a part of it.
int client_download(struct client *c, const char *path, const char *accept, int fd,
                    struct error *e);

// `text` percent-encoded for a part of a path or a query value; heap string.
char *client_escape(const char *text);

#endif
