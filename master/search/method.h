// The interface between search.c and the search methods; private to this folder. A method is a
// table of functions over its own part of `struct search`.
#ifndef MUSTER_MASTER_SEARCH_METHOD_H
#define MUSTER_MASTER_SEARCH_METHOD_H

#include "base/rng.h"
#include "master/search/brackets.h"
#include "master/search/search.h"

struct search_method {
    const char *name; // the value of searcher.name
    bool continues;   // it handles SEARCH_CONTINUE
    int (*set_up)(struct search *s, const json_t *config, struct error *e); // may be NULL
    void (*handle_event)(struct search *s, const struct search_event *event,
                         struct search_commands *out);
    json_t *(*save)(const struct search *s); // an object
    void (*load)(struct search *s, const json_t *saved);
    json_t *(*rungs)(const struct search *s); // NULL: no rungs
    void (*free)(struct search *s);           // may be NULL
};

struct search {
    const struct search_method *method;
    json_t *space; // hyperparameters, typed
    int64_t seed;
    struct rng rng;
    double progress;
    bool changed; // the last event changed more than the progress
    union {
        struct {
            bool ended;
        } single;
        struct bracket_search bracketed;
    } of;
};

extern const struct search_method search_single, search_random, search_grid, search_halving,
    search_adaptive;

// Appends a command that is zeroed except for its kind.
struct search_command *search_command_add(struct search_commands *out,
                                          enum search_command_kind kind);

// Draws one point of the space; constants stay. The caller owns the result.
json_t *search_draw(const json_t *space, struct rng *rng);
bool search_varies(const json_t *space); // at least one value is not a constant
// The points of a grid are all combinations; the last hyperparameter varies fastest.
int64_t search_grid_points(const json_t *space);                // INT64_MAX: too many to count
json_t *search_grid_point(const json_t *space, int64_t number); // from 0; the caller owns it

#endif
