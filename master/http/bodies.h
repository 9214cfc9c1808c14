// Memory that bodies of calls take: how long a body each kind of call may have, how much its JSON
// may become in memory, and an account of all of them, so that no number of callers fills the
// master. Any thread.
#ifndef MUSTER_MASTER_HTTP_BODIES_H
#define MUSTER_MASTER_HTTP_BODIES_H

#include <stdatomic.h>

#include "base/error.h"
#include "master/http/routes.h"

struct body_limit {
    size_t bytes;
    size_t weight; // of its JSON in memory (json_weight), beside its texts
};

const struct body_limit *body_limit_of(const struct route *route);

struct account { // of calls of one kind: large ones do not keep small ones out
    atomic_size_t held;
    size_t most;
};

struct bodies {
    struct account of[BODY_KINDS];
};

void bodies_init(struct bodies *b, size_t most); // `most`: of each account; 0: as usual
// `length`: as the call announces it; SIZE_MAX: it does not.
struct account *bodies_account(struct bodies *b, const struct route *route, size_t length);

// Makes *own, what one call holds, at least `bytes`. ERR_UNAVAILABLE: the others hold too much for
// that; but who is alone always may.
int account_hold(struct account *a, size_t *own, size_t bytes, struct error *e);
void account_lower(struct account *a, size_t *own, size_t bytes); // to that, if it is more

// ERR_TOO_LARGE: the text is of so many small values that they would take far more than its length.
int body_weigh(const struct route *route, const char *text, size_t len, size_t *weight,
               struct error *e);

#endif
