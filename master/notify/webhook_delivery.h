// Sends what lies in the outbox of webhooks. One thread of its own, up to SENDS addresses at once,
// one event at a time to each and in the order of the events; nothing waits for it.
//
// It looks into the store once a second, so it needs no word from the core, and goes on with what
// an earlier start of the master has left. An event that was taken (2xx) leaves the outbox; one
// that the receiver refuses for good (3xx, 4xx but 408 and 429) does too. Otherwise it is tried
// again after 1, 2, 4 .. 600 seconds for a day. A master that dies between the receiver's answer
// and the commit sends again: receivers tell that by event_id.
//
// Signatures are Determined's: X-Determined-AI-Signature is hex HMAC-SHA256 of "TIMESTAMP,BODY"
// with the key, X-Determined-AI-Signature-Timestamp its timestamp.
//
// Where it may send to: addresses that an administrator of the cluster has set may lie anywhere.
// Those of others may not lie in private networks, on this machine or its links; that is decided by
// the address that is connected to, so no name can lead there. Redirects are not followed.
#ifndef MUSTER_MASTER_NOTIFY_WEBHOOK_DELIVERY_H
#define MUSTER_MASTER_NOTIFY_WEBHOOK_DELIVERY_H

#include <stdbool.h>
#include <sys/socket.h>

#include "db/db.h"

enum { SENDS = 16, SEND_TIMEOUT_S = 10 };

struct delivery; // opaque

// `key` is the text of the signatures' key. Starts the thread.
int delivery_start(struct db *db, const char *key, struct delivery **out, struct error *e);
void delivery_stop(struct delivery *d); // what is under way is tried again later; NULL is fine

// One attempt, in the caller's thread: ERR_PEER says what went wrong.
int delivery_try(struct delivery *d, const char *url, bool anywhere, const char *body,
                 struct error *e);

// The key in a file; made, when there is no such file. Heap string.
int delivery_key(const char *path, char **out, struct error *e);

// Seconds until the next attempt, after so many.
int64_t delivery_backoff(int64_t attempts);

// Removes http_proxy, https_proxy, all_proxy and no_proxy from the environment, in any letter case:
// webhooks go to the address that was checked, never through a proxy. Before any thread starts.
void delivery_forget_proxies(void);

// Whether an address is one that everybody may reach.
bool delivery_is_public(const struct sockaddr *address);

#endif
