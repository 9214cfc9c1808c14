// The long-poll with the master, without a thread: one call at a time, which the event loop may
// drop and start anew at any moment. Belongs to the loop's thread; sync_wake() may be called by
// any.
#ifndef MUSTER_AGENT_MASTER_POLL_H
#define MUSTER_AGENT_MASTER_POLL_H

#include <curl/curl.h>
#include <jansson.h>
#include <stdbool.h>

#include "agent/master_client.h"
#include "base/error.h"

struct sync; // opaque

int sync_open(const struct master_link *master, const char *agent_id, struct sync **out,
              struct error *e);
void sync_close(struct sync *s); // drops the call

// Posts `body` (taken over), dropping the call under way.
void sync_post(struct sync *s, json_t *body);
bool sync_is_posted(const struct sync *s); // a call is under way

// Waits until something happens to the call, on one of `fds`, by sync_wake(), or `timeout_ms` pass.
void sync_wait(struct sync *s, struct curl_waitfd *fds, unsigned count, int timeout_ms);
void sync_wake(void *sync);

// 1: the call has ended with the answer in *answer (the caller's); 0: still under way, or none;
// negative: it has failed, *e says how: ERR_AUTH and ERR_FORBIDDEN (the token), ERR_CONFLICT
// (another agent of this id), ERR_UNAVAILABLE (nobody there), ERR_TIMEOUT, ERR_PEER, ..
int sync_result(struct sync *s, json_t **answer, struct error *e);

// The address of this machine on the way to the master, as other machines of the cluster should
// reach it; "" while it is not known. Into out.
void sync_local_address(const struct sync *s, char *out, size_t cap);

#endif
