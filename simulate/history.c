#include "simulate/history.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "db/db.h"

void history_free(struct cluster_history *h)
{
    trace_free(&h->trace);
    free(h->nodes);
    *h = (struct cluster_history){0};
}

// Returns the named pool, or the only pool.
static int choose_pool(struct db_reader *r, const char *wanted, char *out, size_t cap,
                       struct error *e)
{
    struct db_rows *rows = DB_QUERY(r, HISTORY_POOLS);
    char all[512] = "";
    int count = 0, err;
    bool is_there = false;
    for (; (err = db_next(rows)) == 1; count++) {
        const char *pool = DB_GET(rows, HISTORY_POOLS, pool);
        size_t len = strlen(all);
        snprintf(all + len, sizeof all - len, "%s%s", count ? ", " : "", pool);
        if (!wanted || strcmp(pool, wanted) == 0)
            snprintf(out, cap, "%s", pool);
        is_there |= wanted && strcmp(pool, wanted) == 0;
    }
    db_rows_close(rows);
    if (err)
        return error_set(e, err, "the store cannot be read");
    if (!count)
        return error_set(e, ERR_NOT_FOUND, "the store has no agents and no history");
    if (wanted ? !is_there : count > 1)
        return error_set(e, ERR_INVALID, "%s%s; choose one with --pool: %s",
                         wanted ? "there is no pool " : "the store has several pools",
                         wanted ? wanted : "", all);
    return 0;
}

// --- agents --------------------------------------------------------------------------------------

// The number of a rack: the index of the first agent in it.
static int read_agents(struct db_reader *r, const char *pool, struct cluster_history *h,
                       struct error *e)
{
    struct db_rows *rows = DB_QUERY(r, HISTORY_AGENTS, pool);
    int err, rack = -1;
    while ((err = db_next(rows)) == 1 && h->node_count < SIMULATE_NODES_MAX) {
        h->nodes = xrealloc(h->nodes, (h->node_count + 1) * sizeof *h->nodes);
        rack += DB_GET(rows, HISTORY_AGENTS, rack_mates_before) == 0;
        bool is_known = *DB_GET(rows, HISTORY_AGENTS, rack) != '\0';
        h->nodes[h->node_count++] = (struct simulate_node){(int)DB_GET(rows, HISTORY_AGENTS, slots),
                                                           is_known ? rack : SCHED_NONE};
    }
    db_rows_close(rows);
    return err < 0 ? error_set(e, err, "the store's agents cannot be read") : 0;
}

// --- teams ---------------------------------------------------------------------------------------

static int read_teams(struct db_reader *r, struct trace *t, struct error *e)
{
    struct db_rows *rows = DB_QUERY(r, HISTORY_TEAMS);
    int err;
    while ((err = db_next(rows)) == 1) {
        const char *name = DB_GET(rows, HISTORY_TEAMS, workspace),
                   *member = DB_GET(rows, HISTORY_TEAMS, username);
        int at = trace_team(t, name); // this call may move the array of teams
        struct simulate_team *team = &t->teams[at];
        team->weight = llround(fmax(0.001, DB_GET(rows, HISTORY_TEAMS, weight)) * SCHED_WEIGHT_ONE);
        team->guaranteed = DB_GET(rows, HISTORY_TEAMS, guaranteed_slots);
        team->maximum = DB_GET(rows, HISTORY_TEAMS, max_slots);
        if (!member)
            continue;
        at = trace_user(t, name, member);
        t->teams[at].weight =
            llround(fmax(0.001, DB_GET(rows, HISTORY_TEAMS, member_weight)) * SCHED_WEIGHT_ONE);
        t->teams[at].maximum = DB_GET(rows, HISTORY_TEAMS, member_max_slots);
    }
    db_rows_close(rows);
    return err < 0 ? error_set(e, err, "the store's workspaces cannot be read") : 0;
}

// --- trials --------------------------------------------------------------------------------------

static int at_least(int64_t value, int minimum)
{
    return value > minimum ? (int)value : minimum;
}

static void add_trial(struct cluster_history *h, struct db_rows *rows)
{
    int max_slots = at_least(DB_GET(rows, HISTORY_TRIALS, wanted_slots),
                             at_least(DB_GET(rows, HISTORY_TRIALS, slots), 1));
    int min_slots = (int)DB_GET(rows, HISTORY_TRIALS, min_slots);
    int64_t length = DB_GET(rows, HISTORY_TRIALS, slot_us) / max_slots;
    struct simulate_job job = {
        .submit = DB_GET(rows, HISTORY_TRIALS, queued_at),
        .length = length > 1 ? length : 1,
        .min_slots = min_slots > 0 && min_slots < max_slots ? min_slots : max_slots,
        .max_slots = max_slots,
        .priority = (int)DB_GET(rows, HISTORY_TRIALS, priority),
        .team = trace_user(&h->trace, DB_GET(rows, HISTORY_TRIALS, workspace),
                           DB_GET(rows, HISTORY_TRIALS, username)),
        .one_node = DB_GET(rows, HISTORY_TRIALS, single_node)};
    h->unfinished += DB_GET(rows, HISTORY_TRIALS, unfinished) != 0;
    trace_add(&h->trace, &job);
}

static int read_trials(struct db_reader *r, const char *pool, int64_t from, int64_t to,
                       struct cluster_history *h, struct error *e)
{
    struct db_rows *rows = DB_QUERY(r, HISTORY_TRIALS, pool);
    int64_t first = INT64_MIN;
    int err;
    while ((err = db_next(rows)) == 1 && h->trace.job_count < SIMULATE_JOBS_MAX) {
        first = first == INT64_MIN ? DB_GET(rows, HISTORY_TRIALS, queued_at) : first;
        int64_t since = DB_GET(rows, HISTORY_TRIALS, queued_at) - first;
        bool is_inside = since >= from && since < to;
        h->trace.outside += !is_inside;
        h->unstarted += is_inside && !DB_GET(rows, HISTORY_TRIALS, starts);
        if (is_inside && DB_GET(rows, HISTORY_TRIALS, starts))
            add_trial(h, rows);
    }
    db_rows_close(rows);
    return err < 0 ? error_set(e, err, "the store's allocations cannot be read") : 0;
}

int history_of(struct db_reader *r, const char *pool, int64_t from, int64_t to,
               struct cluster_history *out, struct error *e)
{
    char chosen[256];
    *out = (struct cluster_history){0};
    int err = choose_pool(r, pool, chosen, sizeof chosen, e);
    err = err ? err : read_agents(r, chosen, out, e);
    err = err ? err : read_teams(r, &out->trace, e);
    err = err ? err : read_trials(r, chosen, from, to, out, e);
    if (err)
        history_free(out);
    return err;
}

int history_read(const char *path, const char *pool, int64_t from, int64_t to,
                 struct cluster_history *out, struct error *e)
{
    struct db_reader *r = NULL;
    int err = db_reader_open_path(path, &r, e);
    if (err)
        return err;
    err = history_of(r, pool, from, to, out, e);
    db_reader_close(r);
    return err ? error_prefix(e, "%s", path) : 0;
}

void history_add_nodes(struct cluster_history *h, size_t count, int slots)
{
    h->nodes = xrealloc(h->nodes, (h->node_count + count) * sizeof *h->nodes);
    for (size_t i = 0; i < count; i++)
        h->nodes[h->node_count++] = (struct simulate_node){slots, SCHED_NONE};
}

int history_usual_slots(const struct cluster_history *h)
{
    int best = 0;
    size_t best_count = 0;
    for (size_t i = 0; i < h->node_count; i++) {
        size_t same = 0;
        for (size_t k = 0; k < h->node_count; k++)
            same += h->nodes[k].slots == h->nodes[i].slots;
        if (same > best_count) {
            best_count = same;
            best = h->nodes[i].slots;
        }
    }
    return best;
}
