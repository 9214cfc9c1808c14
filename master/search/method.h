// What the methods of search share; nobody else includes it. A method is a row of functions over
// its own part of `struct search`.
#ifndef MUSTER_MASTER_SEARCH_METHOD_H
#define MUSTER_MASTER_SEARCH_METHOD_H

#include "base/rng.h"
#include "master/search/crowd.h"
#include "master/search/search.h"

struct search_method {
    const char *name;                                                       // as in searcher.name
    int (*set_up)(struct search *s, const json_t *config, struct error *e); // NULL: nothing to do
    void (*tell)(struct search *s, const struct search_event *event, struct search_commands *out);
    json_t *(*save)(const struct search *s); // an object
    void (*load)(struct search *s, const json_t *saved);
    json_t *(*ladder)(const struct search *s); // NULL: it has no rungs
    void (*drop)(struct search *s);            // NULL: nothing to give back
};

struct search {
    const struct search_method *method;
    json_t *space; // hyperparameters, typed
    int64_t seed;
    struct rng rng;
    double progress;
    bool changed; // by the last event: more than its progress
    union {
        struct {
            bool ended;
        } single;
        struct crowd crowd;
    } of;
};

extern const struct search_method search_single, search_random, search_grid, search_halving,
    search_adaptive;

// One command more, zeroed but for its kind.
struct search_command *search_command_add(struct search_commands *out,
                                          enum search_command_kind kind);

// One point of the space: constants as they are, ranges drawn. The caller's.
json_t *search_draw(const json_t *space, struct rng *rng);
bool search_varies(const json_t *space); // something in it is not a constant
// The points of a grid: every combination, the last hyperparameter changing first.
int64_t search_grid_points(const json_t *space); // INT64_MAX: more than can be counted
json_t *search_grid_point(const json_t *space, int64_t number); // from 0; the caller's

#endif
