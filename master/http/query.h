// The text of a request's address: percent decoding, parts of the path, query parameters. Pure;
// memory comes from the request's arena.
//
// A parameter is found in both spellings of the API: "rankIds" and "rank_ids".
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

// Decodes %XX in place ('+' becomes a blank if `form`). ERR_INVALID: a broken escape, a NUL,
// invalid UTF-8.
int query_decode(char *text, bool form);

// Splits "a=1&b=2" into decoded pairs; `text` is modified. ERR_TOO_LARGE: more than
// QUERY_PAIRS_MAX.
int query_parse(struct arena *arena, char *text, struct query *out, struct error *e);

const char *query_get(const struct query *q, const char *name); // the first value; NULL: absent

// Writes at most `max` values of a repeated parameter to `out`; returns their total number.
size_t query_all(const struct query *q, const char *name, const char **out, size_t max);

bool query_flag(const struct query *q, const char *name); // "true", "1", ..; false if absent

#endif
