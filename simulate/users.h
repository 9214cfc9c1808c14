// Finds the team of a user in the file of teams. Private to this folder.
#ifndef MUSTER_SIMULATE_USERS_H
#define MUSTER_SIMULATE_USERS_H

#include "simulate/trace.h"

enum { TRACE_USERS_MAX = 10000 };

struct trace_user {
    const char *name;
    int team;
};

const struct trace_user *trace_user_find(const struct trace *t,
                                         const char *name); // NULL: the user is in no team

#endif
