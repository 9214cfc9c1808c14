// The log policies of an experiment. Core thread, except log_policies_check(): any thread.
#ifndef MUSTER_MASTER_INGEST_LOG_POLICIES_H
#define MUSTER_MASTER_INGEST_LOG_POLICIES_H

#include "master/ingest/log_patterns.h"
#include "master/kernel/state.h"

struct yaml_doc;

// Checks the patterns of a new configuration. ERR_INVALID, ERR_TOO_LARGE: the faulty pattern and
// its place. `doc`: the YAML text of the configuration, or NULL.
int log_policies_check(const json_t *config, const struct yaml_doc *doc, struct error *e);

// NULL: no policy has an action. A pattern that does not compile stays in the list, and the log of
// the trial reports it: the store may hold patterns that an earlier version accepted.
struct log_policies *log_policies_new(const json_t *config);
void log_policies_free(struct log_policies *p); // NULL is fine

// log_policies_add_patterns() adds the patterns whose match would change something.
// log_policies_matched() takes the result of one pattern.
void log_policies_add_patterns(struct core *c, const struct trial *t, const char *agent,
                               struct log_pattern_list *w);
void log_policies_matched(struct core *c, struct trial *t, const char *agent,
                          const struct log_pattern *pattern);

// Reads the earlier effects.
int log_policies_load(struct core *c, struct trial *t, struct error *e);
void log_policies_forget(struct core *c, struct trial *t); // the trial starts over

#endif
