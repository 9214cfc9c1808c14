// Delivers the events in the outbox of webhooks. One thread sends to up to SENDS webhooks at once,
// one event at a time to each, in the order of the events; nothing waits for it.
//
// The core wakes the thread after it has committed an event. The thread also polls the store once a
// second, for repetitions and for the work of an earlier start of the master. A delivered event
// (2xx) leaves the outbox, and so does one that the receiver refuses for good (3xx, 4xx except 408
// and 429). Any other failure is retried after 1, 2, 4 .. 600 seconds, for a day. A master that
// dies between the receiver's answer and the commit sends the event again: receivers recognize it
// by event_id.
//
// Signatures are Determined's: X-Determined-AI-Signature is the hex HMAC-SHA256 of "TIMESTAMP,BODY"
// with the key, X-Determined-AI-Signature-Timestamp its timestamp.
//
// A URL that an administrator of the cluster has set may lie anywhere. Any other URL must not lie
// in a private network, on this machine or its links; the check uses the address of the connection
// itself, so no host name can avoid it. Redirects are not followed.
#ifndef MUSTER_MASTER_NOTIFY_WEBHOOK_DELIVERY_H
#define MUSTER_MASTER_NOTIFY_WEBHOOK_DELIVERY_H

#include <stdbool.h>
#include <sys/socket.h>

#include "db/db.h"

enum { SENDS = 16, SEND_TIMEOUT_S = 10 };

struct delivery; // opaque

// Starts the thread. `key`: the text of the signature key.
int delivery_start(struct db *db, const char *key, struct delivery **out, struct error *e);
// The next start tries unfinished sends again. NULL is fine.
void delivery_stop(struct delivery *d);

// Sends what is new in the outbox without delay; ctx is the struct delivery. Any thread.
void delivery_wake(void *ctx);

// One attempt in the caller's thread. ERR_PEER says what went wrong.
int delivery_try(struct delivery *d, const char *url, bool anywhere, const char *body,
                 struct error *e);

// Reads the key from a file, which is made if it does not exist. Heap string.
int delivery_key(const char *path, char **out, struct error *e);

// Seconds until the next attempt, after `attempts` failed ones.
int64_t delivery_backoff(int64_t attempts);

// Removes http_proxy, https_proxy, all_proxy and no_proxy from the environment, in any letter case:
// webhooks connect to the checked address, never through a proxy. Call it before any thread starts.
void delivery_forget_proxies(void);

// Whether an address is reachable for everybody.
bool delivery_is_public(const struct sockaddr *address);

#endif
