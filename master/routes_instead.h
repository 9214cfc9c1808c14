// Texts for calls of Determined's API without a meaning here: what to do instead. For the route
// table.
#ifndef MUSTER_MASTER_ROUTES_INSTEAD_H
#define MUSTER_MASTER_ROUTES_INSTEAD_H

#define ROLES                                                                                      \
    "roles are given in each workspace: GET /api/v1/workspaces/{id}/members, PUT and DELETE "      \
    "/api/v1/workspaces/{id}/members/{userId}"
#define POLICIES                                                                                   \
    "templates hold what configurations have in common (/api/v1/templates), and PATCH "            \
    "/api/v1/workspaces/{id} sets what a workspace may use"
#define POOLS                                                                                      \
    "every workspace may use every pool; PATCH /api/v1/workspaces/{id} sets guaranteedSlots and "  \
    "maxSlots of a workspace"
#define KUBERNETES                                                                                 \
    "programs run as processes of agents, and there is no Kubernetes; PATCH "                      \
    "/api/v1/workspaces/{id} sets guaranteedSlots and maxSlots of a workspace"
#define SINGLE_SIGN_ON                                                                             \
    "programs get access tokens of their own: POST /api/v1/tokens; users are made by POST "        \
    "/api/v1/users"
#define CHARTS                                                                                     \
    "GET /api/v1/trials/time-series has the metrics of several trials, GET "                       \
    "/api/v1/experiments/{id}/trials sorts and filters by them"
#define FIELDS   "GET /api/v1/experiment/fields has what lists can be filtered and sorted by"
#define SETTINGS "POST /api/v1/users/setting keeps what a page is to remember of a user"
#define NO_READINESS                                                                               \
    "nothing is passed on to programs; GET /api/v1/tasks/{id} has the state of one, POST "         \
    "/api/v1/tasks/{id}/kill ends it"
#define SEARCHERS "searches are run by the master: GET /api/v1/experiments/{id}/search shows one"

#endif
