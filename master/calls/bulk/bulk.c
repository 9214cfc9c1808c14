// One verb for many experiments. They are named by id or found by filters, which a worker reads
// from the store. The verb is tried on each, and the answer has one result for each. In calls of
// Determined, a search is an experiment and a run is a trial. A verb on a run applies to its
// experiment if the experiment has one trial only. A run of several can only be killed.
#include <stdlib.h>
#include <string.h>

#include "api/wire.h"
#include "base/arena.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/text/json.h"
#include "db/statements/compose.h"
#include "master/calls/bulk/bulk_select.h"
#include "master/calls/module.h"
#include "master/calls/snapshots.h"
#include "master/calls/verbs.h"
#include "master/kernel/workers.h"
#include "master/lifecycle/lifecycle.h"
#include "master/retention/log_expiry.h"
#include "master/teams/roles.h"
#include "master/teams/teams.h"

enum bulk_noun { OF_EXPERIMENTS, OF_SEARCHES, OF_RUNS };
enum { EVERY_PROJECT = -1 };

struct bulk_call {
    struct work work; // first
    struct request *rq;
    enum experiment_verb verb;
    enum bulk_noun noun;
    const char *filter; // of searches and runs; NULL: the ids are given
    int64_t project;    // the project that all must be in; 0: any
    int64_t argument;   // of the verb
    int64_t *ids;
    size_t count;
    struct bulk_run *runs; // one for each id; of OF_RUNS
    int err;
    struct error e;
};

struct bulk_run {
    int64_t experiment; // 0: there is no such run
    bool alone;         // the only one of its experiment
};

static void bulk_free(struct work *work)
{
    struct bulk_call *b = (struct bulk_call *)work;
    free(b->ids);
    free(b->runs);
    free(b);
}

static void add_id(struct bulk_call *b, int64_t id)
{
    b->ids = xrealloc(b->ids, (b->count + 1) * sizeof *b->ids);
    b->ids[b->count++] = id;
}

// --- filters, on a worker ------------------------------------------------------------------------

enum { VALUES_MAX = 16, FIND_SQL_MAX = 4 * 1024 }; // more than all filters together take

struct bulk_filter {
    struct buf where;
    struct db_value values[VALUES_MAX];
    size_t count;
    struct arena arena; // of the values
    struct bulk_call *call;
};

static void filter_bind_int(struct bulk_filter *f, int64_t value)
{
    must(f->count < VALUES_MAX);
    f->values[f->count++] = db_value_integer(value);
}

static void filter_bind_text(struct bulk_filter *f, const char *text)
{
    must(f->count < VALUES_MAX);
    f->values[f->count++] = db_value_text(text);
}

static void filter_text(struct bulk_filter *f, const json_t *filters, const char *name,
                        const char *sql)
{
    const char *part = jget_string(filters, name, "");
    if (!*part)
        return;
    buf_puts(&f->where, sql);
    filter_bind_text(f, part);
}

static void filter_list(struct bulk_filter *f, const json_t *list, const char *sql)
{
    if (!json_array_size(list))
        return;
    char *text = json_text(list);
    buf_puts(&f->where, sql);
    filter_bind_text(f, arena_strdup(&f->arena, text));
    free(text);
}

// ACTIVE in the store includes QUEUED, PULLING, STARTING and RUNNING of the wire.
static void add_state(struct bulk_filter *f, const char *name, json_t *out)
{
    const char *word;
    if (wire_parse(WIRE_EXPERIMENT_STATE, name, &word, &f->call->e)) {
        f->call->err = error_prefix(&f->call->e, "filters.states");
        return;
    }
    bool runs = !strcmp(word, "QUEUED") || !strcmp(word, "PULLING") || !strcmp(word, "STARTING") ||
                !strcmp(word, "RUNNING");
    json_array_append_new(out, json_string(runs ? "ACTIVE" : word));
    if (!strcmp(word, "RUNNING") || !strcmp(word, "ACTIVE"))
        json_array_append_new(out, json_string("RUNNING")); // of active unmanaged experiments
}

static void filter_states(struct bulk_filter *f, const json_t *filters)
{
    size_t i;
    json_t *value, *words = json_array();
    json_array_foreach(jget(filters, "states"), i, value)
        add_state(f, json_is_string(value) ? json_string_value(value) : "", words);
    filter_list(f, words, SQL_AND_STATE_IN);
    json_decref(words);
}

static void filter_build(struct bulk_filter *f, const json_t *filters)
{
    const struct principal *me = &f->call->rq->principal;
    int64_t project = jget_int(filters, "projectId", f->call->project);
    filter_text(f, filters, "name", " AND instr(lower(e.name), lower(?))");
    filter_text(f, filters, "description", " AND instr(lower(e.description), lower(?))");
    filter_list(f, jget(filters, "labels"), SQL_AND_HAS_LABELS);
    filter_states(f, filters);
    filter_list(f, jget(filters, "userIds"), SQL_AND_USER_IN);
    filter_list(f, jget(filters, "excludedExperimentIds"), SQL_AND_ID_NOT_IN);
    if (jget(filters, "archived")) {
        buf_puts(&f->where, " AND e.archived = ?");
        filter_bind_int(f, jget_bool(filters, "archived", false));
    }
    if (project) {
        buf_puts(&f->where, " AND e.project_id = ?");
        filter_bind_int(f, project);
    }
    if (!me->admin) {
        buf_puts(&f->where, SQL_AND_VISIBLE);
        filter_bind_int(f, me->user_id);
    }
}

static void read_runs(struct bulk_call *b, struct db_reader *db)
{
    b->runs = xcalloc(b->count + 1, sizeof *b->runs);
    for (size_t i = 0; i < b->count && !b->err; i++) {
        struct db_rows *rows = DB_QUERY(db, RUN_EXPERIMENT, b->ids[i]);
        int found = db_next(rows);
        if (found == 1)
            b->runs[i] = (struct bulk_run){DB_GET(rows, RUN_EXPERIMENT, experiment_id),
                                           DB_GET(rows, RUN_EXPERIMENT, is_single)};
        else if (found < 0)
            b->err = error_set(&b->e, ERR_INTERNAL, "the store cannot be read");
        db_rows_close(rows);
    }
}

// Filters of experiments, as Determined's bulk calls have them.
static void find_experiments(struct bulk_call *b, struct db_reader *db)
{
    struct bulk_filter f = {.call = b};
    struct buf sql;
    buf_init(&f.where, FIND_SQL_MAX);
    buf_init(&sql, 2 * FIND_SQL_MAX);
    filter_build(&f, jget(b->rq->body, "filters"));
    must(!f.where.err);
    buf_printf(&sql, SQL_FIND_EXPERIMENTS, buf_str(&f.where), LIMIT_BULK + 1);
    if (!b->err) {
        struct db_rows *rows = db_query_sql(db, buf_str(&sql), f.values, f.count);
        int more;
        while ((more = db_next(rows)) > 0)
            add_id(b, DB_GET(rows, ID, id));
        if (more < 0)
            b->err = error_set(&b->e, ERR_INTERNAL, "the store cannot be read");
        db_rows_close(rows);
    }
    if (!b->err && b->count > LIMIT_BULK)
        b->err = error_set(&b->e, ERR_TOO_LARGE,
                           "filters: select more than %d experiments; select fewer", LIMIT_BULK);
    buf_free(&sql);
    buf_free(&f.where);
    arena_free(&f.arena);
}

static void bulk_read(struct work *work, struct db_reader *db)
{
    struct bulk_call *b = (struct bulk_call *)work;
    if (b->filter)
        b->err = bulk_select(db, &b->rq->principal,
                             b->noun == OF_RUNS ? FILTER_RUNS : FILTER_EXPERIMENTS, b->filter,
                             b->project, &b->ids, &b->count, &b->e);
    else if (b->noun == OF_EXPERIMENTS)
        find_experiments(b, db);
    if (!b->err && b->noun == OF_RUNS)
        read_runs(b, db);
}

// --- on the core thread --------------------------------------------------------------------------

static const char *const ids_keys[] = {"experimentIds", "searchIds", "runIds"};
static const char *const nouns[] = {"experiment", "search", "run"};

// Applies the verb to one of several trials of an experiment; the trial may have ended.
static int apply_to_run(struct core *c, const struct bulk_call *b, struct experiment *x, int64_t id,
                        struct error *e)
{
    struct trial *t = core_trial_find(c, id);
    if (b->verb != VERB_KILL)
        return error_set(e, ERR_CONFLICT,
                         "search %lld has more runs than run %lld: give the id of the search to "
                         "the same verb of searches",
                         (long long)x->id, (long long)id);
    int err = core_may_change(c, b->rq, x, e);
    if (!err && t)
        trial_kill(c, t);
    return err;
}

static int apply_to_one(struct core *c, const struct bulk_call *b, size_t i, struct error *e)
{
    long long id = b->ids[i];
    struct experiment *x = core_experiment_find(c, b->runs ? b->runs[i].experiment : id);
    if (!x || x->kind != KIND_EXPERIMENT || !core_sees(c, b->rq, x))
        return error_not_found(e, nouns[b->noun], "%lld", id);
    if (b->project && x->project_id != b->project)
        return error_set(e, ERR_NOT_FOUND, "%s '%lld' not found in project %lld", nouns[b->noun],
                         id, (long long)b->project);
    if (b->runs && !b->runs[i].alone)
        return apply_to_run(c, b, x, id, e);
    return experiment_verb_apply(c, b->rq, x, b->verb, b->argument, e);
}

static void apply_to_all(struct core *c, struct bulk_call *b)
{
    struct arena *arena = &b->rq->arena;
    struct action_results *result = arena_alloc(arena, sizeof *result);
    struct action_result *items = arena_alloc(arena, b->count * sizeof *items);
    for (size_t i = 0; i < b->count; i++) {
        struct error e = {0};
        int err = apply_to_one(c, b, i, &e);
        items[i] = (struct action_result){b->ids[i], err ? arena_strdup(arena, e.text) : ""};
    }
    *result = (struct action_results){.items = items, .count = b->count};
    b->rq->result = result;
}

static void bulk_ready(struct core *c, struct work *work)
{
    struct bulk_call *b = (struct bulk_call *)work;
    if (b->err)
        core_refuse(c, b->rq, &b->e);
    else
        apply_to_all(c, b);
    if (!b->err)
        core_complete(c, b->rq);
    bulk_free(work);
}

static int read_ids(struct bulk_call *b, struct error *e)
{
    size_t i;
    json_t *value;
    const char *key = ids_keys[b->noun];
    const json_t *ids = jget(b->rq->body, key);
    if (!json_is_array(ids))
        return error_set(e, ERR_INVALID, "%s: missing, or not a list of ids", key);
    if (json_array_size(ids) > LIMIT_BULK)
        return error_set(e, ERR_TOO_LARGE, "%s: more than %d", key, LIMIT_BULK);
    json_array_foreach(ids, i, value)
    {
        if (!json_is_integer(value))
            return error_set(e, ERR_INVALID, "%s.%zu: not an id", key, i);
        add_id(b, json_integer_value(value));
    }
    return 0;
}

// The project is in the path or in the body; -1: every project that the caller may see.
static int read_project(struct bulk_call *b, struct error *e)
{
    const struct request *rq = b->rq;
    bool experiments = b->noun == OF_EXPERIMENTS;
    const char *key = !experiments && b->verb == VERB_MOVE ? "sourceProjectId" : "projectId";
    int err = 0;
    if (experiments && rq->params[0])
        err = request_param_int(b->rq, 0, &b->project, e);
    else
        b->project = jget_int(rq->body, key, 0);
    if (b->project == EVERY_PROJECT)
        b->project = 0;
    return err;
}

// The ids, or a filter in place of them.
static int read_selection(struct bulk_call *b, struct error *e)
{
    const json_t *body = b->rq->body;
    const char *ids = ids_keys[b->noun];
    if (b->noun == OF_EXPERIMENTS && jget(body, "filters"))
        return json_is_object(jget(body, "filters"))
                   ? 0
                   : error_set(e, ERR_INVALID, "filters: not an object");
    if (b->noun != OF_EXPERIMENTS && *jget_string(body, "filter", ""))
        b->filter = jget_string(body, "filter", "");
    if (!b->filter)
        return read_ids(b, e);
    if (!json_array_size(jget(body, ids)))
        return 0;
    return error_set(e, ERR_INVALID, "%s: give either these or a filter, not both", ids);
}

static int read_call(struct core *c, struct bulk_call *b, struct error *e)
{
    struct request *rq = b->rq;
    int err = read_project(b, e);
    b->argument = jget_int(rq->body, "destinationProjectId", 0);
    if (!err && b->verb == VERB_MOVE)
        err = core_may_submit(c, rq, b->argument, e);
    if (!err && b->verb == VERB_RETAIN_LOGS)
        err = log_retention_read_days(rq, &b->argument, e);
    return err ? err : read_selection(b, e);
}

static int bulk_submit(struct core *c, struct request *rq, enum bulk_noun noun,
                       enum experiment_verb verb, struct error *e)
{
    struct bulk_call *b = xcalloc(1, sizeof *b);
    b->work = (struct work){.run = bulk_read, .done = bulk_ready, .drop = bulk_free};
    b->rq = rq;
    b->noun = noun;
    b->verb = verb;
    int err = read_call(c, b, e);
    bool reads =
        noun == OF_RUNS || b->filter || (noun == OF_EXPERIMENTS && jget(rq->body, "filters"));
    if (!err && reads) {
        err = workers_send(c->workers, &b->work, WORK_SLOW, e);
        if (!err)
            return REQUEST_PARKED;
    } else if (!err) {
        apply_to_all(c, b);
    }
    bulk_free(&b->work);
    return err;
}

#define VERB(noun, of, name, verb)                                                                 \
    int core_##noun##_##name(struct core *c, struct request *rq, struct error *e)                  \
    {                                                                                              \
        return bulk_submit(c, rq, of, verb, e);                                                    \
    }
#define VERBS(noun, of)                                                                            \
    VERB(noun, of, activate, VERB_ACTIVATE)                                                        \
    VERB(noun, of, pause, VERB_PAUSE)                                                              \
    VERB(noun, of, kill, VERB_KILL)                                                                \
    VERB(noun, of, archive, VERB_ARCHIVE)                                                          \
    VERB(noun, of, unarchive, VERB_UNARCHIVE)                                                      \
    VERB(noun, of, delete, VERB_DELETE)                                                            \
    VERB(noun, of, move, VERB_MOVE)
VERBS(experiments, OF_EXPERIMENTS)
VERBS(searches, OF_SEARCHES)
VERBS(runs, OF_RUNS)
VERB(experiments, OF_EXPERIMENTS, cancel, VERB_CANCEL)
VERB(searches, OF_SEARCHES, cancel, VERB_CANCEL)
VERB(experiments, OF_EXPERIMENTS, retain_logs, VERB_RETAIN_LOGS)
