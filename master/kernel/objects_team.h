// Workspaces with their members and projects. Core thread alone; the core owns them. master/teams
// makes, changes and removes them.
#ifndef MUSTER_MASTER_KERNEL_OBJECTS_TEAM_H
#define MUSTER_MASTER_KERNEL_OBJECTS_TEAM_H

#include <stdbool.h>
#include <stdint.h>

#include "master/kernel/by_id.h"

struct usage { // what a team had before this process; slot-seconds, decayed to `at` (wall)
    double slot_seconds;
    int64_t at;
};

struct member { // of a workspace: who has a role, a weight or a maximum there, or has used it
    int64_t user_id;
    const char *role; // of role_words; "": no member
    double weight;
    int64_t max_slots; // 0: no limit
    struct usage usage;
    int team; // of the scheduler; SCHED_NONE until it is first needed
};

struct workspace {
    int64_t id, creator;
    char *name;
    bool archived;
    const char *default_role; // of role_words
    double weight;
    int64_t guaranteed_slots, max_slots; // max 0: no limit
    struct usage usage;
    int team; // of the scheduler; SCHED_NONE before workspace_changed()
    struct by_id members, projects;
};

struct project {
    int64_t id;
    struct workspace *workspace;
    char *name;
    bool archived;
    int64_t experiments; // of any state
};

#endif
