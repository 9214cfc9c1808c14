#include "simulate/history.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "db/db.h"

// A trial with the slots that its allocations held. The configuration says how many slots it
// wanted; an allocation only says how many it got.
static const char trials_sql[] =
    "SELECT min(a.queued_at),"
    " sum(a.slots * (coalesce(a.ended_at, t.ended_at, s.at) - a.started_at)),"
    " max(a.slots), max(a.least_slots), w.name, u.username, e.priority,"
    " coalesce(json_extract(e.config, '$.resources.slots_per_trial'), 0),"
    " coalesce(json_extract(e.config, '$.resources.is_single_node'), 0),"
    " t.ended_at IS NULL, count(a.started_at)"
    " FROM allocations a JOIN trials t ON t.id = a.trial_id"
    " JOIN experiments e ON e.id = t.experiment_id JOIN projects p ON p.id = e.project_id"
    " JOIN workspaces w ON w.id = p.workspace_id JOIN users u ON u.id = e.user_id,"
    " (SELECT max(max(queued_at, coalesce(started_at, 0), coalesce(ended_at, 0))) AS at"
    "  FROM allocations) s"
    " WHERE a.pool = ? AND a.slots > 0 GROUP BY t.id ORDER BY min(a.queued_at), t.id";

enum {
    COL_QUEUED,
    COL_WORK,
    COL_SLOTS,
    COL_LEAST,
    COL_WORKSPACE,
    COL_USER,
    COL_PRIORITY,
    COL_WANTED,
    COL_ONE_NODE,
    COL_UNFINISHED,
    COL_STARTS
};

void history_free(struct history *h)
{
    trace_free(&h->trace);
    free(h->nodes);
    *h = (struct history){0};
}

static struct db_value text_value(const char *text)
{
    return (struct db_value){.type = 's', .p = text, .len = strlen(text)};
}

// Returns the named pool, or the only pool.
static int choose_pool(struct db_reader *r, const char *wanted, char *out, size_t cap,
                       struct error *e)
{
    struct db_rows *rows = db_query_sql(
        r, "SELECT pool FROM agents UNION SELECT DISTINCT pool FROM allocations ORDER BY 1", NULL,
        0);
    char all[512] = "";
    int count = 0, err;
    bool is_there = false;
    for (; (err = db_next(rows)) == 1; count++) {
        const char *pool = db_text(rows, 0);
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
static int read_agents(struct db_reader *r, const char *pool, struct history *h, struct error *e)
{
    struct db_value value = text_value(pool);
    struct db_rows *rows = db_query_sql(
        r,
        "SELECT json_array_length(a.slots) - json_array_length(a.disabled_slots),"
        " (SELECT count(*) FROM agents b WHERE b.rack = a.rack AND b.id < a.id), a.rack"
        " FROM agents a WHERE a.pool = ? AND a.enabled AND json_array_length(a.slots)"
        " > json_array_length(a.disabled_slots) ORDER BY a.rack, a.id",
        &value, 1);
    int err, rack = -1;
    while ((err = db_next(rows)) == 1 && h->node_count < SIMULATE_NODES_MAX) {
        h->nodes = xrealloc(h->nodes, (h->node_count + 1) * sizeof *h->nodes);
        rack += db_int(rows, 1) == 0;
        bool is_known = *db_text(rows, 2) != '\0';
        h->nodes[h->node_count++] =
            (struct simulate_node){(int)db_int(rows, 0), is_known ? rack : SCHED_NONE};
    }
    db_rows_close(rows);
    return err < 0 ? error_set(e, err, "the store's agents cannot be read") : 0;
}

// --- teams ---------------------------------------------------------------------------------------

static int read_teams(struct db_reader *r, struct trace *t, struct error *e)
{
    struct db_rows *rows =
        db_query_sql(r,
                     "SELECT w.name, u.username, w.weight, w.guaranteed_slots, w.max_slots,"
                     " m.weight, m.max_slots FROM workspaces w"
                     " LEFT JOIN workspace_members m ON m.workspace_id = w.id"
                     " LEFT JOIN users u ON u.id = m.user_id ORDER BY w.id, u.id",
                     NULL, 0);
    int err;
    while ((err = db_next(rows)) == 1) {
        const char *name = db_text(rows, 0), *member = db_text(rows, 1);
        int at = trace_team(t, name); // this call may move the array of teams
        struct simulate_team *team = &t->teams[at];
        team->weight = llround(fmax(0.001, db_double(rows, 2)) * SCHED_WEIGHT_ONE);
        team->guaranteed = db_int(rows, 3);
        team->maximum = db_int(rows, 4);
        if (!member)
            continue;
        at = trace_user(t, name, member);
        t->teams[at].weight = llround(fmax(0.001, db_double(rows, 5)) * SCHED_WEIGHT_ONE);
        t->teams[at].maximum = db_int(rows, 6);
    }
    db_rows_close(rows);
    return err < 0 ? error_set(e, err, "the store's workspaces cannot be read") : 0;
}

// --- trials --------------------------------------------------------------------------------------

static int at_least(int64_t value, int min_slots)
{
    return value > min_slots ? (int)value : min_slots;
}

static void add_trial(struct history *h, struct db_rows *rows)
{
    int most = at_least(db_int(rows, COL_WANTED), at_least(db_int(rows, COL_SLOTS), 1));
    int min_slots = (int)db_int(rows, COL_LEAST);
    int64_t length = db_int(rows, COL_WORK) / most;
    struct simulate_job job = {
        .submit = db_int(rows, COL_QUEUED),
        .length = length > 1 ? length : 1,
        .min_slots = min_slots > 0 && min_slots < most ? min_slots : most,
        .max_slots = most,
        .priority = (int)db_int(rows, COL_PRIORITY),
        .team = trace_user(&h->trace, db_text(rows, COL_WORKSPACE), db_text(rows, COL_USER)),
        .one_node = db_int(rows, COL_ONE_NODE)};
    h->unfinished += db_int(rows, COL_UNFINISHED) != 0;
    trace_add(&h->trace, &job);
}

static int read_trials(struct db_reader *r, const char *pool, int64_t from, int64_t to,
                       struct history *h, struct error *e)
{
    struct db_value value = text_value(pool);
    struct db_rows *rows = db_query_sql(r, trials_sql, &value, 1);
    int64_t first = INT64_MIN;
    int err;
    while ((err = db_next(rows)) == 1 && h->trace.job_count < SIMULATE_JOBS_MAX) {
        first = first == INT64_MIN ? db_int(rows, COL_QUEUED) : first;
        int64_t since = db_int(rows, COL_QUEUED) - first;
        bool is_inside = since >= from && since < to;
        h->trace.outside += !is_inside;
        h->unstarted += is_inside && !db_int(rows, COL_STARTS);
        if (is_inside && db_int(rows, COL_STARTS))
            add_trial(h, rows);
    }
    db_rows_close(rows);
    return err < 0 ? error_set(e, err, "the store's allocations cannot be read") : 0;
}

int history_of(struct db_reader *r, const char *pool, int64_t from, int64_t to, struct history *out,
               struct error *e)
{
    char chosen[256];
    *out = (struct history){0};
    int err = choose_pool(r, pool, chosen, sizeof chosen, e);
    err = err ? err : read_agents(r, chosen, out, e);
    err = err ? err : read_teams(r, &out->trace, e);
    err = err ? err : read_trials(r, chosen, from, to, out, e);
    if (err)
        history_free(out);
    return err;
}

int history_read(const char *path, const char *pool, int64_t from, int64_t to, struct history *out,
                 struct error *e)
{
    struct db_reader *r = NULL;
    int err = db_reader_open_path(path, &r, e);
    if (err)
        return err;
    err = history_of(r, pool, from, to, out, e);
    db_reader_close(r);
    return err ? error_prefix(e, "%s", path) : 0;
}

void history_add_nodes(struct history *h, size_t count, int slots)
{
    h->nodes = xrealloc(h->nodes, (h->node_count + count) * sizeof *h->nodes);
    for (size_t i = 0; i < count; i++)
        h->nodes[h->node_count++] = (struct simulate_node){slots, SCHED_NONE};
}

int history_usual_slots(const struct history *h)
{
    int best = 0;
    size_t most = 0;
    for (size_t i = 0; i < h->node_count; i++) {
        size_t same = 0;
        for (size_t k = 0; k < h->node_count; k++)
            same += h->nodes[k].slots == h->nodes[i].slots;
        if (same > most) {
            most = same;
            best = h->nodes[i].slots;
        }
    }
    return best;
}
