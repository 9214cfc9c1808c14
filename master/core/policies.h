// log_policies of an experiment (policies.c). Core thread alone, but for policies_check(): any
// thread.
#ifndef MUSTER_MASTER_CORE_POLICIES_H
#define MUSTER_MASTER_CORE_POLICIES_H

#include "master/core/state.h"
#include "master/core/watch.h"

struct yaml_doc;

// Of a new configuration. ERR_INVALID, ERR_TOO_LARGE: the fault of a pattern with its place there.
// `doc`: the configuration as it was written; NULL: nobody wrote it.
int policies_check(const json_t *config, const struct yaml_doc *doc, struct error *e);

// NULL where none does anything. A pattern that does not compile here stays, and says so when it is
// asked for: the store may hold what an earlier version took.
struct policies *policies_new(const json_t *config);
void policies_free(struct policies *p); // NULL is fine

// The patterns that can still change something; and what became of one.
void policies_wish(struct core *c, const struct trial *t, const char *agent, struct log_watched *w);
void policies_heard(struct core *c, struct trial *t, const char *agent,
                    const struct log_wish *wish);

int policies_load(struct core *c, struct trial *t, struct error *e); // what they did earlier
void policies_forget(struct core *c, struct trial *t);               // it begins anew

#endif
