// The scheduler: which waiting gang gets which slots. Pure: no clock, no input or output, integers
// and a fixed order only, and no memory is taken during a pass. One thread at a time; the owner of
// `struct sched` frees it.
//
// The caller tells it events (agents and slots come and go, jobs change, gangs ask and leave) and
// then asks for a pass, which returns commands. Handles are small integers given out here and used
// again after removal. The order of decision is a policy behind this border: today strict order by
// priority, then age of the job, then age of the gang (README.md).
#ifndef MUSTER_MASTER_SCHED_SCHED_H
#define MUSTER_MASTER_SCHED_SCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SCHED_NONE = -1 };
enum { SCHED_ZERO_SLOT_GANGS = 100 }; // most gangs of no slots on one agent
enum { SCHED_PRIORITY_DEFAULT = 42, SCHED_PRIORITY_MIN = 1, SCHED_PRIORITY_MAX = 99 };

struct sched; // opaque

struct sched *sched_new(void);
void sched_free(struct sched *s);

int sched_pool_add(struct sched *s); // pools stay

// An agent starts unusable, with all slots enabled. Gangs on an unusable agent keep their slots.
int sched_agent_add(struct sched *s, int pool, int slots);
void sched_agent_set(struct sched *s, int agent, bool usable);
void sched_slot_set(struct sched *s, int agent, int slot, bool enabled);
void sched_agent_remove(struct sched *s, int agent); // nothing may run there

struct sched_job {
    int pool;
    int priority;  // 1..99, the smaller the sooner
    int64_t order; // of submission, the smaller the sooner
    int64_t limit; // most slots its gangs hold together; 0: no limit
};
int sched_job_add(struct sched *s, const struct sched_job *job);
void sched_job_set(struct sched *s, int job, int priority, int64_t limit);
void sched_job_remove(struct sched *s, int job); // has no gangs

// A gang wants all of its slots or nothing; 0 slots: a place on some agent. It waits from here on.
int sched_gang_add(struct sched *s, int job, int slots, bool one_agent, int64_t tag);
void sched_gang_remove(struct sched *s, int gang); // withdrawn or ended; its slots are free

struct sched_place {
    int agent;
    int slot; // SCHED_NONE for a gang of no slots
};

// A waiting gang that runs already (the owner was restarted): takes these places, which must be
// free, without a pass.
void sched_gang_adopt(struct sched *s, int gang, const struct sched_place *places, size_t count);

enum sched_command_kind { SCHED_START };

struct sched_command {
    enum sched_command_kind kind;
    int gang;
    int64_t tag;                      // of the gang
    const struct sched_place *places; // by agent in order of choice, slots ascending
    size_t count;                     // 1 for a gang of no slots
};

// Decides all that can be decided now. *out is valid until the next call of any function.
size_t sched_pass(struct sched *s, const struct sched_command **out);

// Why a gang waits, as of the last pass.
enum sched_reason_code {
    SCHED_PLACED,         // it does not wait
    SCHED_NOT_CONSIDERED, // came after the last pass
    SCHED_NO_AGENTS,      // the pool has no usable agent
    SCHED_OVER_AGENT,     // must be on one agent and none has so many slots
    SCHED_OVER_POOL,      // the pool has fewer slots in all
    SCHED_OVER_LIMIT,     // its job may hold no more slots
    SCHED_BUSY,           // too few slots are free
    SCHED_SPREAD,         // enough are free, but not on one agent
    SCHED_BEHIND,         // the slots it could use are kept for a gang before it
    SCHED_REASON_COUNT
};

struct sched_reason {
    enum sched_reason_code code;
    int needs;        // slots it wants
    int free;         // slots free in the pool
    int largest_free; // most slots free on one agent
    int largest;      // most slots an agent has, busy or not
    int total;        // slots of the pool, busy or not
    int ahead;        // gangs that wait before it
    int64_t behind;   // SCHED_BEHIND: tag of the gang the slots are kept for
    int64_t job_used, job_limit;
};

void sched_why(const struct sched *s, int gang, struct sched_reason *out);

struct sched_pool_view {
    int agents; // usable
    int slots, free;
    int waiting, running; // gangs
};
void sched_pool_look(const struct sched *s, int pool, struct sched_pool_view *out);
int64_t sched_gang_on(const struct sched *s, int agent, int slot); // tag, or SCHED_NONE if free

void sched_check(const struct sched *s); // aborts unless every invariant holds; for tests

#endif
