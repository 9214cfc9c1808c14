// What the methods of search share; nobody else includes it. A method is a row of functions over
// its own part of `struct search`.
#ifndef MUSTER_MASTER_SEARCH_METHOD_H
#define MUSTER_MASTER_SEARCH_METHOD_H

#include "base/rng.h"
#include "master/search/search.h"

struct search_method {
    const char *name; // as in searcher.name
    void (*tell)(struct search *s, const struct search_event *event, struct search_commands *out);
    json_t *(*save)(const struct search *s); // an object
    void (*load)(struct search *s, const json_t *saved);
};

struct search {
    const struct search_method *method;
    json_t *space; // hyperparameters, typed
    int64_t seed;
    struct rng rng;
    double progress;
    union {
        struct {
            bool ended;
        } single;
    } of;
};

extern const struct search_method search_single;

// One command more, zeroed but for its kind.
struct search_command *search_command_add(struct search_commands *out,
                                          enum search_command_kind kind);

// One point of the space: constants as they are, ranges drawn. The caller's.
json_t *search_draw(const json_t *space, struct rng *rng);

#endif
