// HTTP client: blocking JSON calls over libcurl. A client belongs to one thread at a time (it keeps
// its connection open between calls); another thread ends its calls through the cancel flag.
//
// Paths are given whole ("/api/v1/me"). Answers belong to the caller (json_decref); `answer` may be
// NULL when it does not matter. Errors carry the server's own sentence where there is one
// ({"error":{"error":..}} or {"message":..}), else what failed, the address, and what to do.
#ifndef MUSTER_API_CLIENT_H
#define MUSTER_API_CLIENT_H

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

struct client_options {
    const char *url; // "http://host:port", "https://..", or "host:port" (http)
    enum client_auth auth;
    const char *token;         // NULL: none yet (client_set_token)
    const char *ca_file;       // PEM trusted beside the system's; NULL: the system's alone
    int connect_timeout_s;     // 0: 5
    int timeout_s;             // of a whole client_call; 0: 60. Streams and downloads have none.
    const atomic_bool *cancel; // set by any thread: calls end within a second (ERR_TIMEOUT)
};

struct client; // opaque

int client_open(const struct client_options *options, struct client **out, struct error *e);
void client_close(struct client *c); // NULL is fine
void client_set_token(struct client *c, enum client_auth auth, const char *token);

// One call. `body` NULL sends none. A 2xx with an empty body gives an empty object.
// ERR_UNAVAILABLE: nobody answered; ERR_TIMEOUT; ERR_PEER: an answer that is no JSON.
int client_call(struct client *c, const char *method, const char *path, const json_t *body,
                json_t **answer, struct error *e);

// The same, repeated on connection failures, timeouts, 429, 502, 503 and 504 with a backoff that
// doubles from 0.1 s to 5 s, or what Retry-After asks for, until the monotonic time `deadline`
// (microseconds). Use it for idempotent calls only. The error is that of the last try.
int client_call_retry(struct client *c, const char *method, const char *path, const json_t *body,
                      int64_t deadline, json_t **answer, struct error *e);

// HTTP status of the last call; 0 when no answer came. And after how many seconds, at most a
// minute, it may be made again (Retry-After); 0: the answer did not say.
int client_status(const struct client *c);
int64_t client_retry_after(const struct client *c);

// A stream of JSON lines (GET). {"result":..} lines are handed to on_line as their inner value
// (borrowed); an {"error":..} line ends the stream with that error. on_line returns 0 to go on, 1
// to end the stream well, or a negative error with *e filled. A line longer than LIMIT_BODY_SMALL
// is ERR_TOO_LARGE.
typedef int client_on_line(void *ctx, const json_t *result, struct error *e);
int client_stream(struct client *c, const char *path, client_on_line *on_line, void *ctx,
                  struct error *e);

// A binary body (GET) written to `fd` from its present offset; `accept` NULL: anything. After an
// error the descriptor may hold a part of it.
int client_download(struct client *c, const char *path, const char *accept, int fd,
                    struct error *e);

// `text` percent-encoded for a path part or a query value; heap string.
char *client_escape(const char *text);

#endif
