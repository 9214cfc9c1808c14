// Jobs and their gangs, with the lists and counters of waiting and running gangs.
#include "master/sched/internal.h"

#include "base/log.h"

enum { TYPICAL_OF = 16 }; // number of gangs over which the typical runtime is averaged

void sched_set_time(struct sched *s, int64_t now)
{
    must(now >= s->now);
    s->now = now;
}

// --- jobs ----------------------------------------------------------------------------------------

static void check_job(const struct sched *s, const struct sched_job_spec *job)
{
    must(job->pool >= 0 && job->pool < s->pool_count);
    must(job->priority >= SCHED_PRIORITY_MIN && job->priority <= SCHED_PRIORITY_MAX);
    must(job->limit >= 0 && job->weight >= 1);
    must(team_at(s, job->team)->first_child == SCHED_NONE);
}

int sched_job_add(struct sched *s, const struct sched_job_spec *job)
{
    check_job(s, job);
    int handle = handle_take(&s->job_handles, (void **)&s->jobs, sizeof *s->jobs);
    s->jobs[handle] = (struct sched_job){
        .used = true, .spec = *job, .service = job->service, .counted_at = s->now};
    s->teams[job->team].jobs++;
    return handle;
}

static void move_gang(struct sched *s, struct sched_gang *g, int pool)
{
    if (g->pool != pool && g->overdue) {
        s->pools[g->pool].overdue -= g->min_slots;
        g->overdue = false;
    }
    g->pool = pool;
}

// Waiting gangs follow their job to another pool or team at once, running gangs when they return.
void sched_job_set(struct sched *s, int job, const struct sched_job_spec *changed)
{
    struct sched_job *j = job_at(s, job);
    check_job(s, changed);
    for (int i = 0; i < s->gang_handles.count; i++)
        if (s->gangs[i].used && s->gangs[i].spec.job == job)
            gang_unlink(s, i);
    s->teams[j->spec.team].jobs--;
    s->teams[changed->team].jobs++;
    j->spec = *changed;
    for (int i = 0; i < s->gang_handles.count; i++)
        if (s->gangs[i].used && s->gangs[i].spec.job == job) {
            if (!s->gangs[i].placed)
                move_gang(s, &s->gangs[i], changed->pool);
            gang_link(s, i);
        }
}

int64_t job_service(const struct sched_job *j, int64_t now)
{
    return j->service + j->held * (now - j->counted_at);
}

static void job_count(struct sched_job *j, int64_t now)
{
    j->service = job_service(j, now);
    j->counted_at = now;
}

int64_t sched_job_service(const struct sched *s, int job, int64_t now)
{
    return job_service(job_at(s, job), now);
}

void sched_job_remove(struct sched *s, int job)
{
    struct sched_job *j = job_at(s, job);
    must(!j->gangs);
    s->teams[j->spec.team].jobs--;
    *j = (struct sched_job){0};
    handle_give(&s->job_handles, job);
}

// --- counters ------------------------------------------------------------------------------------

// Adds the slots of a gang to its team and all teams above it (sign -1 subtracts them). An elastic
// gang with fewer slots than it could use waits for the rest.
static void count_team_slots(struct sched *s, const struct sched_gang *g, int sign)
{
    struct sched_pool *p = &s->pools[g->pool];
    for (int t = s->jobs[g->spec.job].spec.team; t != SCHED_NONE; t = s->teams[t].parent) {
        struct team_share *share = &p->shares[t];
        share_count_debt(s, p, t);
        share->waiting += sign * (g->spec.max_slots - g->slots);
        if (!g->placed)
            continue;
        share->held += sign * g->slots;
        team_count(s, t, s->now);
        s->teams[t].held += sign * g->slots;
    }
}

static void running_insert(struct sched *s, struct sched_pool *p, int gang)
{
    s->gangs[gang].running_at = (int)p->running.count;
    list_insert(&p->running, p->running.count, gang);
}

static void running_erase(struct sched *s, struct sched_pool *p, int gang)
{
    int last = p->running.items[--p->running.count], at = s->gangs[gang].running_at;
    p->running.items[at] = last;
    s->gangs[last].running_at = at;
}

static void slotless_erase(struct sched_pool *p, int gang)
{
    size_t at = 0;
    while (p->slotless.items[at] != gang)
        at++;
    list_erase(&p->slotless, at);
}

// Gangs without slots have their own waiting list and compete with no other gang. All other gangs
// are in the queue of their team.
void gang_link(struct sched *s, int gang)
{
    struct sched_gang *g = &s->gangs[gang];
    struct sched_pool *p = &s->pools[g->pool];
    *(g->placed ? &p->running_count : &p->waiting_count) += 1;
    count_team_slots(s, g, 1);
    if (!g->spec.max_slots) {
        if (!g->placed)
            list_insert(&p->slotless, p->slotless.count, gang);
        return;
    }
    g->team = p->policy == SCHED_POLICY_FAIR_SHARE ? s->jobs[g->spec.job].spec.team : SCHED_ROOT;
    queue_insert(s, p, &p->shares[g->team], gang);
    if (g->placed)
        running_insert(s, p, gang);
}

void gang_unlink(struct sched *s, int gang)
{
    struct sched_gang *g = &s->gangs[gang];
    struct sched_pool *p = &s->pools[g->pool];
    *(g->placed ? &p->running_count : &p->waiting_count) -= 1;
    count_team_slots(s, g, -1);
    if (!g->spec.max_slots) {
        if (!g->placed)
            slotless_erase(p, gang);
        return;
    }
    queue_erase(s, &p->shares[g->team], gang);
    if (g->placed)
        running_erase(s, p, gang);
}

// --- gangs ---------------------------------------------------------------------------------------

int sched_gang_add(struct sched *s, const struct sched_gang_spec *gang, int64_t now)
{
    struct sched_job *j = job_at(s, gang->job);
    must(gang->min_slots >= 0 && gang->max_slots >= gang->min_slots &&
         (gang->min_slots || !gang->max_slots));
    must(gang->excluded_count >= 0 && gang->excluded_count <= SCHED_EXCLUDED_MAX);
    sched_set_time(s, now);
    j->gangs++;
    int handle = handle_take(&s->gang_handles, (void **)&s->gangs, sizeof *s->gangs);
    s->gangs[handle] = (struct sched_gang){.used = true,
                                           .spec = *gang,
                                           .min_slots = gang->min_slots,
                                           .pool = j->spec.pool,
                                           .first_agent = SCHED_NONE,
                                           .first_slot = SCHED_NONE,
                                           .sequence = ++s->sequence,
                                           .since = now,
                                           .cleared_agent = SCHED_NONE,
                                           .beneficiary = SCHED_NONE};
    reserve_for_pass(s);
    gang_link(s, handle);
    return handle;
}

static void gang_take(struct sched *s, int gang, struct sched_place place)
{
    struct sched_agent *a = agent_at(s, place.agent);
    struct sched_gang *g = &s->gangs[gang];
    if (place.slot == SCHED_NONE) {
        must(!g->spec.max_slots && g->first_agent == SCHED_NONE);
        a->zero_slot_gangs++;
    } else {
        must(place.slot >= 0 && place.slot < a->slot_count);
        struct sched_slot *slot = &a->slots[place.slot];
        must(slot->gang == SCHED_NONE);
        *slot = (struct sched_slot){slot->enabled, gang, g->first_agent, g->first_slot};
        a->free -= slot->enabled;
        g->slots++;
    }
    g->first_agent = place.agent;
    g->first_slot = place.slot;
}

// Turns a waiting gang into a running one on the places that it has taken. The gang is unlinked
// before and linked again afterwards.
static void gang_set_running(struct sched *s, int gang, int64_t started)
{
    struct sched_gang *g = &s->gangs[gang];
    struct sched_job *j = &s->jobs[g->spec.job];
    job_count(j, s->now);
    j->held += g->slots;
    g->spec.waited += started > g->since ? started - g->since : 0;
    g->placed = true;
    g->expected = g->expected ? started + g->expected : 0;
    g->since = g->saved = started;
}

void gang_start(struct sched *s, int gang, const struct sched_place *places, size_t count,
                int64_t started)
{
    gang_unlink(s, gang);
    for (size_t i = 0; i < count; i++)
        gang_take(s, gang, places[i]);
    gang_set_running(s, gang, started);
    gang_link(s, gang);
}

// Gives a running gang more slots.
void gang_extend(struct sched *s, int gang, const struct sched_place *places, size_t count)
{
    struct sched_gang *g = &s->gangs[gang];
    struct sched_job *j = &s->jobs[g->spec.job];
    count_team_slots(s, g, -1);
    for (size_t i = 0; i < count; i++)
        gang_take(s, gang, places[i]);
    job_count(j, s->now);
    j->held += (int64_t)count;
    count_team_slots(s, g, 1);
    s->pools[g->pool].shares[g->team].dirty = true;
}

void sched_gang_adopt(struct sched *s, int gang, const struct sched_place *places, size_t count,
                      int64_t started)
{
    const struct sched_gang *g = gang_at(s, gang);
    size_t max_places = g->spec.max_slots ? (size_t)g->spec.max_slots : 1;
    must(!g->placed && count >= 1 && count <= max_places && count >= (size_t)g->min_slots);
    gang_start(s, gang, places, count, started);
}

void gang_stop_clearing(struct sched *s, struct sched_gang *g)
{
    if (g->cleared_agent != SCHED_NONE)
        s->agents[g->cleared_agent].reserved_for = SCHED_NONE;
    g->cleared_agent = SCHED_NONE;
}

void sched_gang_resize(struct sched *s, int gang, int min_slots, int max_slots)
{
    struct sched_gang *g = gang_at(s, gang);
    must(min_slots >= 1 && max_slots >= min_slots && g->spec.max_slots);
    bool leaves = g->placed && (g->slots < min_slots || g->slots > max_slots);
    g->resized_min = leaves ? min_slots : 0;
    if (leaves) // it keeps its range until then, so that its slots stay within it
        return;
    gang_unlink(s, gang);
    if (g->overdue)
        s->pools[g->pool].overdue += min_slots - g->min_slots;
    gang_stop_clearing(s, g);
    g->spec.min_slots = g->min_slots = min_slots;
    g->spec.max_slots = max_slots;
    gang_link(s, gang);
}

static void release_slots(struct sched *s, const struct sched_gang *g)
{
    int agent = g->first_agent, at = g->first_slot;
    if (!g->spec.max_slots) {
        s->agents[agent].zero_slot_gangs--;
        return;
    }
    while (agent != SCHED_NONE) {
        struct sched_slot *slot = &s->agents[agent].slots[at];
        s->agents[agent].free += slot->enabled;
        int next_agent = slot->next_agent, next_slot = slot->next_slot;
        *slot = (struct sched_slot){slot->enabled, SCHED_NONE, SCHED_NONE, SCHED_NONE};
        agent = next_agent;
        at = next_slot;
    }
}

void sched_gang_remove(struct sched *s, int gang, int64_t now)
{
    struct sched_gang *g = gang_at(s, gang);
    struct sched_job *j = &s->jobs[g->spec.job];
    sched_set_time(s, now);
    gang_unlink(s, gang);
    if (g->placed) {
        struct sched_pool *p = &s->pools[g->pool];
        p->typical += (now - g->since - p->typical) / TYPICAL_OF;
        release_slots(s, g);
        job_count(j, now);
        j->held -= g->slots;
    }
    if (g->overdue)
        s->pools[g->pool].overdue -= g->min_slots;
    gang_stop_clearing(s, g);
    j->gangs--;
    *g = (struct sched_gang){0};
    handle_give(&s->gang_handles, gang);
}

void sched_gang_set_leaving(struct sched *s, int gang)
{
    struct sched_gang *g = gang_at(s, gang);
    g->leaving = g->placed;
    s->pools[g->pool].shares[g->team].dirty = true;
}

void sched_gang_set_saved(struct sched *s, int gang, int64_t at)
{
    gang_at(s, gang)->saved = at;
}

void sched_gang_set_expected_end(struct sched *s, int gang, int64_t end)
{
    gang_at(s, gang)->expected = end;
}
