// Which of one agent's free slots go together: those of one NVLink group first, then those of one
// NUMA node, then those of one model: a GPU and an instance of another one would hardly work
// together. Pure; the owner of the array frees it. Groups need not lie inside each other: where
// pairs of GPUs are linked a node holds several, where a switch links all of them its group spans
// the nodes. What is not of one model is in no group together.
#ifndef MUSTER_MASTER_SCHED_NEARNESS_H
#define MUSTER_MASTER_SCHED_NEARNESS_H

#include <stdbool.h>

enum near_kind {
    NEAR_BOTH, // one NVLink group, at one node
    NEAR_LINK,
    NEAR_NODE,
    NEAR_MODEL,
    NEAR_KINDS
};

enum spot_state {
    SPOT_TAKEN, // by another gang, or not to be used
    SPOT_OWN,   // the gang has it already
    SPOT_FREE,
    SPOT_ASIDE // of a search: free, but not where the gang goes
};

struct spot {              // a slot
    int first[NEAR_KINDS]; // the lowest slot of its group: the group's name
    int size[NEAR_KINDS];  // of that lowest one: slots of the group
    int turn;              // its place in an order in which groups lie together
    enum spot_state state; // said before a search
    // Of a search, at the lowest slot of a group.
    int free[NEAR_KINDS], own[NEAR_KINDS];
};

// Groups by number, -1: in none. Sets all but the states.
void near_arrange(struct spot *spots, int count, const int *nvlink, const int *numa,
                  const int *model);

// `wanted` of the free spots, of which there are as many: they are SPOT_OWN afterwards. All in one
// group if one has room, in which the fewest are left over, but a group that nobody uses is not
// broken up while one that is partly used does as well. Else the largest pieces first.
void near_choose(struct spot *spots, int count, int wanted);

#endif
