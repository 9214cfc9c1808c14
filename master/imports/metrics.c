// The reports of imported trials. A trial's metrics begin ("metrics_begin"), come in any number of
// posts, and end ("metrics_end") with what the trial shows of them. Until they have ended, another
// import starts them again from nothing.
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text/json.h"
#include "db/metrics/compaction.h"
#include "master/imports/internal.h"
#include "master/imports/module.h"
#include "master/ingest/metric_parse.h"
#include "master/ingest/metric_summary.h"
#include "master/ingest/reports.h"

enum { POSTS_MAX = 1000 }; // so that other calls do not wait long for the core thread

// --- begin and end -------------------------------------------------------------------------------

// The trial that the record names, if it is as the import left it.
static bool find_trial(struct import_call *m, const json_t *record, struct import_result *r,
                       int64_t *trial, int64_t *experiment)
{
    if (!import_reference(m, record, "old", "trial", r, trial))
        return false;
    struct db_rows *rows = DB_QUERY(m->c->reader, IMPORT_TRIAL_OWNER, *trial);
    bool found = db_next(rows) == 1;
    bool ran = found && DB_GET(rows, IMPORT_TRIAL_OWNER, run_id) > 1;
    *experiment = found ? DB_GET(rows, IMPORT_TRIAL_OWNER, experiment_id) : 0;
    db_rows_close(rows);
    const struct experiment *x = core_experiment_find(m->c, *experiment);
    if (!x || ran || x->active)
        import_skip(r, "the trial was %s here", x ? "continued" : "deleted");
    return x && !ran && !x->active;
}

void import_metrics_begin(struct import_call *m, const json_t *record, struct import_result *r)
{
    int64_t trial, experiment;
    const char *old = import_text(record, "old");
    struct imported found = import_find(m, "metrics", old);
    if (found.found && !strcmp(found.digest, import_text(record, "mark"))) {
        *r = (struct import_result){.outcome = IMPORT_EXISTING, .id = found.id};
        return;
    }
    if (!find_trial(m, record, r, &trial, &experiment))
        return;
    STORE(m->c, IMPORT_DELETE_METRICS, trial);
    STORE(m->c, IMPORT_DELETE_METRIC_COLUMNS, trial);
    STORE(m->c, IMPORT_DELETE_METRIC_CHUNKS, trial);
    import_keep(m, "metrics", old, trial, false, "");
    r->outcome = found.found ? IMPORT_CHANGED : IMPORT_NEW;
    r->id = trial;
}

struct imported_summary {
    struct core *c;
    int64_t experiment;
    const char *group;
};

static void store_value(void *ctx, const struct summary_value *v)
{
    const struct imported_summary *to = ctx;
    char *name = xasprintf("%s.%s", to->group, v->name);
    STORE(to->c, EXPERIMENT_METRIC_SET, to->experiment, name, v->last, v->low, v->high);
    free(name);
}

// The summary without metrics that were not always finite: the trial's later reports and lists
// count with its numbers. Heap.
static char *read_summary(const json_t *record)
{
    static const char *const needed[] = {"last", "min", "max", "sum"};
    json_t *out = json_object(), *group, *metric;
    const char *key, *name;
    json_object_foreach(jget(record, "summary"), key, group)
    {
        json_t *kept = json_object();
        json_object_foreach(group, name, metric)
        {
            bool good = jget_int(metric, "count", 0) > 0;
            for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
                good &= json_is_number(jget(metric, needed[i]));
            if (good)
                json_object_set(kept, name, metric);
        }
        json_object_set_new(out, key, kept);
    }
    char *text = json_text(out);
    json_decref(out);
    return text;
}

static void store_summary(struct import_call *m, const json_t *record, int64_t trial,
                          int64_t experiment)
{
    static const char *const groups[] = {"training", "validation"};
    const json_t *training = jget(record, "latestTraining");
    char *given = read_summary(record);
    struct summary *summary = summary_new(given);
    char *text = summary_text(summary), *report = training ? json_text(training) : NULL;
    STORE(m->c, TRIAL_SET_METRICS, jget_int(record, "steps", 0), report, text,
          m->c->metrics->next_report - 1, trial);
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        struct imported_summary to = {m->c, experiment, groups[i]};
        summary_each(summary, groups[i], store_value, &to);
    }
    free(report);
    free(text);
    summary_free(summary);
    free(given);
}

void import_metrics_end(struct import_call *m, const json_t *record, struct import_result *r)
{
    int64_t trial, experiment;
    if (!find_trial(m, record, r, &trial, &experiment))
        return;
    const json_t *latest = jget(record, "latestValidation"), *best = jget(record, "bestValidation");
    char *latest_text = latest ? json_text(latest) : NULL,
         *best_text = best ? json_text(best) : NULL;
    store_summary(m, record, trial, experiment);
    STORE(m->c, TRIAL_SET_LATEST_VALIDATION, latest_text, trial);
    STORE(m->c, TRIAL_SET_BEST_VALIDATION, best_text, trial);
    STORE(m->c, TRIAL_SET_LOOSE, 1, trial); // packed for good after the next start
    import_keep(m, "metrics", import_text(record, "old"), trial, false,
                import_text(record, "mark"));
    change_mark(m->c, EVENT_TRIAL, experiment, trial, NULL);
    r->id = trial;
    free(best_text);
    free(latest_text);
}

// --- POST /imports/{id}/metrics ------------------------------------------------------------------

struct trial_post {
    const char *old; // the trial's id in the other cluster
    struct metric_post *post;
};

struct posts {
    struct trial_post *list;
    size_t count;
    const char *call; // the client's name for this call; "": none
};

static void free_nothing(void *input)
{
    (void)input; // freed with the arena
}

// Reads one post on the thread where the body arrives: columns of many steps, or a single report.
static int read_post(struct request *rq, const json_t *body, struct trial_post *out,
                     struct error *e)
{
    out->old = arena_strdup(&rq->arena, import_text(body, "trial"));
    int err =
        jget(body, "steps") ? metric_columns_parse(rq, body, e) : metric_report_parse(rq, body, e);
    out->post = rq->input;
    if (!err && !out->post->timed)
        err = error_set(e, ERR_INVALID, "the reports have no times");
    return err;
}

int import_metrics_read(struct request *rq, char *text, size_t len, struct error *e)
{
    json_t *body = NULL, *post;
    size_t i;
    int err = json_parse(text, len, "request body", &body, e);
    const json_t *list = jget(body, "posts");
    if (!err && (!json_is_array(list) || json_array_size(list) > POSTS_MAX))
        err = error_set(e, ERR_INVALID, "posts: not a list of up to %d posts", POSTS_MAX);
    struct posts *posts = arena_alloc(&rq->arena, sizeof *posts);
    *posts = (struct posts){.call = arena_strdup(&rq->arena, import_text(body, "call"))};
    if (!err && strlen(posts->call) >= SHA256_HEX)
        err = error_set(e, ERR_INVALID, "call: longer than %d bytes", SHA256_HEX - 1);
    if (!err)
        posts->list = arena_alloc(&rq->arena, (json_array_size(list) + 1) * sizeof *posts->list);
    json_array_foreach((json_t *)list, i, post)
    {
        err = err ? err : read_post(rq, post, &posts->list[posts->count++], e);
        if (err) {
            error_prefix(e, "posts[%zu]", i);
            break;
        }
    }
    json_decref(body);
    rq->input = posts;
    rq->input_free = free_nothing;
    return err;
}

static bool steps_ascend(const struct series_block *b)
{
    for (size_t i = 1; i < b->count; i++)
        if (b->steps[i] <= b->steps[i - 1])
            return false;
    return b->count > 0 && b->steps[0] >= 0;
}

static void store_post(struct core *c, int64_t trial, struct metric_post *p)
{
    struct series_block *b = &p->block;
    int64_t id = report_ids_take(c, b->count);
    for (size_t i = 0; i < b->count; i++) {
        b->ids[i] = id + (int64_t)i;
        b->runs[i] = 1;
    }
    if (b->count >= COMPACTION_KEEP && steps_ascend(b))
        compaction_add_chunk(core_batch(c), trial, p->group, b, 0, b->count);
    else
        compaction_add_row(core_batch(c), trial, p->group, b, 0, b->count);
    for (size_t i = 0; i < b->count && !strcmp(p->group, "validation"); i++)
        checkpoint_validation_store(c, trial, b, i);
}

// Nothing is stored if one of the trials has not begun, or if the call is the last one, repeated.
int import_metrics_store(struct import_call *m, struct error *e)
{
    struct posts *posts = m->rq->input;
    if (*posts->call && !strcmp(import_find(m, "call", "metrics").digest, posts->call))
        return 0;
    int64_t *trials = arena_alloc(&m->rq->arena, (posts->count + 1) * sizeof *trials);
    for (size_t i = 0; i < posts->count; i++) {
        struct imported found = import_find(m, "metrics", posts->list[i].old);
        if (!found.found || *found.digest)
            return error_set(e, ERR_CONFLICT,
                             "posts[%zu]: the metrics of trial %.64s were not begun: send a "
                             "metrics_begin record first",
                             i, posts->list[i].old);
        trials[i] = found.id;
    }
    for (size_t i = 0; i < posts->count; i++)
        store_post(m->c, trials[i], posts->list[i].post);
    if (*posts->call)
        import_keep(m, "call", "metrics", 0, false, posts->call);
    return 0;
}
