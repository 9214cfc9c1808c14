// The text of a request's address: percent decoding, path parts, query parameters. Pure; the memory
// is the request's arena.
//
// A parameter is found in both key cases of the wire: "rankIds", "rank_ids".
#ifndef MUSTER_MASTER_HTTP_QUERY_H
#define MUSTER_MASTER_HTTP_QUERY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/error.h"

enum { QUERY_PAIRS_MAX = 256 };

struct query_pair {
    const char *name, *value;
};

struct query {
    struct query_pair *pairs;
    size_t count;
};

// Decodes %XX in place ('+' to a blank when `form`). ERR_INVALID: a broken escape, a NUL, no UTF-8.
int query_decode(char *text, bool form);

// "a=1&b=2" to pairs, decoded. `text` is cut up. More than QUERY_PAIRS_MAX: ERR_TOO_LARGE.
int query_parse(struct arena *arena, char *text, struct query *out, struct error *e);

const char *query_get(const struct query *q, const char *name); // the first; NULL when absent

// Every value of a parameter that may be repeated; at most `max` go into out. The count of all.
size_t query_all(const struct query *q, const char *name, const char **out, size_t max);

bool query_flag(const struct query *q, const char *name); // "true", "1", ..; false when absent

#endif
