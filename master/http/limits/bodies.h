// Limits the memory of request bodies: the length of a body by kind of call, the size of its parsed
// JSON, and the sum of all, so that no number of callers fills the memory. Any thread.
#ifndef MUSTER_MASTER_HTTP_LIMITS_BODIES_H
#define MUSTER_MASTER_HTTP_LIMITS_BODIES_H

#include <stdatomic.h>

#include "base/error.h"
#include "master/http/routing/routes.h"

struct body_limit {
    size_t bytes;
    size_t weight; // of its JSON in memory (json_tree_bytes), in addition to its text
};

const struct body_limit *body_limit_of(const struct route *route);

struct account { // for calls of one kind, so that large ones do not block small ones
    atomic_size_t held;
    size_t most;
};

struct bodies {
    struct account of[BODY_KINDS];
};

void bodies_init(struct bodies *b, size_t most); // `most`: of each account; 0: default
// `length`: the announced length; SIZE_MAX: unknown.
struct account *bodies_account(struct bodies *b, const struct route *route, size_t length);

// Raises *own, the bytes that one call holds, to at least `bytes`. ERR_UNAVAILABLE: other calls
// hold too much; a single call is never refused.
int account_hold(struct account *a, size_t *own, size_t bytes, struct error *e);
void account_lower(struct account *a, size_t *own, size_t bytes); // lowers *own to `bytes`

// ERR_TOO_LARGE: the text has so many small values that their parsed form would be far larger.
int body_weigh(const struct route *route, const char *text, size_t len, size_t *weight,
               struct error *e);

#endif
