// Functions that the sources of the scheduler share, grouped by file. Only handles.c, agents.c and
// the insertion into a queue allocate memory, and no pass calls them.
#ifndef MUSTER_MASTER_SCHED_INTERNAL_H
#define MUSTER_MASTER_SCHED_INTERNAL_H

#include "master/sched/explain.h"
#include "master/sched/state.h"

#define HOUR_US (3600LL * 1000 * 1000)

// handles.c. handle_take() returns a handle for a zeroed element of *array, which grows as needed.
int handle_take(struct handle_allocator *h, void **array, size_t size);
void handle_give(struct handle_allocator *h, int handle);
struct sched_agent *agent_at(const struct sched *s, int agent); // aborts on an unused handle
struct sched_team *team_at(const struct sched *s, int team);
struct sched_job *job_at(const struct sched *s, int job);
struct sched_gang *gang_at(const struct sched *s, int gang);
void list_insert(struct handle_list *l, size_t at, int value);
void list_erase(struct handle_list *l, size_t at);

// The pool orders gangs by submission alone and never preempts.
static inline bool pool_is_strict(const struct sched_pool *p)
{
    return p->policy == SCHED_POLICY_FIFO || p->policy == SCHED_POLICY_EASY;
}

// agents.c
void reserve_for_pass(struct sched *s);
void reserve_shares(struct sched *s, struct sched_pool *p);

// teams.c: counts usage and debt up to `now`.
void team_count(struct sched *s, int team, int64_t now);

// jobs.c
void sched_set_time(struct sched *s, int64_t now); // the time of an event
int64_t job_service(const struct sched_job *j, int64_t now);
void gang_link(struct sched *s, int gang); // into its queue, its list and the counters
void gang_unlink(struct sched *s, int gang);
void gang_stop_clearing(struct sched *s, struct sched_gang *g); // no agent is cleared for it
void gang_extend(struct sched *s, int gang, const struct sched_place *places, size_t count);
void gang_start(struct sched *s, int gang, const struct sched_place *places, size_t count,
                int64_t started);

// queue.c
void queue_insert(struct sched *s, struct sched_pool *p, struct team_share *share, int gang);
void queue_erase(struct sched *s, struct team_share *share, int gang);
bool item_before(const struct queue_item *a, const struct queue_item *b);
void queue_renew(struct sched *s, struct sched_pool *p, struct team_share *share); // when it is due
void items_sort(struct queue_item *items, struct queue_item *scratch, size_t count);

// shares.c: the entitlements in a pool. shares_begin() divides all slots; shares_divide() divides
// the amount that the fast lane and the overdue gangs leave.
void shares_begin(struct sched *s, struct sched_pool *p);
void shares_divide(struct sched *s, struct sched_pool *p, int64_t amount); // thousandths of a slot
void share_count_debt(struct sched *s, struct sched_pool *p, int team);    // up to now
int64_t share_wanted(const struct sched *s, const struct sched_pool *p, int team); // slots
int64_t share_entitled(const struct sched_pool *p, int team);                      // slots, rounded

// order.c ranks all gangs of a pool. The heap holds the gangs that are still to be considered.
void order_rank(struct sched *s, struct sched_pool *p);
void heap_build(struct sched *s);                             // of s->heap, in any order
void heap_fill(struct sched *s, const struct sched_pool *p);  // all waiting gangs, by their ranks
void heap_replace(struct sched *s, struct ranked_gang first); // replaces the top
int heap_take(struct sched *s);                               // the top; SCHED_NONE: empty
bool rank_before(const struct gang_rank *a, const struct gang_rank *b);

// place.c: where a gang of `slots` slots fits. place_find() writes s->pieces and returns their
// number; 0: it does not fit. With `incoming`, slots that are being handed over count, too.
size_t place_find(struct sched *s, const struct sched_pool *p, int gang, int slots, bool incoming);
// Pieces for a running gang, as many as there are; *slots becomes the number that is missing.
size_t place_more(struct sched *s, const struct sched_pool *p, int gang, int *slots);
int place_room(const struct sched *s, int agent, int gang, bool incoming); // -1: not allowed there
void place_take(struct sched *s, int gang, const struct placement_piece *piece);  // to s->places
void place_sort(const struct sched *s, struct sched_place *places, size_t count); // by agent
int place_find_slotless(const struct sched *s, const struct sched_pool *p); // SCHED_NONE: no agent

// explain.c: the obstacle that keeps a gang from starting whatever is free; SCHED_PLACED: none.
enum sched_reason_code gang_obstacle(const struct sched *s, int gang, int *team);

// estimate.c: sets gang.start of all waiting gangs, once a pass.
void estimate_starts(struct sched *s, struct sched_pool *p, int64_t now);

#endif
