// Which team a user is in, by the teams' file. Inside of this folder.
#ifndef MUSTER_SIMULATE_USERS_H
#define MUSTER_SIMULATE_USERS_H

#include "simulate/trace.h"

enum { TRACE_USERS_MAX = 10000 };

struct trace_user {
    const char *name;
    int team;
};

const struct trace_user *trace_user_find(const struct trace *t, const char *name); // NULL: in none

#endif
