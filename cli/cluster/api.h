// Calls of the master's REST API from the threads of a cluster, and the administrator's session.
#ifndef MUSTER_CLI_CLUSTER_API_H
#define MUSTER_CLI_CLUSTER_API_H

#include "cli/cluster/cluster.h"

// Opens the session at the cluster's master.
int api_open(struct cluster_work *x, struct error *e);
// Trusts the authority with x->fingerprint from now on, which the master must show, and opens the
// session again. ERR_UNAVAILABLE: the master does not listen yet.
int api_trust(struct cluster_work *x, struct error *e);

// One call, which any thread may make. *answer may be NULL.
int api_call(struct cluster_work *x, const char *method, const char *path, const json_t *body,
             json_t **answer, struct error *e);

// Makes sure that the session is that of an administrator: the saved one, or a new one with the
// first password of the master's users, which `password` (NULL: not known) holds. The error says
// how to sign in.
int api_sign_in(struct cluster_work *x, const char *password, struct error *e);

// Whether the master has given the agent a credential.
bool api_has_credential(struct cluster_work *x, const char *id);
// Makes an enrolment line (api/enrolment.h) for one agent; heap, a secret.
int api_enrol(struct cluster_work *x, const char *id, char **line, struct error *e);

// The agent as a row of `muster agent list`; NULL: the master does not know it.
json_t *api_agent(struct cluster_work *x, const char *id, struct error *e);

#endif
