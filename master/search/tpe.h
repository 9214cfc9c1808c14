// The model of the tree-structured Parzen estimator (Bergstra et al., NIPS 2011, section 4): the
// trials so far are split into good and bad ones, and a new point is one that is much likelier
// among the good ones. Pure and single-threaded, as the search that owns it.
#ifndef MUSTER_MASTER_SEARCH_TPE_H
#define MUSTER_MASTER_SEARCH_TPE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/rng.h"

struct tpe;

// ERR_INVALID, ERR_TOO_LARGE: max_trials, startup_trials, candidates or good_fraction is out of its
// bounds.
int tpe_new(const json_t *config, struct tpe **out, struct error *e);
void tpe_free(struct tpe *t); // NULL is allowed

// Whether enough trials have ended for the model; until then, points are drawn at random.
bool tpe_has_model(const struct tpe *t);
// The point of trial `number`, which is running then. The caller owns it.
json_t *tpe_draw(struct tpe *t, const json_t *space, int64_t number, struct rng *rng);
// `metric`: smaller is better; INFINITY: the trial failed, or reported none.
void tpe_end(struct tpe *t, int64_t number, double metric);

json_t *tpe_save(const struct tpe *t);
void tpe_load(struct tpe *t, const json_t *saved);

#endif
