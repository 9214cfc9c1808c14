// log_policies of an experiment (policies.c). Core thread alone, but for policies_new(): any
// thread.
#ifndef MUSTER_MASTER_CORE_POLICIES_H
#define MUSTER_MASTER_CORE_POLICIES_H

#include "master/core/state.h"

// *out: NULL where none does anything. ERR_INVALID: a pattern that is no regular expression.
int policies_new(const json_t *config, struct policies **out, struct error *e);
void policies_free(struct policies *p); // NULL is fine

void policies_line(struct core *c, struct trial *t, const char *agent, const char *line);
int policies_load(struct core *c, struct trial *t, struct error *e); // the lines it has so far

#endif
