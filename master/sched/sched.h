// The scheduler: which gang gets which slots, and who has to leave for it. Pure: no clock (the
// caller says what time it is), no input or output, integers and a fixed order only, and no memory
// is taken during a pass. One thread at a time; the owner of `struct sched` frees it.
//
// The caller tells it events (agents and slots come and go, teams, jobs and gangs change), then
// asks for a pass, which returns commands, and passes again at the latest at sched_next(). Handles
// are small integers given out here and used again after removal. Times are microseconds of one
// clock that never goes back. Rules and numbers: README.md. Why something waits: explain.h.
#ifndef MUSTER_MASTER_SCHED_SCHED_H
#define MUSTER_MASTER_SCHED_SCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "master/sched/rules.h"

enum { SCHED_NONE = -1 };
enum { SCHED_ZERO_SLOT_GANGS = 100 }; // most gangs of no slots on one agent
enum { SCHED_PRIORITY_DEFAULT = 42, SCHED_PRIORITY_MIN = 1, SCHED_PRIORITY_MAX = 99 };
enum { SCHED_WEIGHT_ONE = 1000 }; // weights count in thousandths, at least 1
enum { SCHED_EXCLUDED_MAX = 8 };  // agents that one gang may refuse

struct sched; // opaque

struct sched *sched_new(const struct sched_rules *rules); // NULL: sched_rules_default
void sched_free(struct sched *s);

// --- pools and agents ----------------------------------------------------------------------------

enum sched_policy {
    SCHED_POLICY_FAIR_SHARE, // team tree, then priority, service and age
    SCHED_POLICY_PRIORITY,   // the same without the teams
    SCHED_POLICY_FIFO,       // fifo: strict order of submission, nobody leaves for anybody
    SCHED_POLICY_EASY,       // FIFO; others go first when they end before the first could start (by
                             // `expected`)
    SCHED_POLICIES
};
extern const char *const sched_policy_names[SCHED_POLICIES]; // fair_share priority fifo easy

int sched_pool_add(struct sched *s, enum sched_policy policy); // pools stay
void sched_pool_set(struct sched *s, int pool, enum sched_policy policy);

// An agent starts unusable, with all slots enabled. Gangs on an unusable agent or on a disabled
// slot keep their slots. `rack`: a number from 0 that its neighbours share; SCHED_NONE: not known.
int sched_agent_add(struct sched *s, int pool, int slots, int rack);
void sched_agent_set(struct sched *s, int agent, bool usable);
void sched_slot_set(struct sched *s, int agent, int slot, bool enabled);
void sched_agent_remove(struct sched *s, int agent); // nothing may run there

// Which of its slots go together, for placing from now on: groups by number, -1: in none.
void sched_agent_set_nearness(struct sched *s, int agent, const int *nvlink, const int *numa,
                              const int *model);

// --- teams ---------------------------------------------------------------------------------------

// A tree: the root (SCHED_ROOT) is the organisation, below it workspaces, below them users. A job
// belongs to a leaf. Weight and guarantee count in every pool, the maximum over all pools together.
enum { SCHED_ROOT = 0 };
struct sched_team_spec {
    int64_t weight;     // of its share among its siblings, thousandths
    int64_t guaranteed; // slots it gets before anybody's weight counts, if it wants them
    int64_t maximum;    // most slots it may hold; 0: no limit
};
int sched_team_add(struct sched *s, int parent, const struct sched_team_spec *team);
void sched_team_set(struct sched *s, int team, const struct sched_team_spec *team_);
void sched_team_remove(struct sched *s, int team); // has no teams below it and no jobs

// What a team has used before, in slot-seconds, decayed to `now` (half of it in a week).
void sched_team_restore(struct sched *s, int team, int64_t slot_seconds, int64_t now);

// --- jobs and gangs ------------------------------------------------------------------------------

struct sched_job_spec {
    int pool, team;
    int priority;    // 1..99, the smaller the sooner
    int64_t order;   // place among equals, the smaller the sooner: by submission until it is moved
    int64_t limit;   // most slots its gangs hold together; 0: no limit
    int64_t weight;  // its service counts divided by this, thousandths
    int64_t service; // slot-microseconds it has had before; read by sched_job_add alone
};
int sched_job_add(struct sched *s, const struct sched_job_spec *job);
void sched_job_set(struct sched *s, int job,
                   const struct sched_job_spec *changed);               // not the service
int64_t sched_job_service(const struct sched *s, int job, int64_t now); // slot-microseconds
void sched_job_remove(struct sched *s, int job);                        // has no gangs

// A gang wants `most` slots and is content with any number from `least` on (elastic), all at once
// or none; 0 slots: a place on some agent. It waits from here on.
struct sched_gang_spec {
    int job;
    int min_slots, max_slots; // equal: rigid
    bool one_agent;
    bool non_preemptible;                             // once it runs, it is never asked to leave
    int64_t tag;                                      // the caller's name for it
    int64_t waited;                                   // how long what it runs has waited before
    int excluded[SCHED_EXCLUDED_MAX], excluded_count; // agents that it must not run on
};
int sched_gang_add(struct sched *s, const struct sched_gang_spec *gang, int64_t now);
void sched_gang_remove(struct sched *s, int gang,
                       int64_t now); // withdrawn or ended; frees its slots

struct sched_place {
    int agent;
    int slot; // SCHED_NONE for a gang of no slots
};

// A waiting gang that runs already since `started` (the owner was restarted): takes these places,
// which must be free, without a pass.
void sched_gang_adopt(struct sched *s, int gang, const struct sched_place *places, size_t count,
                      int64_t started);

void sched_gang_set_leaving(struct sched *s, int gang); // the caller drains or ends it by itself
void sched_gang_set_saved(struct sched *s, int gang,
                          int64_t at); // its work up to `at` is in a checkpoint
void sched_gang_set_expected_end(struct sched *s, int gang,
                                 int64_t end); // when it is likely to end; 0: unknown

// --- deciding ------------------------------------------------------------------------------------

enum sched_command_kind {
    SCHED_START, // run it on these places
    SCHED_DRAIN  // let it save its work and leave; gang_remove() when it has, gang_add() to go on
};
enum sched_cause {      // of a drain
    SCHED_FOR_PRIORITY, // a gang of a higher priority needs the slots
    SCHED_FOR_SHARE,    // a team below its entitlement does
    SCHED_FOR_SERVICE,  // a job that had less so far, or waits for too long, does
    SCHED_TO_SHRINK,    // elastic: it goes on with fewer slots, for the gang that needs the others
    SCHED_TO_GROW,      // elastic: it goes on with more slots, which nobody else wants
    SCHED_TO_MOVE,      // it goes on elsewhere: its job was moved to another pool, or the slots are
    SCHED_CAUSES        // scattered so that a larger gang cannot start
};

struct sched_command {
    enum sched_command_kind kind;
    int gang;
    int64_t tag;                      // of the gang
    const struct sched_place *places; // by agent, neighbours together; NULL: DRAIN
    size_t count;                     // 1 for a gang of no slots
    enum sched_cause cause;           // DRAIN
    int64_t beneficiary; // DRAIN: tag of the gang that gets the slots; SCHED_NONE: none
};

// Decides all that can be decided now. *out is valid until the next call of any function but the
// readers of explain.h.
size_t sched_pass(struct sched *s, int64_t now, const struct sched_command **out);
int64_t sched_next(const struct sched *s); // pass again then though nothing happens; INT64_MAX

void sched_check(const struct sched *s); // aborts unless every invariant holds; for tests

#endif
