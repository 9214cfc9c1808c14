// The interface between search.c and the search methods; private to this folder. A method is a
// table of functions over its own part of `struct search`.
#ifndef MUSTER_MASTER_SEARCH_METHOD_H
#define MUSTER_MASTER_SEARCH_METHOD_H

#include "base/rng.h"
#include "master/search/brackets.h"
#include "master/search/pbt.h"
#include "master/search/search.h"

struct search_method {
    const char *name; // the value of searcher.name
    bool resumes;     // it may run a trial again that has ended
    int (*set_up)(struct search *s, const json_t *config, struct error *e); // may be NULL
    void (*handle_event)(struct search *s, const struct search_event *event,
                         struct search_commands *out);
    json_t *(*save)(const struct search *s); // an object
    void (*load)(struct search *s, const json_t *saved);
    bool (*covers)(const struct search *s, size_t trials); // NULL: always
    json_t *(*rungs)(const struct search *s);              // NULL: no rungs
    void (*free)(struct search *s);                        // may be NULL
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
        struct pbt_search pbt;
    } of;
};

extern const struct search_method search_single, search_random, search_grid, search_halving,
    search_adaptive, search_hyperband, search_tpe, search_pbt;

// A length of training: a number or {unit: number}; 0: neither.
double search_amount(const json_t *length);
// The length of a complete training: max_time, or the older max_length, a number or {unit: number};
// 1 if neither is given.
double search_whole_time(const json_t *searcher);

// Appends a command that is zeroed except for its kind.
struct search_command *search_command_add(struct search_commands *out,
                                          enum search_command_kind kind);

// A new point of the space; value_of() gives the value of each leaf, in the order of the file.
// `old`: the leaf's value in the point `old`, or NULL. The caller owns the result.
typedef json_t *search_value_of(const json_t *leaf, const json_t *old, void *ctx);
json_t *search_make_point(const json_t *space, const json_t *old, search_value_of *value_of,
                          void *ctx);
void search_visit(const json_t *space, void (*leaf)(const json_t *leaf, void *ctx), void *ctx);
// The value of a leaf at a place of its range: the number, the exponent of a log, the index of a
// category.
json_t *search_leaf_value(const json_t *leaf, double at);
json_t *search_draw_leaf(const json_t *leaf, struct rng *rng);

// Draws one point of the space; constants stay. The caller owns the result.
json_t *search_draw(const json_t *space, struct rng *rng);
bool search_varies(const json_t *space); // at least one value is not a constant
// The points of a grid are all combinations; the last hyperparameter varies fastest.
int64_t search_grid_points(const json_t *space);                // INT64_MAX: too many to count
json_t *search_grid_point(const json_t *space, int64_t number); // from 0; the caller owns it

#endif
