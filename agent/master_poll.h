// The long-poll with the master: one call at a time, which the event loop may cancel and repeat at
// any moment. It has no thread of its own and belongs to the loop's thread. Any thread may call
// master_poll_wake().
#ifndef MUSTER_AGENT_MASTER_POLL_H
#define MUSTER_AGENT_MASTER_POLL_H

#include <curl/curl.h>
#include <jansson.h>
#include <stdbool.h>

#include "agent/master_client.h"
#include "base/error.h"

struct master_poll; // opaque

int master_poll_open(const struct master_endpoint *master, const char *agent_id,
                     struct master_poll **out, struct error *e);
void master_poll_close(struct master_poll *s); // cancels the call

// Cancels the present call, if any, and posts `body`. Takes ownership of `body`.
void master_poll_send(struct master_poll *s, json_t *body);
bool master_poll_is_pending(const struct master_poll *s); // a call is in progress

// Waits for an event of the call or of `fds`, for master_poll_wake(), or for `timeout_ms`.
void master_poll_wait(struct master_poll *s, struct curl_waitfd *fds, unsigned count,
                      int timeout_ms);
void master_poll_wake(void *poll);

// 1: the call has ended, and the caller owns *answer. 0: there is no call, or it is in progress.
// Negative: the call has failed: ERR_AUTH or ERR_FORBIDDEN (the token), ERR_CONFLICT (another agent
// with this id), ERR_UNAVAILABLE (no connection), ERR_TIMEOUT, ERR_PEER and others.
int master_poll_result(struct master_poll *s, json_t **answer, struct error *e);

// Writes the local address of the route to the master, at which other machines of the cluster reach
// this one, to `out`; "" if it is unknown.
void master_poll_local_address(const struct master_poll *s, char *out, size_t cap);

#endif
