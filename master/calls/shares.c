// Who is entitled to how much and holds how much, for GET /api/v1/shares: in each pool its
// workspaces, each followed by its users.
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text/json.h"
#include "master/calls/module.h"
#include "master/calls/wait_reason.h"
#include "master/teams/teams.h"

static const double seconds_an_hour = 3600;

struct counts { // of experiments, by the scheduler's team
    int64_t waiting, running;
};

struct pool_shares {
    struct core *c;
    struct request *rq;
    const struct pool *pool;
    struct counts *counts;
    size_t count;
    struct json_writer *w;
};

static struct counts *counts_of(struct pool_shares *p, int team)
{
    if ((size_t)team >= p->count) {
        p->counts = xrealloc(p->counts, ((size_t)team + 1) * sizeof *p->counts);
        memset(p->counts + p->count, 0, ((size_t)team + 1 - p->count) * sizeof *p->counts);
        p->count = (size_t)team + 1;
    }
    return &p->counts[team];
}

static void count_experiment(struct pool_shares *p, const struct active_experiment *l)
{
    const struct experiment *x = l->experiment;
    const struct workspace *ws = core_workspace_of(p->c, x);
    const int teams[] = {ws->team, core_team(p->c, ws->id, x->user_id)};
    bool waiting = false, running = false;
    for (const struct trial *t = l->trials; t; t = t->next) {
        waiting = waiting || why_waits(t);
        running = running || (t->allocation && !why_waits(t));
    }
    for (int i = 0; i < 2; i++) {
        counts_of(p, teams[i])->waiting += waiting && !running;
        counts_of(p, teams[i])->running += running;
    }
}

static void count_experiments(struct pool_shares *p)
{
    struct core *c = p->c;
    c->listing++;
    for (size_t i = 0; i < c->trials.count; i++) {
        struct active_experiment *l = ((const struct trial *)c->trials.items[i].value)->active;
        if (l->pool != p->pool || l->listing == c->listing)
            continue;
        l->listing = c->listing;
        count_experiment(p, l);
    }
}

// --- lines ---------------------------------------------------------------------------------------

struct line {
    const struct workspace *ws;
    const struct member *m; // NULL: of the workspace itself
    int team;
    double weight;
    int64_t guaranteed, maximum;
};

static void write_user(struct pool_shares *p, const struct line *line)
{
    jw_key(p->w, "userId");
    if (!line->m) {
        jw_null(p->w);
        jw_kv_string(p->w, "username", "");
        return;
    }
    jw_int(p->w, line->m->user_id);
    struct db_rows *rows = db_query(p->c->reader, STMT_USER_BY_ID, "i", line->m->user_id);
    jw_kv_string(p->w, "username", db_next(rows) > 0 ? db_text(rows, 1) : "");
    db_rows_close(rows);
}

static void write_line(struct pool_shares *p, const struct line *line, bool seen)
{
    struct sched_share share = {0};
    struct counts counts = {0};
    if (line->team != SCHED_NONE) {
        sched_team_share(p->c->sched, line->team, p->pool->handle, p->c->now, &share);
        counts = *counts_of(p, line->team);
    }
    bool has = share.used || share.wanted || share.usage > 0 || share.debt > 0 || counts.waiting ||
               counts.running;
    bool configured = line->weight < 1 || line->weight > 1 || line->guaranteed || line->maximum;
    if (!has && !configured)
        return;
    jw_object(p->w);
    jw_kv_string(p->w, "resourcePool", p->pool->name);
    jw_kv_int(p->w, "workspaceId", line->ws->id);
    jw_kv_string(p->w, "workspaceName", seen ? line->ws->name : "");
    write_user(p, line);
    jw_kv_double(p->w, "weight", line->weight);
    jw_kv_int(p->w, "guaranteedSlots", line->guaranteed);
    jw_kv_int(p->w, "maxSlots", line->maximum);
    jw_kv_int(p->w, "usedSlots", share.used);
    jw_kv_int(p->w, "wantedSlots", share.wanted);
    jw_kv_int(p->w, "entitledSlots", share.entitled);
    jw_kv_double(p->w, "usageSlotHours", (double)share.usage / seconds_an_hour);
    jw_kv_double(p->w, "debtSlotHours", (double)share.debt / seconds_an_hour);
    jw_kv_int(p->w, "waitingJobs", counts.waiting);
    jw_kv_int(p->w, "runningJobs", counts.running);
    jw_object_end(p->w);
}

// Of a workspace that the caller does not see, its line without the name.
static void write_workspace(struct pool_shares *p, const struct workspace *ws)
{
    bool seen = role_may(core_role(p->rq, ws), ACT_SEE);
    const struct line own = {.ws = ws,
                             .team = ws->team,
                             .weight = ws->weight,
                             .guaranteed = ws->guaranteed_slots,
                             .maximum = ws->max_slots};
    write_line(p, &own, seen);
    for (size_t i = 0; i < ws->members.count && seen; i++) {
        const struct member *m = ws->members.items[i].value;
        const struct line line = {
            .ws = ws, .m = m, .team = m->team, .weight = m->weight, .maximum = m->max_slots};
        write_line(p, &line, seen);
    }
}

int core_shares(struct core *c, struct request *rq, struct error *e)
{
    const char *only = rq->query(rq, "resourcePool");
    struct json_writer w;
    (void)e;
    jw_init(&w, &rq->answer);
    jw_object(&w);
    jw_key(&w, "shares");
    jw_array(&w);
    for (size_t i = 0; i < c->pool_count; i++) {
        struct pool_shares p = {.c = c, .rq = rq, .pool = c->pools[i], .w = &w};
        if (only && *only && strcmp(only, p.pool->name))
            continue;
        if (!core_pool_exists(c, p.pool))
            continue;
        count_experiments(&p);
        for (size_t k = 0; k < c->workspaces.count; k++)
            write_workspace(&p, c->workspaces.items[k].value);
        free(p.counts);
    }
    jw_array_end(&w);
    jw_object_end(&w);
    return 0;
}
