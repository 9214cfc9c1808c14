#include "master/http/limits/bodies.h"

#include "base/limits.h"
#include "base/text/json.h"

enum { FEW_FILES = 1 << 20 }; // bytes of a body

static const struct body_limit limits[] = {
    [BODY_NONE] = {LIMIT_BODY_CALL, LIMIT_JSON_TREE / 8},
    [BODY_LOGIN] = {LIMIT_BODY_LOGIN, LIMIT_JSON_TREE / 8},
    [BODY_CALL] = {LIMIT_BODY_CALL, LIMIT_JSON_TREE / 4},
    [BODY_REPORT] = {LIMIT_BODY_SMALL, LIMIT_JSON_TREE},
    [BODY_FILES] = {LIMIT_BODY, LIMIT_JSON_TREE},
};

const struct body_limit *body_limit_of(const struct route *route)
{
    return &limits[route->auth == AUTH_NONE ? BODY_LOGIN : route->body];
}

void bodies_init(struct bodies *b, size_t most)
{
    static const size_t usual[BODY_KINDS] = {[BODY_NONE] = LIMIT_BODIES / 16,
                                             [BODY_LOGIN] = LIMIT_BODIES / 16,
                                             [BODY_CALL] = LIMIT_BODIES / 4,
                                             [BODY_REPORT] = LIMIT_BODIES / 2,
                                             [BODY_FILES] = LIMIT_BODIES};
    for (int i = 0; i < BODY_KINDS; i++)
        b->of[i].most = most ? most : usual[i];
}

struct account *bodies_account(struct bodies *b, const struct route *route, size_t length)
{
    enum route_body kind = route->auth == AUTH_NONE ? BODY_LOGIN : route->body;
    if (kind == BODY_FILES && length <= FEW_FILES)
        kind = BODY_REPORT;
    return &b->of[kind];
}

int account_hold(struct account *a, size_t *own, size_t bytes, struct error *e)
{
    if (bytes <= *own)
        return 0;
    size_t more = bytes - *own, held = atomic_load(&a->held);
    do {
        if (held > *own && held + more > a->most)
            return error_set(e, ERR_UNAVAILABLE,
                             "the master is taking in as much as it may at once; try again in a "
                             "moment");
    } while (!atomic_compare_exchange_weak(&a->held, &held, held + more));
    *own = bytes;
    return 0;
}

void account_lower(struct account *a, size_t *own, size_t bytes)
{
    if (bytes >= *own)
        return;
    atomic_fetch_sub(&a->held, *own - bytes);
    *own = bytes;
}

int body_weigh(const struct route *route, const char *text, size_t len, size_t *weight,
               struct error *e)
{
    size_t most = body_limit_of(route)->weight;
    *weight = json_tree_bytes(text, len);
    if (*weight <= most + len)
        return 0;
    return error_set(e, ERR_TOO_LARGE,
                     "the request body is of so many values that they would take %zu MB of memory; "
                     "%zu MB are allowed: send them in several calls",
                     *weight >> 20, (most + len) >> 20);
}
