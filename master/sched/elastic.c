// Elastic gangs start with min_slots. Slots that are free after all gangs were considered go to
// them.
#include "master/sched/pass.h"

#include <string.h>

// Returns how many additional slots the gang could use.
static int extra_slots_wanted(const struct sched *s, const struct sched_gang *g)
{
    const struct sched_job *j = &s->jobs[g->spec.job];
    int64_t more = g->spec.max_slots - g->slots;
    if (j->spec.limit && j->held + more > j->spec.limit)
        more = j->spec.limit - j->held;
    for (int t = j->spec.team; t != SCHED_NONE; t = s->teams[t].parent) {
        int64_t maximum = s->teams[t].spec.maximum;
        if (maximum && s->teams[t].held + more > maximum)
            more = maximum - s->teams[t].held;
    }
    return more > 0 ? (int)more : 0;
}

static void extend_started_gang(struct sched_pass *ps, struct sched_command *c)
{
    struct sched *s = ps->s;
    int missing = extra_slots_wanted(s, &s->gangs[c->gang]);
    size_t pieces = missing ? place_more(s, ps->pool, c->gang, &missing) : 0;
    if (!pieces)
        return;
    struct sched_place *all = s->places + s->place_count;
    memcpy(all, c->places, c->count * sizeof *all);
    s->place_count += c->count;
    const struct sched_place *added = s->places + s->place_count;
    for (size_t i = 0; i < pieces; i++)
        place_take(s, c->gang, &s->pieces[i]);
    pass_claim(ps, s->pieces, pieces);
    size_t count = (size_t)(s->places + s->place_count - added);
    gang_extend(s, c->gang, added, count);
    c->places = all;
    c->count += count;
    place_sort(s, all, c->count);
}

void elastic_fill(struct sched_pass *ps, size_t first)
{
    struct sched *s = ps->s;
    for (size_t i = first; i < s->command_count && ps->available; i++)
        if (s->commands[i].kind == SCHED_START && s->gangs[s->commands[i].gang].spec.max_slots)
            extend_started_gang(ps, &s->commands[i]);
}

// A restart has a cost, so growth must bring at least a quarter more slots and must not follow the
// last start too soon.
void elastic_grow(struct sched_pass *ps)
{
    struct sched *s = ps->s;
    for (size_t i = 0; i < ps->pool->running.count && ps->available; i++) {
        int gang = ps->pool->running.items[i];
        const struct sched_gang *g = &s->gangs[gang];
        int more = g->leaving ? 0 : extra_slots_wanted(s, g), missing = more;
        if (!more || (int64_t)more * 4 < g->slots)
            continue;
        int64_t when = g->since + s->rules.grow_after;
        if (when > s->now) {
            pass_wake(ps, when);
            continue;
        }
        size_t pieces = place_more(s, ps->pool, gang, &missing);
        if (!pieces || (more - missing) * 4 < g->slots)
            continue;
        pass_claim(ps, s->pieces, pieces);
        pass_drain(ps, gang, SCHED_TO_GROW, SCHED_NONE, g->slots);
    }
}
