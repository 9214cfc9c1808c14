// Runs the scripts of this folder on a machine. Each gets its variables as shell assignments before
// its text, through standard input, so that no value shows in the machine's list of processes.
#ifndef MUSTER_CLI_CLUSTER_REMOTE_H
#define MUSTER_CLI_CLUSTER_REMOTE_H

#include "base/buf.h"
#include "cli/cluster/cluster.h"

enum remote_script { SCRIPT_CHECK, SCRIPT_NETWORK, SCRIPT_HOST };

// Assignments for a script; pure.
void remote_set(struct buf *vars, const char *name, const char *value);

// host.sh with this action as root, the other scripts as the user. `vars` NULL: none. *facts: the
// lines KEY=VALUE that it printed (owned by the caller; may be NULL). ERR_UNAVAILABLE: the
// connection is lost. ERR_PEER: the script failed; the text is its last line on standard error.
int remote_run(struct cluster_work *x, struct cluster_machine *m, enum remote_script script,
               const char *action, struct buf *vars, json_t **facts, struct error *e);
// The same for an action of host.sh; *changed becomes true if it changed the machine.
int remote_act(struct cluster_work *x, struct cluster_machine *m, const char *action,
               struct buf *vars, bool *changed, struct error *e);
// The same; the output as text (heap).
int remote_text(struct cluster_work *x, struct cluster_machine *m, const char *action,
                struct buf *vars, char **text, struct error *e);

// Copies a file to the machine's cache under this name, unless its digest is wrong on arrival.
int remote_copy(struct cluster_work *x, struct cluster_machine *m, const char *path,
                const char *name, const char *sha256, int64_t bytes, struct error *e);

// The time of the machine's clock in seconds, minus that of this machine's. It may be wrong by
// *unsure_s, because the machine may have read its clock at any time between question and answer.
int remote_clock(struct cluster_machine *m, double *ahead_s, double *unsure_s, struct error *e);

#endif
