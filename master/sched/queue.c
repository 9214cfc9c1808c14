// The order within one team: priority, then level of service, then order of submission.
#include "master/sched/internal.h"

#include <string.h>

#include "base/arena.h"
#include "base/log.h"

// The level of a job by its service. *changes: when it reaches the next level at its present pace.
static int level_of(const struct sched *s, const struct sched_job *j, int64_t *changes)
{
    const int64_t *levels = s->rules.levels;
    int64_t service = job_service(j, s->now);
    for (int i = 0; i < SCHED_LEVELS - 1; i++) {
        int64_t end = levels[i] / SCHED_WEIGHT_ONE * j->spec.weight;
        if (service >= end)
            continue;
        if (j->held)
            *changes = s->now + (end - service) / j->held + 1;
        return i;
    }
    return SCHED_LEVELS - 1;
}

// Returns whether age lifts the gang only within its own team: the pool shares fairly, and the gang
// fits on one agent.
static bool is_lifted(const struct sched_pool *p, const struct sched_gang *g)
{
    return p->policy == SCHED_POLICY_FAIR_SHARE && g->min_slots <= p->largest;
}

// The number of levels that the gang has gained by waiting. *changes: the time of the next gain.
static int lift_of(const struct sched *s, const struct sched_pool *p, const struct sched_gang *g,
                   int64_t *changes)
{
    if (!is_lifted(p, g) || !p->passes)
        return 0;
    int64_t waited = g->spec.waited + (g->placed ? 0 : s->now - g->since);
    int64_t lift = waited / s->rules.overdue,
            next = s->now + (lift + 1) * s->rules.overdue - waited;
    if (!g->placed && next < *changes)
        *changes = next;
    return lift < SCHED_LEVELS ? (int)lift : SCHED_LEVELS;
}

// Marks a waiting gang as overdue once, while overdue gangs hold less than their limit. *changes:
// when to check again.
static bool is_overdue(struct sched *s, struct sched_pool *p, struct sched_gang *g,
                       int64_t *changes)
{
    int64_t wait = g->min_slots > p->largest ? s->rules.overdue_large : s->rules.overdue;
    int64_t due = g->since - g->spec.waited + wait;
    if (g->overdue || g->placed || (p->passes && is_lifted(p, g)))
        return g->overdue;
    bool allowed =
        !p->overdue || (p->overdue + g->min_slots) * 100 <= p->capacity * s->rules.overdue_percent;
    if (due <= s->now && p->passes && allowed) {
        g->overdue = true;
        p->overdue += g->min_slots;
        return true;
    }
    if (!p->passes)
        due = s->now; // no pass has seen the pool yet
    else if (due <= s->now)
        due = s->now + HOUR_US / 6;
    *changes = due < *changes ? due : *changes;
    return false;
}

// The key of a gang. *changes: when the key changes without any event.
static struct queue_item key_of(struct sched *s, struct sched_pool *p, int gang, int64_t *changes)
{
    struct sched_gang *g = &s->gangs[gang];
    const struct sched_job *j = &s->jobs[g->spec.job];
    struct queue_item key = {0, j->spec.order, g->sequence, gang};
    *changes = INT64_MAX;
    if (pool_is_strict(p))
        return key;
    int level = level_of(s, j, changes), lift = lift_of(s, p, g, changes);
    level = LEVEL_FIRST + (level > lift ? level - lift : 0);
    if (is_overdue(s, p, g, changes))
        level = LEVEL_OVERDUE;
    key.first = (int64_t)j->spec.priority * LEVELS_CAP + level;
    return key;
}

bool item_before(const struct queue_item *a, const struct queue_item *b)
{
    if (a->first != b->first)
        return a->first < b->first;
    if (a->second != b->second)
        return a->second < b->second;
    return a->third < b->third;
}

static size_t item_position(const struct sched_queue *q, const struct queue_item *key)
{
    size_t low = 0, high = q->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (item_before(&q->items[middle], key))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void queue_insert(struct sched *s, struct sched_pool *p, struct team_share *share, int gang)
{
    struct sched_queue *q = &share->queue;
    int64_t changes;
    struct queue_item key = key_of(s, p, gang, &changes);
    size_t at = item_position(q, &key);
    if (q->count == q->cap) {
        q->cap = q->cap ? 2 * q->cap : 16;
        q->items = xrealloc(q->items, q->cap * sizeof *q->items);
    }
    memmove(q->items + at + 1, q->items + at, (q->count - at) * sizeof *q->items);
    q->items[at] = key;
    if (!q->count++ || changes < q->due)
        q->due = changes;
    s->gangs[gang].key = key;
    share->dirty = true;
}

void queue_erase(struct sched *s, struct team_share *share, int gang)
{
    struct sched_queue *q = &share->queue;
    size_t at = item_position(q, &s->gangs[gang].key);
    must(at < q->count && q->items[at].gang == gang);
    share->dirty = true;
    q->count--;
    memmove(q->items + at, q->items + at + 1, (q->count - at) * sizeof *q->items);
}

// --- sorting -------------------------------------------------------------------------------------

// The end of the ascending run that begins at `from`.
static size_t run_end(const struct queue_item *items, size_t from, size_t count)
{
    size_t end = from + 1;
    while (end < count && !item_before(&items[end], &items[end - 1]))
        end++;
    return end;
}

// Merges items[from, middle) and items[middle, end) through `scratch`.
static void merge_runs(struct queue_item *items, struct queue_item *scratch, size_t from,
                       size_t middle, size_t end)
{
    size_t left = 0, right = middle, at = from, count = middle - from;
    memcpy(scratch, items + from, count * sizeof *items);
    while (left < count)
        items[at++] = right < end && item_before(&items[right], &scratch[left]) ? items[right++]
                                                                                : scratch[left++];
}

// A natural merge sort: nearly sorted items cost little more than one walk.
void items_sort(struct queue_item *items, struct queue_item *scratch, size_t count)
{
    bool merged = count > 1;
    while (merged) {
        merged = false;
        for (size_t from = 0; from < count;) {
            size_t middle = run_end(items, from, count);
            if (middle == count)
                break;
            size_t end = run_end(items, middle, count);
            merge_runs(items, scratch, from, middle, end);
            merged = true;
            from = end;
        }
    }
}

void queue_renew(struct sched *s, struct sched_pool *p, struct team_share *share)
{
    struct sched_queue *q = &share->queue;
    if (q->due > s->now)
        return;
    share->dirty = true;
    q->due = INT64_MAX;
    for (size_t i = 0; i < q->count; i++) {
        int64_t changes;
        struct queue_item key = key_of(s, p, q->items[i].gang, &changes);
        q->items[i] = s->gangs[key.gang].key = key;
        if (changes < q->due)
            q->due = changes;
    }
    items_sort(q->items, s->scratch, q->count);
}
