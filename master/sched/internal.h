// What the sources of the scheduler share, by the file that has it. Nothing here allocates but
// handles.c, agents.c and the insertion into a queue, none of which a pass calls.
#ifndef MUSTER_MASTER_SCHED_INTERNAL_H
#define MUSTER_MASTER_SCHED_INTERNAL_H

#include "master/sched/explain.h"
#include "master/sched/state.h"

#define HOUR_US (3600LL * 1000 * 1000)

// handles.c: a handle for one more element of *array, which grows as needed; the element is zeroed.
int handle_take(struct handles *h, void **array, size_t size);
void handle_give(struct handles *h, int handle);
struct agent *agent_at(const struct sched *s, int agent); // aborts when there is none
struct team *team_at(const struct sched *s, int team);
struct job *job_at(const struct sched *s, int job);
struct gang *gang_at(const struct sched *s, int gang);
void list_insert(struct list *l, size_t at, int value);
void list_erase(struct list *l, size_t at);

// By submission alone, and nobody leaves for anybody.
static inline bool pool_is_strict(const struct pool *p)
{
    return p->policy == SCHED_POLICY_FIFO || p->policy == SCHED_POLICY_EASY;
}

// agents.c
void reserve_for_pass(struct sched *s);
void reserve_shares(struct sched *s, struct pool *p);

// teams.c: brings usage and debt up to `now`.
void team_count(struct sched *s, int team, int64_t now);

// jobs.c
void see(struct sched *s, int64_t now); // the time of an event
int64_t job_service(const struct job *j, int64_t now);
void gang_link(struct sched *s, int gang); // into queue, list and counters
void gang_unlink(struct sched *s, int gang);
void gang_take(struct sched *s, int gang, struct sched_place place);
void gang_extend(struct sched *s, int gang, const struct sched_place *places, size_t count);
void gang_start(struct sched *s, int gang, const struct sched_place *places, size_t count,
                int64_t started);

// queue.c
void queue_insert(struct sched *s, struct pool *p, struct share *share, int gang);
void queue_erase(struct sched *s, struct share *share, int gang);
bool item_before(const struct item *a, const struct item *b);
void queue_renew(struct sched *s, struct pool *p, struct share *share); // keys and order, when due
void items_sort(struct item *items, struct item *scratch, size_t count);

// shares.c: who is entitled to how much of a pool; of all its slots, or of as many as are left when
// the fast lane and others have taken theirs.
void shares_begin(struct sched *s, struct pool *p);
void shares_divide(struct sched *s, struct pool *p, int64_t amount); // thousandths of a slot
void share_count_debt(struct sched *s, struct pool *p, int team);    // up to now
int64_t share_wanted(const struct sched *s, const struct pool *p, int team); // slots
int64_t share_entitled(const struct pool *p, int team);                      // slots, rounded

// order.c: ranks all gangs of a pool. The heap has those that are still to be considered.
void order_rank(struct sched *s, struct pool *p);
void heap_build(struct sched *s);                        // of s->heap, in any order
void heap_fill(struct sched *s, const struct pool *p);   // with all that wait, by their last ranks
void heap_replace(struct sched *s, struct ranked first); // in the place of the first
int heap_take(struct sched *s);                          // the first; SCHED_NONE: it is empty
bool rank_before(const struct rank *a, const struct rank *b);

// place.c: where a gang of `slots` slots fits: pieces in s->pieces, 0 when it does not. `later`:
// slots that are being handed over count too.
size_t place_find(struct sched *s, const struct pool *p, int gang, int slots, bool later);
// More of them for a gang that runs, as many as there are; *slots: how many are missing then.
size_t place_more(struct sched *s, const struct pool *p, int gang, int *slots);
int place_room(const struct sched *s, int agent, int gang, bool later); // -1: not for it
void place_take(struct sched *s, int gang, const struct piece *piece);  // free ones, to s->places
void place_sort(const struct sched *s, struct sched_place *places, size_t count); // by agent
int place_aside(const struct sched *s, const struct pool *p); // agent for a gang of no slots

// explain.c: why a gang cannot start whatever is free; SCHED_PLACED: it could.
enum sched_reason_code gang_hindrance(const struct sched *s, int gang, int *team);

// estimate.c: gang.start of all that wait, once a pass.
void estimate_starts(struct sched *s, struct pool *p, int64_t now);

#endif
