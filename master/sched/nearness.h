// Chooses which free slots of one agent a gang gets: slots of one NVLink group first, then of one
// NUMA node, then of one GPU model (a GPU and an instance of another GPU hardly work together).
// Pure; the caller owns the array. Groups need not be nested: with pairs of linked GPUs a node
// holds several groups, and behind a switch one group spans the nodes. Slots of different models
// share no group.
#ifndef MUSTER_MASTER_SCHED_NEARNESS_H
#define MUSTER_MASTER_SCHED_NEARNESS_H

#include <stdbool.h>

enum near_kind {
    NEAR_LINK_AND_NODE, // one NVLink group within one NUMA node
    NEAR_LINK,
    NEAR_NODE,
    NEAR_MODEL,
    NEAR_KINDS
};

enum near_slot_state {
    NEAR_SLOT_TAKEN, // by another gang, or disabled
    NEAR_SLOT_OWN,   // the gang already has it
    NEAR_SLOT_FREE,
    NEAR_SLOT_EXCLUDED // during a search: free, but outside the chosen group
};

struct near_slot {
    int first[NEAR_KINDS];      // the lowest slot of its group, which names the group
    int size[NEAR_KINDS];       // stored at the lowest slot: slots of the group
    int position;               // in an order that keeps groups together
    enum near_slot_state state; // set by the caller before a search
    // Used during a search, stored at the lowest slot of a group:
    int free[NEAR_KINDS], own[NEAR_KINDS];
};

// Fills all fields except the states. Groups are numbers, -1: none.
void near_arrange(struct near_slot *slots, int count, const int *nvlink, const int *numa,
                  const int *model);

// Turns `wanted` of the free slots (there must be as many) into NEAR_SLOT_OWN. One group with room
// for all is preferred, and of several such groups the one that keeps the fewest free slots; an
// unused group is not broken while a partly used one has room. Without such a group the largest
// pieces come first.
void near_choose(struct near_slot *slots, int count, int wanted);

#endif
