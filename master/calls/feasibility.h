// Whether a submission could ever run (fits.c). Core thread alone; changes nothing.
#ifndef MUSTER_MASTER_CALLS_FEASIBILITY_H
#define MUSTER_MASTER_CALLS_FEASIBILITY_H

#include "base/text/json.h"
#include "master/teams/teams.h"

// ERR_INVALID: never as things are configured (a pool that is not there, over the maximum of the
// workspace or of the user in it).
int fits_check(struct core *c, const json_t *config, const struct workspace *ws, int64_t user,
               struct error *e);

// A sentence when the agents that are there now are too few or too small, or its search is probably
// not what was meant; heap, NULL: all is well.
char *fits_warning(struct core *c, const json_t *config);

#endif
