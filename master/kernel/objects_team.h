// The live objects of teams: workspaces with their members and projects. Core thread alone; the
// core owns them, and master/teams makes, changes and removes them.
#ifndef MUSTER_MASTER_KERNEL_OBJECTS_TEAM_H
#define MUSTER_MASTER_KERNEL_OBJECTS_TEAM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "master/kernel/id_map.h"

struct usage { // of a team before this start of the master; slot-seconds, decayed to `at` (wall)
    double slot_seconds;
    int64_t at;
};

struct member { // a user who has a role, weight or limit in a workspace, or has used slots there
    int64_t user_id;
    const char *role; // one of role_words; "": no member
    double weight;
    int64_t max_slots; // 0: no limit
    struct usage usage;
    int team; // in the scheduler; SCHED_NONE until it is first needed
};

struct workspace {
    int64_t id, creator;
    char *name;
    bool archived, deleting;  // deleting: with all that is in it
    const char *default_role; // one of role_words
    double weight;
    int64_t guaranteed_slots, max_slots; // max_slots 0: no limit
    struct usage usage;
    int team; // in the scheduler; SCHED_NONE before workspace_changed()
    struct id_map members, projects;
};

struct project {
    int64_t id;
    struct workspace *workspace;
    char *name;
    char key[LIMIT_PROJECT_KEY + 1]; // unique in the cluster
    bool archived, deleting;
    int64_t experiments; // in any state
};

#endif
