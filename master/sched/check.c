// Checks the invariants of the scheduler's state, for tests.
#include "master/sched/internal.h"

#include "base/log.h"

static void check_agent(const struct sched *s, const struct sched_agent *a)
{
    int enabled = 0, free_slots = 0;
    for (int i = 0; i < a->slot_count; i++) {
        const struct sched_slot *slot = &a->slots[i];
        enabled += slot->enabled;
        free_slots += slot->enabled && slot->gang == SCHED_NONE;
        must(slot->gang == SCHED_NONE || gang_at(s, slot->gang)->placed);
    }
    must(enabled == a->enabled && free_slots == a->free);
    must(a->zero_slot_gangs >= 0 && a->zero_slot_gangs <= SCHED_ZERO_SLOT_GANGS);
    must(!a->gain && !a->skip);
    must(a->reserved_for == SCHED_NONE || gang_at(s, a->reserved_for)->cleared_agent != SCHED_NONE);
}

// A placed gang holds all of its slots, on one agent if required; a waiting gang holds none.
static void check_gang(const struct sched *s, int handle)
{
    const struct sched_gang *g = &s->gangs[handle];
    int held = 0;
    for (int agent = g->first_agent, at = g->first_slot; at != SCHED_NONE; held++) {
        const struct sched_slot *slot = &agent_at(s, agent)->slots[at];
        must(slot->gang == handle);
        must(!g->spec.one_agent || agent == g->first_agent);
        agent = slot->next_agent;
        at = slot->next_slot;
    }
    must(held == g->slots);
    must(!g->placed ? !held : held >= g->min_slots && held <= g->spec.max_slots);
    must((g->first_agent != SCHED_NONE) == g->placed);
    must(g->placed || !g->leaving);
    must(!g->placed || !g->slots || s->pools[g->pool].running.items[g->running_at] == handle);
}

// A queue is sorted and its gangs know their keys.
static void check_queue(const struct sched *s, const struct sched_queue *q)
{
    for (size_t i = 0; i < q->count; i++) {
        const struct sched_gang *g = gang_at(s, q->items[i].gang);
        must(g->key.gang == q->items[i].gang && g->key.first == q->items[i].first);
        must(!i || item_before(&q->items[i - 1], &q->items[i]));
    }
}

// The counters of shares and pools equal the sums over their gangs.
static void check_shares(const struct sched *s, int pool)
{
    const struct sched_pool *p = &s->pools[pool];
    int64_t held = 0, waiting = 0, queued = 0, overdue = 0;
    for (int i = 0; i < s->gang_handles.count; i++) {
        const struct sched_gang *g = &s->gangs[i];
        if (!g->used || g->pool != pool)
            continue;
        held += g->slots;
        waiting += g->spec.max_slots - g->slots;
        queued += g->spec.max_slots > 0;
        overdue += g->overdue ? g->min_slots : 0;
    }
    must(p->shares[SCHED_ROOT].held == held && p->shares[SCHED_ROOT].waiting == waiting);
    must(p->overdue == overdue);
    for (int t = 0; t < s->team_handles.count; t++) {
        must(p->shares[t].held >= 0 && p->shares[t].waiting >= 0);
        queued -= (int64_t)p->shares[t].queue.count;
        check_queue(s, &p->shares[t].queue);
    }
    must(!queued);
}

static void check_team(const struct sched *s, int team)
{
    int64_t held = 0;
    for (int i = 0; i < s->pool_count; i++)
        held += s->pools[i].shares[team].held;
    must(held == s->teams[team].held);
}

void sched_check(const struct sched *s)
{
    for (int i = 0; i < s->agent_handles.count; i++)
        if (s->agents[i].used)
            check_agent(s, &s->agents[i]);
    for (int i = 0; i < s->gang_handles.count; i++)
        if (s->gangs[i].used)
            check_gang(s, i);
    for (int i = 0; i < s->pool_count; i++)
        check_shares(s, i);
    for (int i = 0; i < s->team_handles.count; i++)
        if (s->teams[i].used)
            check_team(s, i);
    for (int i = 0; i < s->job_handles.count; i++)
        must(!s->jobs[i].used || (s->jobs[i].held >= 0 && s->jobs[i].gangs >= 0));
}
