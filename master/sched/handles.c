#include "master/sched/internal.h"

#include <string.h>

#include "base/arena.h"
#include "base/log.h"

int handle_take(struct handle_allocator *h, void **array, size_t size)
{
    int handle;
    if (h->free_count) {
        handle = h->free[--h->free_count];
    } else {
        if (h->count == h->cap) {
            h->cap = h->cap ? 2 * h->cap : 16;
            *array = xrealloc(*array, (size_t)h->cap * size);
            h->free = xrealloc(h->free, (size_t)h->cap * sizeof *h->free);
        }
        handle = h->count++;
    }
    memset((char *)*array + (size_t)handle * size, 0, size);
    return handle;
}

void handle_give(struct handle_allocator *h, int handle)
{
    h->free[h->free_count++] = handle;
}

struct sched_agent *agent_at(const struct sched *s, int agent)
{
    must(agent >= 0 && agent < s->agent_handles.count && s->agents[agent].used);
    return &s->agents[agent];
}

struct sched_team *team_at(const struct sched *s, int team)
{
    must(team >= 0 && team < s->team_handles.count && s->teams[team].used);
    return &s->teams[team];
}

struct sched_job *job_at(const struct sched *s, int job)
{
    must(job >= 0 && job < s->job_handles.count && s->jobs[job].used);
    return &s->jobs[job];
}

struct sched_gang *gang_at(const struct sched *s, int gang)
{
    must(gang >= 0 && gang < s->gang_handles.count && s->gangs[gang].used);
    return &s->gangs[gang];
}

void list_insert(struct handle_list *l, size_t at, int value)
{
    if (l->count == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 16;
        l->items = xrealloc(l->items, l->cap * sizeof *l->items);
    }
    memmove(l->items + at + 1, l->items + at, (l->count - at) * sizeof *l->items);
    l->items[at] = value;
    l->count++;
}

void list_erase(struct handle_list *l, size_t at)
{
    l->count--;
    memmove(l->items + at, l->items + at + 1, (l->count - at) * sizeof *l->items);
}
