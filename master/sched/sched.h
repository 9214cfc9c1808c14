// The scheduler decides which gang gets which slots, and which gang has to leave. It is pure: it
// reads no clock (the caller passes the time), performs no I/O, uses integers in a fixed order, and
// allocates no memory during a pass. One thread at a time may use it; the owner frees it.
//
// The caller reports events (agents, slots, teams, jobs and gangs appear and change) and then asks
// for a pass, which returns commands; the next pass is due at sched_next_pass() at the latest.
// Handles are small integers that are reused after removal. Times are microseconds of one monotonic
// clock. README.md describes the rules; explain.h explains why a gang waits.
#ifndef MUSTER_MASTER_SCHED_SCHED_H
#define MUSTER_MASTER_SCHED_SCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "master/sched/rules.h"

enum { SCHED_NONE = -1, SCHED_ROOT = 0 /* the team of the cluster */ };
enum { SCHED_ZERO_SLOT_GANGS = 100 }; // limit for the gangs without slots on one agent
enum { SCHED_PRIORITY_DEFAULT = 42, SCHED_PRIORITY_MIN = 1, SCHED_PRIORITY_MAX = 99 };
enum { SCHED_WEIGHT_ONE = 1000 }; // weights count in thousandths, at least 1
enum { SCHED_EXCLUDED_MAX = 8 };  // agents that one gang may exclude

struct sched; // opaque

struct sched *sched_new(const struct sched_rules *rules); // NULL: sched_default_rules
void sched_free(struct sched *s);

// --- pools and agents ----------------------------------------------------------------------------

enum sched_policy {
    SCHED_POLICY_FAIR_SHARE, // the tree of teams, then priority, service and age
    SCHED_POLICY_PRIORITY,   // priority, service and age, without teams
    SCHED_POLICY_FIFO,       // strict order of submission, without preemption
    SCHED_POLICY_EASY,       // FIFO with EASY backfill, which uses the expected ends of gangs
    SCHED_POLICIES
};
extern const char *const sched_policy_names[SCHED_POLICIES]; // fair_share priority fifo easy

int sched_pool_add(struct sched *s, enum sched_policy policy); // pools are never removed
void sched_pool_set(struct sched *s, int pool, enum sched_policy policy);

// A new agent is unusable and has all slots enabled. Gangs on an agent that becomes unusable, or on
// a slot that is disabled, keep their slots. Agents of the same `rack` (0 or more) are close to
// each other; SCHED_NONE: the rack is unknown.
int sched_agent_add(struct sched *s, int pool, int slots, int rack);
void sched_agent_set(struct sched *s, int agent, bool usable);
void sched_slot_set(struct sched *s, int agent, int slot, bool enabled);
void sched_agent_remove(struct sched *s, int agent); // no gang may run there

// Sets the nearness groups of the agent's slots for later placements: group numbers, -1: none.
void sched_agent_set_nearness(struct sched *s, int agent, const int *nvlink, const int *numa,
                              const int *model);

// --- teams ---------------------------------------------------------------------------------------

// Teams form a tree: the root (SCHED_ROOT) is the cluster, then workspaces, then users. A job is of
// a leaf. Weight and guarantee apply in each pool, the maximum to the sum over all pools.
struct sched_team_spec {
    int64_t weight;     // relative to its siblings, thousandths
    int64_t guaranteed; // slots that it receives before weights are applied, if it wants them
    int64_t maximum;    // slots that it may hold; 0: no limit
};
int sched_team_add(struct sched *s, int parent, const struct sched_team_spec *spec);
void sched_team_set(struct sched *s, int team, const struct sched_team_spec *spec);
void sched_team_remove(struct sched *s, int team); // must have no child teams and no jobs

// Restores the past usage of a team: slot-seconds, decayed to `now` with a half-life of a week.
void sched_team_restore(struct sched *s, int team, int64_t slot_seconds, int64_t now);

// --- jobs and gangs ------------------------------------------------------------------------------

struct sched_job_spec {
    int pool, team;
    int priority;    // 1..99; the smaller number runs first
    int64_t order;   // position among jobs of its priority; the smaller number runs first
    int64_t limit;   // slots that its gangs may hold together; 0: no limit
    int64_t weight;  // its service is divided by this weight, thousandths
    int64_t service; // slot-microseconds consumed before; only sched_job_add() reads it
};
int sched_job_add(struct sched *s, const struct sched_job_spec *spec);
void sched_job_set(struct sched *s, int job, const struct sched_job_spec *spec); // not the service
int64_t sched_job_service(const struct sched *s, int job, int64_t now);          // slot-us
void sched_job_remove(struct sched *s, int job); // must have no gangs

// A gang wants `max_slots` and accepts any number from `min_slots` on; it gets them all at once or
// not at all. A gang of 0 slots needs a place on any agent. A new gang waits.
struct sched_gang_spec {
    int job;
    int min_slots, max_slots; // equal: rigid; different: elastic
    bool one_agent;           // all slots must be on one agent
    bool non_preemptible;     // once it runs, the scheduler never drains it
    int64_t tag;              // the caller's name for the gang
    int64_t waited;           // how long earlier gangs of the same trial waited
    int excluded[SCHED_EXCLUDED_MAX], excluded_count; // agents on which it must not run
};
int sched_gang_add(struct sched *s, const struct sched_gang_spec *spec, int64_t now);
void sched_gang_remove(struct sched *s, int gang, int64_t now); // it ended or was withdrawn

struct sched_place {
    int agent;
    int slot; // SCHED_NONE for a gang without slots
};

// Marks a waiting gang, which kept running over a restart of the caller, as running since `started`
// on these places, which must be free.
void sched_gang_adopt(struct sched *s, int gang, const struct sched_place *places, size_t count,
                      int64_t started);

// Changes the range of a gang (not from or to 0). The next pass drains a gang that runs outside it.
void sched_gang_resize(struct sched *s, int gang, int min_slots, int max_slots);
void sched_gang_set_leaving(struct sched *s, int gang);           // the caller drains or kills it
void sched_gang_set_saved(struct sched *s, int gang, int64_t at); // a checkpoint has work until at
// Sets the probable end of the gang (for a waiting gang: its probable length); 0: unknown.
void sched_gang_set_expected_end(struct sched *s, int gang, int64_t end);

// --- deciding ------------------------------------------------------------------------------------

enum sched_command_kind {
    SCHED_START, // run the gang on these places
    SCHED_DRAIN  // let it save its work and leave; then the caller removes it and may add a new one
};
enum sched_cause {      // of a drain
    SCHED_FOR_PRIORITY, // a gang of a higher priority needs the slots
    SCHED_FOR_SHARE,    // a team below its entitlement needs the slots
    SCHED_FOR_SERVICE,  // a job with less service, or one that waited too long, needs the slots
    SCHED_TO_SHRINK,    // elastic: it continues with fewer slots; another gang needs the rest
    SCHED_TO_GROW,      // elastic: it continues with more slots, which nobody else wants
    SCHED_TO_MOVE,      // it continues elsewhere: its job changed pools, or its agent is cleared
    SCHED_TO_RESIZE,    // it continues with the number of slots that sched_gang_resize() has set
    SCHED_CAUSES
};

struct sched_command {
    enum sched_command_kind kind;
    int gang;
    int64_t tag;                      // of the gang
    const struct sched_place *places; // START: by agent, near slots together; DRAIN: NULL
    size_t count;                     // of places; 1 for a gang without slots
    enum sched_cause cause;           // DRAIN
    int64_t beneficiary; // DRAIN: tag of the gang that gets the slots; SCHED_NONE: none
};

// Decides all that is possible now. *out stays valid until any call but the readers of explain.h.
size_t sched_pass(struct sched *s, int64_t now, const struct sched_command **out);
int64_t sched_next_pass(const struct sched *s); // a pass is due then at the latest; INT64_MAX: none

void sched_check(const struct sched *s); // aborts unless every invariant holds; for tests

#endif
